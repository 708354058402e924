"""The commands import and backfill."""

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
    """Write the file to import; return its name."""

    def write(text: str | bytes) -> str:
        (tmp_path / "parts.csv").write_bytes(text.encode() if isinstance(text, str) else text)
        return "parts.csv"

    return write


def query(pool: ConnectionPool, statement: str) -> list[Any]:
    with pool.connection() as connection:
        return connection.execute(statement).fetchall()


def test_a_file_is_imported_and_the_counts_are_reported(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool
) -> None:
    file = parts(f"\ufeff{HEADER}A,Bolt,123\nB,,\n")
    result = on_database("import", file, "--seller", "acme", "--json")
    assert result.code == 0, result.err
    counts = result.object()
    assert (counts["added"], counts["refused"], counts["rejected_file"]) == (2, 0, None)
    rows = query(pool, "SELECT user_id, sku, title, shopify_product_id FROM product ORDER BY sku")
    assert rows == [("acme", "A", "Bolt", "gid://shopify/Product/123"), ("acme", "B", "", None)]
    output = on_database("import", file, "--seller", "acme").out
    assert "unchanged  2" in output


def test_invalid_rows_are_reported_by_line_and_written_to_a_file_for_correction(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool, tmp_path: Path
) -> None:
    file = parts("sku,seller,title\nA,acme,Bolt\n,acme,\nA,acme,again\n\x1b[2J,acme,\nB,zenith,x\n")
    result = on_database("import", file, "--seller", "acme")
    assert result.code == 1
    assert "3" in result.out
    assert "sku: the part is in line 2 already" in result.out
    assert "added      1" in result.out
    assert "refused    4, all of them in parts.rejected.csv" in result.out
    assert "\x1b[2J" not in result.out
    with (tmp_path / "parts.rejected.csv").open(encoding="utf-8", newline="") as csv_file:
        refused = list(csv.DictReader(csv_file))
    assert [row["line"] for row in refused] == ["3", "4", "5", "6"]
    assert refused[1]["reason"] == "sku: the part is in line 2 already"
    assert (refused[3]["sku"], refused[3]["seller"], refused[3]["title"]) == ("B", "zenith", "x")
    corrected = on_database("import", "parts.rejected.csv", "--seller", "zenith", "--json").object()
    assert corrected["added"] == 1
    assert query(pool, "SELECT user_id, sku FROM product ORDER BY 1") == [
        ("acme", "A"),
        ("zenith", "B"),
    ]


def test_values_are_imported_and_invalid_ones_are_written_to_the_file_for_correction(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool, tmp_path: Path
) -> None:
    header = "sku,family,weight,sales,margin,tier\n"
    good = "A,Hexcel,2.5,,,\nB,,,10,2.5,pro\n"
    bad = 'C,,0,,,\nD,,,"1,5",,\nE,,,,nan,\nF,,,,,gold\nG,Hexcel,1,2,,\nB,Hexcel,,0,1.5,pro\n'
    result = on_database("import", parts(header + good + bad), "--seller", "acme", "--json")
    assert (result.code, result.object()["added"], result.object()["refused"]) == (1, 2, 6)
    values = "SELECT sku, family, value_weight FROM product_sync_schedule ORDER BY sku"
    assert query(pool, values) == [("A", "Hexcel", 2.5), ("B", None, 100)]
    rejected = tmp_path / "parts.rejected.csv"
    with rejected.open(encoding="utf-8", newline="") as csv_file:
        refused = list(csv.DictReader(csv_file))
    assert [row["reason"].partition(":")[0] for row in refused] == [
        *("weight", "sales", "margin", "tier", "weight", "sku")
    ]
    assert [refused[0]["weight"], refused[1]["sales"], refused[3]["tier"]] == ["0", "1,5", "gold"]
    last_row = refused[5]
    assert (last_row["family"], float(last_row["sales"]), last_row["tier"]) == ("Hexcel", 0, "pro")
    with rejected.open("w", encoding="utf-8", newline="") as csv_file:
        writer = csv.DictWriter(csv_file, refused[0])
        writer.writeheader()
        writer.writerow(refused[1] | {"sales": "1.5"})
        writer.writerow(last_row)
    corrected = on_database("import", rejected.name, "--seller", "acme", "--json").object()
    assert (corrected["added"], corrected["updated"], corrected["refused"]) == (1, 1, 0)
    assert query(pool, values)[1:] == [("B", "Hexcel", 0.06), ("D", None, 1.5)]


