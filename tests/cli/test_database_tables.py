"""The page of tables, made from the comments of the migrations."""

from pathlib import Path

from psycopg_pool import ConnectionPool
from tests.cli.conftest import Headway

from headway.cli.database_tables import READ, tables_page
from headway.store.schema import described_columns

PAGE = Path(__file__).parents[2] / "docs/reference/tables.md"


def test_the_page_of_tables_is_up_to_date(pool: ConnectionPool) -> None:
    assert PAGE.read_text(encoding="utf-8") == tables_page(described_columns(pool)), (
        "run: headway db tables > docs/reference/tables.md"
    )


def test_every_column_of_a_table_that_users_read_has_a_comment(pool: ConnectionPool) -> None:
    columns = described_columns(pool)
    assert {column.table_name for column in columns} >= set(READ)
    nameless = [
        f"{column.table_name}.{column.name}"
        for column in columns
        if column.table_name in READ and not column.comment
    ]
    assert nameless == [], "describe them with COMMENT ON in a migration"
    assert [row.table_name for row in columns if not row.table_comment] == []


def test_the_values_of_a_column_are_those_of_its_check(pool: ConnectionPool) -> None:
    (tier,) = [
        column
        for column in described_columns(pool)
        if (column.table_name, column.name) == ("profiles", "tier")
    ]
    assert list(tier.choices) == ["free", "starter", "growth", "pro"]


def test_the_command_prints_the_page(on_database: Headway) -> None:
    assert on_database("db", "tables").out == PAGE.read_text(encoding="utf-8")
    assert on_database("db", "tables", "--json").object()[0]["table_name"]
