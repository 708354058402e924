"""The page of tables: which a program may read, with every column, from the database's comments."""

from collections.abc import Sequence
from itertools import groupby

from headway.store.schema import ColumnDescription

# What programs and people read, by subject. The other tables are listed by name alone.
SUBJECTS = {
    "Orders, listings, customers and payments": (
        "orders",
        "line_items",
        "shipments",
        "refunds",
        "listings",
        "customers",
        "payments",
    ),
    "Sellers, accounts and jobs": ("profiles", "connected_accounts", "sync_jobs"),
    "Parts and their shop": (
        "product_sync_schedule",
        "product",
        "product_staging",
        "sync_audit_log",
    ),
}
READ = [table for tables in SUBJECTS.values() for table in tables]
HEAD = """# Tables

Headway stores its data in PostgreSQL, and your programs can read it. Do not write to these tables:
use the [API](api.md) or a command, which keep the rows consistent. Times are UTC, amounts are
`numeric` in the row's `currency`, and every row of a seller has the column `user_id`.

[ADR 11](../adr/0011-tenant-isolation-and-access.md) says how the database separates sellers' rows.
The owner of the tables reads all rows; give a program that reads them a role of its own.

This page is generated from the comments in the database: `headway db tables`. `\\d+ orders` in psql
shows them, too.
"""
OTHERS = """
## Other tables

Headway's own state. It can change in any version; use the API instead.

| table | contains |
|---|---|
"""


def tables_page(columns: Sequence[ColumnDescription]) -> str:
    """Return the page of all tables."""
    tables = {name: list(rows) for name, rows in groupby(columns, lambda row: row.table_name)}
    text = HEAD
    for subject, names in SUBJECTS.items():
        text += f"\n## {subject}\n" + "".join(_table(tables[name]) for name in names)
    others = (rows[0] for name, rows in tables.items() if name not in READ)
    return (
        text + OTHERS + "".join(f"| `{row.table_name}` | {row.table_comment} |\n" for row in others)
    )


def _table(columns: Sequence[ColumnDescription]) -> str:
    head = f"\n### `{columns[0].table_name}`\n\n{columns[0].table_comment}\n\n"
    rows = "".join(
        f"| `{column.name}` | {_type(column)} | {_comment(column)} |\n" for column in columns
    )
    return f"{head}| column | type | meaning |\n|---|---|---|\n{rows}"


def _type(column: ColumnDescription) -> str:
    return column.type.replace(" with time zone", "tz") + (
        "" if column.is_required else ", may be null"
    )


def _comment(column: ColumnDescription) -> str:
    choices = ", ".join(f"`{choice}`" for choice in column.choices)
    return f"{column.comment} One of {choices}." if choices else column.comment