@pytest.mark.parametrize("name", ("-", "/dev/stdin"))
def test_invalid_rows_from_a_pipe_are_written_to_the_current_folder(
    database: str, pool: ConnectionPool, tmp_path: Path, name: str
) -> None:
    result = subprocess.run(
        [Path(sys.executable).with_name("headway"), "import", name, "--seller", "acme"],
        cwd=tmp_path,
        env={**os.environ, "DATABASE_URL": database, "HEADWAY_DATA_DIR": str(tmp_path / "none")},
        input=b"sku\nA\n\x07\n",
        capture_output=True,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    assert b"all of them in import.rejected.csv" in result.stdout
    assert (tmp_path / "import.rejected.csv").is_file()
    assert query(pool, "SELECT sku FROM product") == [("A",)]


def test_only_the_first_bad_rows_are_shown(
    on_database: Headway, parts: Callable[..., str], tmp_path: Path
) -> None:
    file = parts(HEADER + ",x,\n" * 30)
    result = on_database("import", file, "--seller", "acme", "--json")
    assert (result.code, result.object()["refused"]) == (1, 30)
    assert len(result.object()["first_refused"]) == 20
    assert (tmp_path / "parts.rejected.csv").read_text().count("\n") == 31


def test_a_dry_run_changes_nothing(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool
) -> None:
    result = on_database("import", parts(HEADER + "A,,\n"), "--seller", "acme", "--dry-run")
    assert result.code == 0
    assert "would be added    1" in result.out
    assert query(pool, "SELECT count(*) FROM product") == [(0,)]


@pytest.mark.parametrize(
    ("text", "reason"),
    (
        ("sku,colour\nA,red\n", "unknown column 'colour'"),
        (b"sku\nA\n\xff\n", "line 3 is not UTF-8"),
        ("", "the first line names the columns"),
    ),
)
def test_an_unusable_file_is_refused_with_a_reason(
    on_database: Headway,
    parts: Callable[..., str],
    pool: ConnectionPool,
    text: str | bytes,
    reason: str,
) -> None:
    message = on_database("import", parts(text), "--seller", "acme").error(2)
    assert "parts.csv: " in message
    assert reason in message
    assert message.endswith("nothing was imported")
    assert query(pool, "SELECT count(*) FROM product") == [(0,)]


def test_a_missing_file_is_reported(on_database: Headway) -> None:
    message = on_database("import", "none.csv", "--seller", "acme").error(2)
    assert message == "headway: cannot read none.csv: No such file or directory"


def test_the_seller_is_the_only_one_with_a_shop_or_must_be_named(
    on_database: Headway, parts: Callable[..., str], execute: Execute, pool: ConnectionPool
) -> None:
    file = parts(HEADER + "A,,\n")
    assert "--seller" in on_database("import", file).error(2)
    execute(
        "INSERT INTO connected_accounts (user_id, platform, shop) VALUES ('acme', 'shopify', 'a.b')"
    )
    assert on_database("import", file).code == 0
    assert query(pool, "SELECT user_id FROM product") == [("acme",)]


def test_the_shop_sku_follows_the_setting(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool
) -> None:
    file = parts("sku\nWF1=K3\nWF1=E9\nWF2=K3\n")
    result = on_database("import", file, "--seller", "acme", "--json", HEADWAY_SHOP_SKU="base")
    assert result.object()["refused"] == 2
    assert query(pool, "SELECT sku, shop_sku FROM product") == [("WF2=K3", "WF2")]


def test_the_size_of_the_catalog_is_stored_for_the_guard(
    on_database: Headway, parts: Callable[..., str], pool: ConnectionPool
) -> None:
    on_database("import", parts("sku\nA\nB\nC\n"), "--seller", "acme")
    assert query(pool, "SELECT user_id, listing_count FROM profiles") == [("acme", 3)]


def test_a_terminal_shows_progress(database: str, tmp_path: Path) -> None:
    (tmp_path / "parts.csv").write_text("sku\n" + "".join(f"P{n}\n" for n in range(20_000)))
    terminal, stderr = pty.openpty()
    program = Path(sys.executable).with_name("headway")
    process = subprocess.Popen(
        [program, "import", "parts.csv", "--seller", "acme"],
        cwd=tmp_path,
        env={**os.environ, "DATABASE_URL": database, "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )
    os.close(stderr)
    output = b""
    while True:
        try:
            output += os.read(terminal, 65536)
        except OSError:  # raised when the other end of the terminal is closed
            break
    os.close(terminal)
    assert process.wait() == 0
    assert b"importing parts.csv" in output


def test_backfill_gives_every_product_its_slot(
    on_database: Headway, execute: Execute, pool: ConnectionPool
) -> None:
    execute(
        "INSERT INTO product (user_id, sku, shop_sku)"
        " SELECT seller, 'P' || n, 'P' || n FROM generate_series(1, 200) AS n,"
        " (VALUES ('acme'), ('zenith')) AS named(seller)"
    )
    result = on_database("backfill", "--seller", "acme", "--json")
    assert (result.code, result.object()) == (0, {"added": 200})
    assert query(pool, "SELECT DISTINCT user_id, priority FROM product_sync_schedule") == [
        ("acme", "scheduled")
    ]
    assert on_database("backfill").out == "200 products have a slot now\n"
    assert on_database("backfill").out == "every product has its slot\n"
    spread = "SELECT count(*), count(DISTINCT next_sync_at) > 100 FROM product_sync_schedule"
    assert query(pool, spread) == [(400, True)]
