"""`headway probe supplier`: ask a supplier for a few parts, and show what was understood."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, open_client
from headway.core.catalog.intake import sku_of
from headway.core.catalog.listings import MAIN, SupplierName

if TYPE_CHECKING:
    from headway.operations.probe import ProbedPart

SUMMARY = "Ask a supplier for a few parts, and show the raw fields beside what Headway reads."
VALUE_CHARS_MAX = 60


def register(app: typer.Typer) -> None:
    """Add the commands."""
    example = 'headway probe supplier "WF338109=K3"'
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: {example}", no_args_is_help=True)
    group.callback()(lambda: None)
    group.command(
        "supplier",
        epilog=f'Examples:\n\n{example}\n\nheadway probe supplier "WF1=K3" WF2 --name east --json',
    )(supplier)
    app.add_typer(group, name="probe")


def supplier(
    skus: Annotated[list[str], typer.Argument(help="The part numbers, up to ten.")],
    *,
    name: Annotated[str, typer.Option(help="The supplier; see: headway supplier list.")] = MAIN,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Ask for these parts in one call, and show the raw fields beside what Headway reads.

    The call passes the limiter and counts like any other, so it may wait for a minute. It changes
    no listing and no shop. Contradictions and fields that Headway does not read are marked.
    """
    from headway.operations import probe

    body = probe.ProbeBody(skus=[sku_of(sku) for sku in skus])
    with open_client(server) as client:
        probed = client.call(probe.probe_supplier, SupplierName(name), body)
    if as_json:
        emit(probed)
        return
    for part in probed.items:
        _print(part)


def _print(part: ProbedPart) -> None:
    say(f"{part.sku}: {part.problem or 'read'}", style="bold")
    table(
        ("field", "the supplier's value", "note"),
        [
            (name, _text(value), "not read" if name in part.unknown_fields else "")
            for name, value in part.raw.items()
        ],
    )
    table(("understood", "value"), [(n, _text(value)) for n, value in part.understood.items()])
    for reason in part.contradictions:
        say(f"contradiction: {reason}")
    for location in part.unknown_locations:
        say(f"unknown location: {location}; map it in HEADWAY_LOCATIONS")


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(_plain(value), default=str)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON
    return dict(value) if isinstance(value, Mapping) else value
