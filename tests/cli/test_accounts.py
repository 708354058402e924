"""`headway accounts` and `sellers` as a person uses them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psycopg_pool import ConnectionPool

Headway = Callable[..., Any]


def test_a_file_is_imported_line_by_line_and_again_without_harm(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path
) -> None:
    token = {"platform": "printify", "access_token": "tok", "check": False}
    rows = [{"seller": f"s{n}", "shop": str(n), **token} for n in range(1, 4)]
    lines = [
        *map(json.dumps, rows),
        "not json",
        "[1]",
        json.dumps({"seller": "s9", "shop": "9", "platform": "etsy"}),
    ]
    (tmp_path / "accounts.jsonl").write_text("\n".join(lines))
    for _ in range(2):
        result = on_database("accounts", "import", "accounts.jsonl")
        assert result.code == 1, "some were refused"
        assert result.out.splitlines() == [
            "line 4: refused: a line must be a JSON object",
            "line 5: refused: a line must be a JSON object",
            "line 6: refused: access_token: it is needed to connect a shop",
            "3 connected, 3 refused",
        ]
    as_json = on_database("accounts", "import", "accounts.jsonl", "--json").out.splitlines()
    assert [json.loads(line)["line"] for line in as_json] == [1, 2, 3, 4, 5, 6]
    assert "tok" not in "".join(as_json).replace("token", "")
    with pool.connection() as connection:
        counts = connection.execute("SELECT count(*), count(DISTINCT id) FROM connected_accounts")
        assert counts.fetchall() == [(3, 3)]


def test_jobs_of_an_account_are_paused_and_resumed_by_its_id(
    on_database: Headway, tmp_path: Path
) -> None:
    row = {"seller": "acme", "shop": "1", "platform": "printify", "access_token": "tok"}
    (tmp_path / "one.jsonl").write_text(json.dumps({**row, "check": False}))
    assert on_database("accounts", "import", "one.jsonl").code == 0
    ((account,),) = [[row["id"] for row in on_database("accounts", "list", "--json").object()]]
    paused = on_database("accounts", "pause", account, "--kind", "orders").out
    assert paused.startswith("2 jobs paused")
    assert on_database("accounts", "resume", account).out.startswith("2 jobs resumed")
    assert on_database("accounts", "show", account).out.count("connected") == 1
    assert "there is no such account" in on_database("accounts", "show", "nobody").error(2)
    ended = on_database("accounts", "disconnect", account, "--reason", "sold")
    assert ended.out.strip() == "1 of acme is disconnected, and its tokens are forgotten"
    created = on_database("sellers", "create", "nova", "--tier", "pro").out.strip()
    assert created == "nova is created, with the tier pro"
    names = [row["seller"] for row in on_database("sellers", "list", "--json").object()]
    assert names == ["acme", "nova"]
