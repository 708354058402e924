"""`headway publish`: ask for parts to be put into the shop, and see what became of them."""

import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from headway import config
from headway.app import App
from headway.cli.output import AsJson, emit, plain, say, table
from headway.cli.progress import progress
from headway.cli.session import WALL, Session, open_session
from headway.clock import fresh_id
from headway.core.intake import Part, fate, read_at, seller_of, text_lines
from headway.core.model import SellerId
from headway.errors import InvalidError
from headway.store.publishing import Publishing

EXAMPLES = """Examples:

headway publish "WF330523=7A" "AN 960/10L" --wait

headway publish --file parts.txt --seller acme

headway publish -- "-3DASH"
"""
POLL_S = 1.0
ROWS_SHOWN = 50
TROUBLE = {"blocked", "failed", "refused"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("publish", epilog=EXAMPLES)(publish)


def publish(
    skus: Annotated[
        list[str] | None, typer.Argument(help="Part numbers, as the supplier writes them.")
    ] = None,
    *,
    seller: Annotated[
        str | None, typer.Option(help="Into whose shop; needed if several have one.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="A file with a part number on each line; - is stdin.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until each part is in the shop, or cannot be.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put parts into the shop that are not there yet.

    They board the next calls to the supplier, and are then created in the shop by a headway that
    runs. Ask as often as you like: a part is never made twice. Exit code 1 if a part was refused,
    blocked or failed. Write -- before a part number that begins with a dash.
    """
    asked = [*(skus or []), *_from_file(file)]
    if not asked:
        raise InvalidError("name a part number, or a file of them with --file")
    named = None if seller is None else seller_of(seller)
    with open_session(config.load()) as session:
        if wait:
            _require_runner(session)
        app, publishing = session.app, Publishing(session.app.pool)
        user_id, batch_id = publishing.seller(named), fresh_id()
        parts = publishing.request(
            user_id,
            asked,
            batch_id=batch_id,
            form=app.settings.shop_sku,
            policy=app.policy,
            now=app.clock.now(),
        )
        if wait:
            parts = _await(publishing, user_id, parts)
        _report(app, user_id, batch_id, parts, as_json=as_json)
    if any(each.status in TROUBLE for each in parts):
        raise typer.Exit(1)


def _from_file(name: str | None) -> list[str]:
    if name is None:
        return []
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InvalidError(f"cannot read {name}: {error.strerror}") from None
    return [line for line in text_lines(raw.splitlines()) if line.strip()]


def _require_runner(session: Session) -> None:
    """Refuse to wait for what nobody does: this database is open only as long as we are."""
    if session.app.settings.database_url is None and not session.is_joined:
        raise InvalidError("--wait needs a headway that works; start one with: headway run")


def _await(publishing: Publishing, user_id: SellerId, parts: Sequence[Part]) -> list[Part]:
    with progress("publishing", len(parts)) as advance:
        shown = 0
        while True:
            newest = {e.sku: e for e in publishing.parts(user_id, [each.sku for each in parts])}
            # A part that was refused may be another batch's: here it stays what it was.
            parts = [
                each if each.status == "refused" else newest.get(each.sku, each) for each in parts
            ]
            settled = sum(not each.is_under_way for each in parts)
            advance(settled - shown)
            shown = settled
            if settled == len(parts):
                return list(parts)
            WALL.sleep(POLL_S)


def _report(
    app: App, user_id: SellerId, batch_id: str, parts: Sequence[Part], *, as_json: bool
) -> None:
    now = app.clock.now()
    line, seats = app.line(now), app.rule.boarding.seats
    expected = {each.sku: read_at(each, line, seats=seats, now=now) for each in parts}
    counts = Counter(each.status for each in parts)
    if as_json:
        listed = [_facts(each, expected[each.sku], now) for each in parts]
        emit({"batch_id": batch_id, "seller": user_id, "counts": counts, "parts": listed})
        return
    trouble_first = sorted(parts, key=lambda each: each.status not in TROUBLE)
    rows = [
        (each.sku, each.shop_sku, each.status, fate(each, expected[each.sku], now))
        for each in trouble_first[:ROWS_SHOWN]
    ]
    table(("part", "in the shop", "status", "note"), rows)
    if len(parts) > ROWS_SHOWN:
        say(f"and {len(parts) - ROWS_SHOWN:,} more")
    said = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    say(f"{said}; batch {batch_id}")


def _facts(part: Part, expected_at: datetime | None, now: datetime) -> dict[str, object]:
    said = plain(part)
    assert isinstance(said, dict), "a dataclass becomes an object"
    return said | {"expected_at": expected_at, "note": fate(part, expected_at, now)}
