"""`headway import` and `headway backfill` as a person runs them."""

import csv
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

Headway = Callable[..., Any]
Execute = Callable[..., None]
HEADER = "sku,title,shopify_product_id\n"


@pytest.fixture
def parts(tmp_path: Path) -> Callable[[str | bytes], str]:
    """Write the file that is imported."""

    def write(text: str | bytes) -> str:
        (tmp_path / "parts.csv").write_bytes(text.encode() if isinstance(text, str) else text)
        return "parts.csv"

    return write


def ask(pool: ConnectionPool, statement: str) -> list[Any]:
    with pool.connection() as connection:
        return connection.execute(statement).fetchall()


def test_a_file_goes_in_and_the_counts_are_told(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool
) -> None:
    file = parts(f"\ufeff{HEADER}A,Bolt,123\nB,,\n")
    done = on_database("import", file, "--seller", "acme", "--json")
    assert done.code == 0, done.err
    told = done.object()
    assert (told["added"], told["refused"], told["rejected_file"]) == (2, 0, None)
    rows = ask(pool, "SELECT user_id, sku, title, shopify_product_id FROM product ORDER BY sku")
    assert rows == [("acme", "A", "Bolt", "gid://shopify/Product/123"), ("acme", "B", "", None)]
    shown = on_database("import", file, "--seller", "acme").out
    assert "unchanged  2" in shown


def test_bad_rows_are_told_by_line_and_kept_in_a_file_that_can_be_mended(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool, tmp_path: Path
) -> None:
    file = parts("sku,seller,title\nA,acme,Bolt\n,acme,\nA,acme,again\n\x1b[2J,acme,\nB,zenith,x\n")
    done = on_database("import", file, "--seller", "acme")
    assert done.code == 1
    assert "3" in done.out
    assert "sku: the part is in line 2 already" in done.out
    assert "added      1" in done.out
    assert "refused    4, all of them in parts.rejected.csv" in done.out
    assert "\x1b[2J" not in done.out
    with (tmp_path / "parts.rejected.csv").open(encoding="utf-8", newline="") as opened:
        refused = list(csv.DictReader(opened))
    assert [each["line"] for each in refused] == ["3", "4", "5", "6"]
    assert refused[1]["reason"] == "sku: the part is in line 2 already"
    assert (refused[3]["sku"], refused[3]["seller"], refused[3]["title"]) == ("B", "zenith", "x")
    mended = on_database("import", "parts.rejected.csv", "--seller", "zenith", "--json").object()
    assert mended["added"] == 1
    assert ask(pool, "SELECT user_id, sku FROM product ORDER BY 1") == [
        ("acme", "A"),
        ("zenith", "B"),
    ]


def test_values_go_in_and_bad_ones_come_back_in_the_file_that_can_be_mended(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool, tmp_path: Path
) -> None:
    header = "sku,family,weight,sales,margin,tier\n"
    good = "A,Hexcel,2.5,,,\nB,,,10,2.5,pro\n"
    bad = 'C,,0,,,\nD,,,"1,5",,\nE,,,,nan,\nF,,,,,gold\nG,Hexcel,1,2,,\nB,Hexcel,,0,1.5,pro\n'
    done = on_database("import", parts(header + good + bad), "--seller", "acme", "--json")
    assert (done.code, done.object()["added"], done.object()["refused"]) == (1, 2, 6)
    values = "SELECT sku, family, value_weight FROM product_sync_schedule ORDER BY sku"
    assert ask(pool, values) == [("A", "Hexcel", 2.5), ("B", None, 100)]
    mending = tmp_path / "parts.rejected.csv"
    with mending.open(encoding="utf-8", newline="") as opened:
        refused = list(csv.DictReader(opened))
    assert [each["reason"].partition(":")[0] for each in refused] == [
        *("weight", "sales", "margin", "tier", "weight", "sku")
    ]
    assert [refused[0]["weight"], refused[1]["sales"], refused[3]["tier"]] == ["0", "1,5", "gold"]
    kept = refused[5]
    assert (kept["family"], float(kept["sales"]), kept["tier"]) == ("Hexcel", 0, "pro")
    with mending.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, refused[0])
        writer.writeheader()
        writer.writerow(refused[1] | {"sales": "1.5"})
        writer.writerow(kept)
    mended = on_database("import", mending.name, "--seller", "acme", "--json").object()
    assert (mended["added"], mended["updated"], mended["refused"]) == (1, 1, 0)
    assert ask(pool, values)[1:] == [("B", "Hexcel", 0.06), ("D", None, 1.5)]


@pytest.mark.parametrize("name", ("-", "/dev/stdin"))
def test_what_comes_through_a_pipe_leaves_its_bad_rows_in_this_folder(
    database: str, pool: ConnectionPool, tmp_path: Path, name: str
) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("headway"), "import", name, "--seller", "acme"],
        cwd=tmp_path,
        env={**os.environ, "DATABASE_URL": database, "HEADWAY_DATA_DIR": str(tmp_path / "none")},
        input=b"sku\nA\n\x07\n",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert b"all of them in import.rejected.csv" in done.stdout
    assert (tmp_path / "import.rejected.csv").is_file()
    assert ask(pool, "SELECT sku FROM product") == [("A",)]


