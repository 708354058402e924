"""`headway records`: orders, listings, buyers and payments as programs read them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.record_files import Format, names, record_file
from headway.cli.target import Client, Server, open_client, seller_id
from headway.core.accounts.jobs import platform_name
from headway.core.reasons import format_time
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.operations.record_fields import RecordHead

SUMMARY = "List records that were pulled from platforms, or export them as files."
PAGE, SHOWN = 1000, 20
Kind = Annotated[
    Literal["orders", "line_items", "listings", "customers", "payments", "shipments", "refunds"],
    typer.Argument(help="What to read."),
]
Seller = Annotated[str | None, typer.Option(help="Only this seller's.")]
Account = Annotated[str | None, typer.Option(help="Only of this account, by its id.")]
Platform = Annotated[str | None, typer.Option(help="Only of this platform.")]
Since = Annotated[
    datetime | None, typer.Option(help="Only records of this time or later (UTC), by their own.")
]
ChangedSince = Annotated[
    datetime | None, typer.Option(help="Only what changed at this time or later (UTC).")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help=f"{SUMMARY}\n\nExample: headway records list orders", no_args_is_help=True
    )
    group.command("list", epilog=_examples("list orders", "list payments --seller acme --json"))(
        list_records
    )
    group.command(
        "export",
        epilog=_examples(
            "export orders --output orders.csv",
            "export orders --format parquet --output orders.parquet",
            "export orders --format jsonl --cursor-file orders.cursor >> orders.jsonl",
        ),
    )(export)
    app.add_typer(group, name="records")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway records {line}" for line in lines)])


def list_records(
    kind: Kind,
    *,
    seller: Seller = None,
    account: Account = None,
    platform: Platform = None,
    since: Since = None,
    changed_since: ChangedSince = None,
    limit: Annotated[int, typer.Option(min=1, max=PAGE, help="How many at most.")] = SHOWN,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List records, those that changed longest ago first."""
    from headway.operations.records import LISTS

    query = _query(seller, account, platform, since, changed_since)
    with open_client(server) as client:
        page = client.call(LISTS[kind], **query, limit=limit)
        now = client.now
    if as_json:
        emit(page)
        return
    rows = [
        (
            row.seller,
            row.platform,
            row.id,
            "deleted" if row.is_deleted else _about(row),
            format_time(row.changed_at, now),
        )
        for row in page.items
    ]
    table(("seller", "platform", "id", "record", "changed"), rows, empty="there are none")
    if page.has_more:
        say(f"the first {limit}; more with --limit, or all with: headway records export {kind}")


def _about(row: RecordHead) -> str:
    """Return the first few fields of a record that say something."""
    values = [getattr(row, name) for name in names(type(row))[6:]]
    values_shown = [str(value) for value in values if value not in (None, "", False)]
    return ", ".join(values_shown[:4])


def export(
    kind: Kind,
    *,
    form: Annotated[Format, typer.Option("--format", help="csv, jsonl or parquet.")] = "csv",
    output: Annotated[
        Path | None, typer.Option(help="File to write; by default, to stdout.")
    ] = None,
    cursor_file: Annotated[
        Path | None,
        typer.Option(help="Export what changed since the last time; the cursor is kept there."),
    ] = None,
    seller: Seller = None,
    account: Account = None,
    platform: Platform = None,
    since: Since = None,
    changed_since: ChangedSince = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Export all records of a kind; with --cursor-file only what changed since the last export.

    Deleted records are rows with is_deleted. In CSV a cell that a spreadsheet would take for a
    formula begins with an apostrophe. A file appears under its name once it is whole. With --json
    the last line on stderr says how many there are, and the cursor.
    """
    from headway.operations.records import RECORDS

    cursor = _kept(cursor_file)
    query = _query(seller, account, platform, since, changed_since)
    count = 0
    with open_client(server) as client, record_file(RECORDS[kind], form, output) as write:
        for page in _pages(client, kind, query, cursor):
            write(page.items)
            count, cursor = count + len(page.items), page.next_cursor
    if cursor_file is not None and cursor is not None:
        cursor_file.write_text(f"{cursor}\n", encoding="utf-8")
    if as_json:
        import json
        import sys

        print(json.dumps({"records": count, "next_cursor": cursor}), file=sys.stderr)
    elif output is not None:
        say(f"{count:,} records in {output}")


def _pages(client: Client, kind: str, query: dict[str, Any], cursor: str | None) -> Iterator[Any]:
    """Yield page after page, until nothing is left."""
    from headway.operations.records import LISTS

    while True:
        page = client.call(LISTS[kind], **query, cursor=cursor, limit=PAGE)
        yield page
        cursor = page.next_cursor
        if not page.has_more:
            return


def _kept(path: Path | None) -> str | None:
    """Return the cursor in a file; None if there is no such file yet."""
    if path is None or not path.exists():
        return None
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(f"--cursor-file {path}: {error}") from None


def _query(
    seller: str | None,
    account: str | None,
    platform: str | None,
    since: datetime | None,
    changed_since: datetime | None,
) -> dict[str, Any]:
    from datetime import UTC

    def in_utc(at: datetime | None) -> datetime | None:
        return None if at is None else at.replace(tzinfo=at.tzinfo or UTC)

    return {
        "seller": seller_id(seller),
        "account": account,
        "platform": None if platform is None else platform_name(platform),
        "since": in_utc(since),
        "changed_since": in_utc(changed_since),
    }
