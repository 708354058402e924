"""`headway privacy`: customers' requests for their data, the export, and the answer."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, plain, say, table
from headway.cli.target import Server, collect, open_client, seller_id
from headway.core.reasons import format_time
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.operations.privacy import CustomerExport

SUMMARY = "List customers' requests for their data, and answer them."
SHOWN_MAX = 500
RequestArgument = Annotated[
    str, typer.Argument(metavar="REQUEST", help="The request's id; see: headway privacy list")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: headway privacy list", no_args_is_help=True)
    group.command("list", epilog=_examples("list", "list acme --all --json"))(list_requests)
    group.command("export", epilog=_examples("export ID --to ann.zip", "export ID --json"))(export)
    group.command("done", epilog=_examples("done ID"))(done)
    app.add_typer(group, name="privacy")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway privacy {line}" for line in lines)])


def list_requests(
    seller: Annotated[str | None, typer.Argument(help="Only this seller's.")] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Answered ones, too.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List customers' requests for their data, with the day by which each must be answered."""
    from headway.operations import privacy as operations

    with open_client(server) as client:
        rows, _ = collect(
            client,
            operations.privacy_requests,
            seller=seller_id(seller),
            include_answered=all_,
            limit=SHOWN_MAX,
        )
        now = client.now
    if as_json:
        emit(rows)
        return
    table(
        ("request", "seller", "shop", "customer", "came", "answer by", "exported", "answered"),
        [
            (
                row.id, row.seller, f"{row.platform} {row.shop}", row.customer_id,
                format_time(row.requested_at, now), format_time(row.due_at, now),
                format_time(row.exported_at, now) if row.exported_at else "",
                format_time(row.done_at, now) if row.done_at else "",
            )
            for row in rows
        ],
        empty="no customer waits for data",
    )  # fmt: skip


def export(
    request: RequestArgument,
    *,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a .zip with a file per table, or one .json."),
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Export everything that is stored of the customer of a request."""
    from headway.operations import privacy as operations

    if to is not None and (not to.parent.is_dir() or to.suffix not in {".zip", ".json"}):
        raise ConfigError(f"{to}: name a .zip or .json file in a folder that exists")
    with open_client(server) as client:
        found = client.call(operations.export_privacy_request, request)
    if to is not None:
        _write(found, to)
    if as_json or to is None:
        emit(found)
        return
    count = sum(len(rows) for rows in found.records.values())
    say(
        f"{count:,} rows are in {to}; send it to the customer, then: headway privacy done {request}"
    )


def done(request: RequestArgument, *, server: Server = None, as_json: AsJson = False) -> None:
    """Mark a request as answered: the customer has the data."""
    from headway.operations import privacy as operations

    with open_client(server) as client:
        answered = client.call(operations.answer_privacy_request, request)
    if as_json:
        emit(answered)
    else:
        say(f"the request of customer {answered.customer_id} is answered")


def _write(found: CustomerExport, to: Path) -> None:
    try:
        if to.suffix == ".json":
            to.write_text(json.dumps(plain(found), indent=2) + "\n", encoding="utf-8")
            return
        with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, rows in found.records.items():
                archive.writestr(f"{name}.json", json.dumps(plain(rows), indent=2))
    except OSError as error:
        raise ConfigError(f"{to}: {error.strerror}") from None