def test_only_the_first_bad_rows_are_shown(
    on_database: Headway, parts: Callable[..., str], tmp_path: Path
) -> None:
    file = parts(HEADER + ",x,\n" * 30)
    done = on_database("import", file, "--seller", "acme", "--json")
    assert (done.code, done.object()["refused"]) == (1, 30)
    assert len(done.object()["first_refused"]) == 20
    assert (tmp_path / "parts.rejected.csv").read_text().count("\n") == 31


def test_a_rehearsal_changes_nothing(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool
) -> None:
    done = on_database("import", parts(HEADER + "A,,\n"), "--seller", "acme", "--dry-run")
    assert done.code == 0
    assert "would be added    1" in done.out
    assert ask(pool, "SELECT count(*) FROM product") == [(0,)]


@pytest.mark.parametrize(
    ("text", "why"),
    (
        ("sku,colour\nA,red\n", "unknown column 'colour'"),
        (b"sku\nA\n\xff\n", "line 3 is not UTF-8"),
        ("", "the first line names the columns"),
    ),
)
def test_an_unusable_file_is_one_line_that_says_why(
    on_database: Headway,
    parts: Callable[..., str],
    pool: ConnectionPool,
    text: str | bytes,
    why: str,
) -> None:
    said = on_database("import", parts(text), "--seller", "acme").complaint(2)
    assert "parts.csv: " in said
    assert why in said
    assert said.endswith("nothing was imported")
    assert ask(pool, "SELECT count(*) FROM product") == [(0,)]


def test_a_file_that_is_not_there_is_one_line_too(on_database: Headway) -> None:
    said = on_database("import", "none.csv", "--seller", "acme").complaint(2)
    assert said == "headway: cannot read none.csv: No such file or directory"


def test_the_seller_is_the_only_one_with_a_shop_or_must_be_named(
    on_database: Headway, parts: Callable[..., str], execute: Execute, pool: ConnectionPool
) -> None:
    file = parts(HEADER + "A,,\n")
    assert "--seller" in on_database("import", file).complaint(2)
    execute(
        "INSERT INTO connected_accounts (user_id, platform, shop) VALUES ('acme', 'shopify', 'a.b')"
    )
    assert on_database("import", file).code == 0
    assert ask(pool, "SELECT user_id FROM product") == [("acme",)]


def test_the_shop_sku_follows_the_setting(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool
) -> None:
    file = parts("sku\nWF1=K3\nWF1=E9\nWF2=K3\n")
    done = on_database("import", file, "--seller", "acme", "--json", HEADWAY_SHOP_SKU="base")
    assert done.object()["refused"] == 2
    assert ask(pool, "SELECT sku, shop_sku FROM product") == [("WF2=K3", "WF2")]


def test_the_guard_knows_how_large_the_catalog_is_afterwards(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool
) -> None:
    on_database("import", parts("sku\nA\nB\nC\n"), "--seller", "acme")
    assert ask(pool, "SELECT user_id, listing_count FROM profiles") == [("acme", 3)]


def test_a_terminal_sees_progress(database: str, tmp_path: Path) -> None:
    (tmp_path / "parts.csv").write_text("sku\n" + "".join(f"P{n}\n" for n in range(20_000)))
    ours, theirs = pty.openpty()
    program = Path(sys.executable).with_name("headway")
    running = subprocess.Popen(
        [program, "import", "parts.csv", "--seller", "acme"],
        cwd=tmp_path,
        env={**os.environ, "DATABASE_URL": database, "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed: how a terminal's end is told
            break
    os.close(ours)
    assert running.wait() == 0
    assert b"importing parts.csv" in shown


def test_backfill_gives_every_product_its_slot(
    on_database: Headway, execute: Execute, pool: ConnectionPool
) -> None:
    execute(
        "INSERT INTO product (user_id, sku, shop_sku)"
        " SELECT seller, 'P' || n, 'P' || n FROM generate_series(1, 200) AS n,"
        " (VALUES ('acme'), ('zenith')) AS named(seller)"
    )
    done = on_database("backfill", "--seller", "acme", "--json")
    assert (done.code, done.object()) == (0, {"added": 200})
    assert ask(pool, "SELECT DISTINCT user_id, priority FROM product_sync_schedule") == [
        ("acme", "scheduled")
    ]
    assert on_database("backfill").out == "200 products have a slot now\n"
    assert on_database("backfill").out == "every product has its slot\n"
    spread = "SELECT count(*), count(DISTINCT next_sync_at) > 100 FROM product_sync_schedule"
    assert ask(pool, spread) == [(400, True)]
