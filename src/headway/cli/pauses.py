"""`headway pause`, `resume` and `trigger`: what a person stops, and what cannot wait."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.held_changes import Reason
from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, open_client, seller_id
from headway.cli.times import instant_to_come
from headway.core.catalog.listings import Sku, SupplierName
from headway.core.pauses import PauseKind
from headway.core.reasons import format_time
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.core.pauses import Pause

Skus = Annotated[
    list[str] | None,
    typer.Argument(help="Part numbers, as the supplier writes them; or a supplier's name."),
]
Everything = Annotated[bool, typer.Option("--all", help="Everything: no call is made at all.")]
Supplier = Annotated[
    bool,
    typer.Option(
        "--supplier",
        help="Stop reading suppliers, all or the one named; known changes still reach the shops.",
    ),
]
Seller = Annotated[
    str | None, typer.Option(help="Everything of this seller, or the named parts of this seller.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "pause",
        epilog=_examples(
            "pause",
            'pause --all --reason "moving house" --until 2h',
            "pause --supplier east",
            "pause --seller acme --until 2026-03-04T09:00",
            'pause "WF330523=7A" --reason "recalled"',
        ),
    )(pause)
    app.command(
        "resume", epilog=_examples("resume --all", "resume --supplier east", 'resume "WF330523=7A"')
    )(resume)
    app.command("trigger", epilog=_examples('trigger "WF330523=7A" --reason "a customer asks"'))(
        trigger
    )


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway {line}" for line in lines)])


def pause(
    skus: Skus = None,
    *,
    all_: Everything = False,
    supplier: Supplier = False,
    seller: Seller = None,
    until: Annotated[
        str | None,
        typer.Option(help="2h, 3d, or 2026-03-04T09:00 (UTC); by default until resumed."),
    ] = None,
    reason: Reason = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a pause that would end later.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Stop parts, a seller, suppliers or everything; or show what is paused.

    It takes effect immediately: a running call ends, and no other call is made for what is paused.
    Pausing again makes a pause longer; --replace makes it shorter too.
    """
    from headway.operations import pauses

    kind = _kind(skus, is_all=all_, is_supplier=supplier, seller=seller)
    with open_client(server) as client:
        if kind is None:
            if until is not None or reason:
                raise InvalidError("say what to pause: parts, --seller, --supplier or --all")
            paused = client.call(pauses.pauses).pauses
        else:
            body = pauses.PauseBody(
                kind=kind,
                skus=_skus(skus, kind),
                seller=seller_id(seller),
                supplier=_supplier(skus, kind),
                until=None if until is None else instant_to_come(until, client.now, "--until"),
                reason=reason,
                replace=replace,
            )
            paused = client.call(pauses.pause, body).pauses
        if as_json:
            emit({"now": client.now, "pauses": paused})
        else:
            _show(paused, client.now)


def resume(
    skus: Skus = None,
    *,
    all_: Everything = False,
    supplier: Supplier = False,
    seller: Seller = None,
    reason: Reason = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Resume what was paused.

    Parts that another pause covers stay paused, and the output says so. Exit code 1 if something
    was not paused.
    """
    from headway.operations import pauses

    kind = _kind(skus, is_all=all_, is_supplier=supplier, seller=seller)
    if kind is None:
        raise InvalidError("say what to resume: parts, --seller, --supplier or --all")
    with open_client(server) as client:
        body = pauses.ResumeBody(
            kind=kind,
            skus=_skus(skus, kind),
            seller=seller_id(seller),
            supplier=_supplier(skus, kind),
            reason=reason,
        )
        resumed = client.call(pauses.resume, body).resumed
        if as_json:
            emit({"resumed": resumed, "done": sum(thing.is_done for thing in resumed)})
        else:
            table(("what", "result"), [(thing.what, thing.message) for thing in resumed])
    if not all(thing.is_done for thing in resumed):
        raise typer.Exit(1)


def trigger(
    skus: Annotated[list[str], typer.Argument(help="Part numbers, as the supplier writes them.")],
    *,
    seller: Annotated[
        str | None, typer.Option(help="The seller; needed if several sellers list the part.")
    ] = None,
    reason: Reason = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Read parts in the next call, before all others.

    A part that is triggered already, or in a call, stays as it is, and the output says so.
    """
    from headway.operations import listings

    with open_client(server) as client:
        body = listings.TriggerBody(
            skus=[Sku(sku) for sku in skus], seller=seller_id(seller), reason=reason
        )
        ruled = client.call(listings.trigger, body)
        if as_json:
            emit(ruled)
        else:
            rows = [(ruling.sku, ruling.seller, ruling.message) for ruling in ruled.listings]
            table(("part", "seller", "result"), rows)


def _kind(
    skus: Sequence[str] | None, *, is_all: bool, is_supplier: bool, seller: str | None
) -> PauseKind | None:
    """Return the kind of target, None if none is named; raises InvalidError for more than one."""
    is_one = is_supplier and len(skus or ()) == 1  # then the word is the supplier's name
    if bool((skus and not is_one) or seller) + is_all + is_supplier > 1:
        raise InvalidError("name one thing: parts, --seller, --supplier or --all")
    if is_all or is_supplier:
        return PauseKind.ALL if is_all else PauseKind.SUPPLIER
    if skus:
        return PauseKind.LISTING
    return None if seller is None else PauseKind.SELLER


def _skus(words: Sequence[str] | None, kind: PauseKind) -> list[Sku] | None:
    return [Sku(word) for word in words] if words and kind is PauseKind.LISTING else None


def _supplier(words: Sequence[str] | None, kind: PauseKind) -> SupplierName | None:
    return SupplierName(words[0]) if words and kind is PauseKind.SUPPLIER else None


def _show(standing: Sequence[Pause], now: datetime) -> None:
    rows = [
        (
            pause.what,
            format_time(pause.since, now),
            "resumed" if pause.until is None else format_time(pause.until, now),
            pause.actor,
            pause.reason,
        )
        for pause in standing
    ]
    table(("paused", "since", "until", "by", "because"), rows, empty="nothing is paused")
    if rows:
        say("Let it go on with: headway resume")
