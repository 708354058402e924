"""`headway move`: a person chooses when in a day a part is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.held_changes import Seller
from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, open_client, seller_id
from headway.core.catalog.listings import Sku
from headway.core.reasons import format_time
from headway.core.timetable.policies.policy import PRIORITY_MAX
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.core.timetable.slots import Slot
    from headway.store.timetable.slots import MovedSlot

EXAMPLES = (
    'move "WF330523=7A" --hour 6',
    'move "WF330523=7A" --hour 14 --minute 30 --priority 5',
    'move "WF330523=7A" --auto',
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    epilog = "\n\n".join(["Examples:", *(f"headway {line}" for line in EXAMPLES)])
    app.command("move", epilog=epilog)(move)


def move(
    skus: Annotated[list[str], typer.Argument(help="Part numbers, as the supplier writes them.")],
    *,
    hour: Annotated[
        int | None, typer.Option(min=0, max=23, help="The hour of the day, in UTC.")
    ] = None,
    minute: Annotated[
        int | None, typer.Option(min=0, max=59, help="The minute of that hour.", show_default="0")
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(
            min=0, max=PRIORITY_MAX, help="A higher priority is read earlier within its slot."
        ),
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Let the policy choose the slot again.")
    ] = False,
    seller: Seller = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Give parts another slot of the day, or a priority in theirs.

    A slot that you choose is kept when the policy changes. If it is so far away that the part's
    data would get too old, the part is read once before it.
    """
    from headway.operations import listings

    _require_sense(hour, minute, priority, is_auto=auto)
    user_id = seller_id(seller)
    body = listings.SlotBody(hour=hour, minute=minute, priority=priority, auto=auto, seller=user_id)
    with open_client(server) as client:
        parts = {
            sku: client.call(listings.product, sku, seller=user_id).listings
            for sku in dict.fromkeys(map(Sku, skus))
        }
        # A part of several sellers is refused; checked first, so that no other is moved before.
        moved = {
            sku: client.call(listings.move, sku, body)
            for sku in sorted(parts, key=lambda sku: len(parts[sku]) == 1)
        }
        sellers = list(dict.fromkeys(moved[sku].seller for sku in parts))
        rows = sorted(map(moved.__getitem__, parts), key=lambda row: sellers.index(row.seller))
        if as_json:
            emit({"listings": rows})
        else:
            _show(rows, client.now)


def _require_sense(
    hour: int | None, minute: int | None, priority: int | None, *, is_auto: bool
) -> None:
    """Raise InvalidError if the options contradict each other."""
    if hour is None and minute is not None:
        raise InvalidError("--minute needs --hour: it is the minute of that hour")
    if hour is not None and is_auto:
        raise InvalidError("say --hour, or --auto to let the policy choose; not both")
    if hour is None and priority is None and not is_auto:
        raise InvalidError("say where to: --hour, --priority or --auto")


def _show(moved: Sequence[MovedSlot], now: datetime) -> None:
    rows = [
        (
            row.sku,
            row.seller,
            _slot(row.old),
            _slot(row.new),
            "parked; see: headway revive" if row.is_parked else format_time(row.next_sync_at, now),
        )
        for row in moved
    ]
    table(("part", "seller", "was at", "is at", "due"), rows)
    for note in dict.fromkeys(row.note for row in moved if row.note):
        say(f"note: {note}")


def _slot(slot: Slot) -> str:
    time = f"{slot.hour_bucket:02}:{slot.minute_offset:02}"
    chosen = ", chosen" if slot.manual_slot_override else ""
    return f"{time}, priority {slot.sync_priority}{chosen}" if slot.sync_priority else time + chosen
