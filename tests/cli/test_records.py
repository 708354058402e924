"""`headway records`: lists, and files of every form."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg_pool import ConnectionPool
from tests.operations.sample import create_sample

from headway.cli.records import PAGE
from headway.clock import SystemClock

Headway = Callable[..., Any]
LISTINGS = """
INSERT INTO listings (account_id, user_id, platform, external_id, title, state, price, currency,
  checked_at, created_at, updated_at)
SELECT id, user_id, platform, 'n' || number, '=1+1', 'active', 12.5, 'USD', now(), now(), now()
FROM connected_accounts, generate_series(1, %s) AS number
WHERE platform = 'etsy' AND user_id = 'acme'
"""


@pytest.fixture(autouse=True)
def rows(pool: ConnectionPool, tmp_path: Path) -> None:
    create_sample(pool, SystemClock(), tmp_path)  # type: ignore[arg-type]
    with pool.connection() as connection:
        connection.execute(LISTINGS, (PAGE + 5,))


def test_a_csv_has_every_record_and_no_formula(on_database: Headway) -> None:
    table = list(csv.DictReader(io.StringIO(on_database("records", "export", "listings").out)))
    assert len(table) == PAGE + 5
    assert {row["title"] for row in table} == {"'=1+1"}
    assert {row["price"] for row in table} == {"12.5"}


def test_a_parquet_file_has_types(on_database: Headway, tmp_path: Path) -> None:
    path = tmp_path / "listings.parquet"
    result = on_database(
        "records", "export", "listings", "--format", "parquet", "--output", str(path)
    )
    assert result.out.strip() == f"1,005 records in {path}"
    table = pq.read_table(path)
    assert (table.num_rows, table.schema.field("price").type) == (PAGE + 5, pa.decimal128(38, 4))
    assert table.schema.field("changed_at").type == pa.timestamp("us", tz="UTC")
    message = on_database("records", "export", "listings", "--format", "parquet").error(2)
    assert "--output FILE" in message


def test_the_next_export_has_what_changed_since(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path
) -> None:
    kept = ("--format", "jsonl", "--cursor-file", str(tmp_path / "cursor"))
    first = on_database("records", "export", "listings", *kept).out.splitlines()
    assert len(first) == PAGE + 5
    assert on_database("records", "export", "listings", *kept).out == ""
    with pool.connection() as connection:
        connection.execute("UPDATE listings SET state = 'removed' WHERE external_id = 'n7'")
        connection.execute("DELETE FROM listings WHERE external_id = 'n8'")
    rows = [
        json.loads(line)
        for line in on_database("records", "export", "listings", *kept).out.splitlines()
    ]
    assert [(row["id"], row["state"], row["is_deleted"]) for row in rows] == [
        ("n7", "removed", False),
        ("n8", None, True),
    ]


def test_a_file_that_cannot_be_written_leaves_what_was_there(
    on_database: Headway, tmp_path: Path
) -> None:
    path = tmp_path / "listings.csv"
    path.write_text("before")
    arguments = ("records", "export", "listings", "--seller", "nobody", "--output", str(path))
    assert "no seller nobody" in on_database(*arguments).error(2)
    assert path.read_text() == "before"
    assert sorted(tmp_path.glob(".*")) == []
    missing = str(tmp_path / "none" / "x.csv")
    assert "No such file" in on_database(
        "records", "export", "listings", "--output", missing
    ).error(2)


def test_a_list_shows_the_first_few(on_database: Headway) -> None:
    output = on_database("records", "list", "listings", "--limit", "2").out
    assert "n1 " in output
    assert "all with: headway records export listings" in output
    page = on_database("records", "list", "listings", "--limit", "2", "--json").object()
    assert [row["id"] for row in page["items"]] == ["n1", "n10"]
    assert page["has_more"] is True
