"""Prices in bulk for the tests of push: pushers that send so, and ways to look at what they did."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx
from tests.engine.shop_setup import Shops

from headway.app import App, build
from headway.clock import fresh_id
from headway.core.catalog.listings import Done, Wait
from headway.engine.push import Push
from headway.engine.push_bulk import BulkPush
from headway.providers.shopify.bulk import price_lines
from headway.store.catalog.bulk import Bulks
from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.shopify.bulk import BulkOperation, BulkOperations
from headway_lab.simulators.transport import SimTransport

FROM = 5
LISTINGS = 8
OPEN = "SELECT count(*) FROM push_intent WHERE state = 'open'"
AWAITED = "SELECT count(*) FROM listing_state WHERE push_at IS NOT NULL"


def pusher(app: App, *, from_count: int = FROM, piece_max: int = 3) -> Push:
    """Make a worker's push that sends prices in bulk, and settles them a few at a time."""
    push = app.push("w")
    push._bulk = BulkPush(
        clock=app.clock,
        pushes=app.pushes,
        bulks=Bulks(app.pool),
        from_count=from_count,
        write_file=price_lines,
        piece_max=piece_max,
    )
    return push


@dataclass
class Wire:
    """The way to the simulated shop, on which what is sent or answered may change."""

    shops: Shops
    path: str = ""

    def sent(self, body: bytes) -> bytes | None:
        """Return what arrives; None if it never does."""
        return body

    def answered(self, reply: SimReply) -> SimReply:
        """Return what comes back."""
        return reply

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        self.path = path
        arrived = self.sent(body)
        if arrived is None:
            return SimReply(outcome="hang")
        return self.answered(self.shops.simulator.handle(method, path, headers, arrived))

    def transport(self) -> httpx.BaseTransport:
        return SimTransport(self.handle, self.shops.clock, seed=1)

    def pusher(self) -> Push:
        """Make a pusher that sends in bulk over this wire."""
        return pusher(rebuilt(self.shops, self.transport()))


def rebuilt(shops: Shops, transport: httpx.BaseTransport, pool: Any = None) -> App:
    """Build the same application over another wire, and perhaps another pool."""
    settings = shops.app.settings
    own_pool = pool or shops.pool
    return build(settings, shops.clock, own_pool, shop_transport=transport, ids=fresh_id)


def fill(shops: Shops, count: int = LISTINGS, price: str = "12.00") -> None:
    """Put listings in the shop and want another price for each."""
    for number in range(count):
        shops.list(f"A-{number}")
    want_all(shops, price)


def want_all(shops: Shops, price: str) -> None:
    shops.ask(
        "UPDATE listing_state SET desired = jsonb_set(desired, '{price}', %s),"
        " desired_version = desired_version + 1, desired_at = %s, push_at = %s",
        json.dumps(price),
        shops.clock.now(),
        shops.clock.now(),
    )


def finish(shops: Shops, push: Push) -> list[Done | Wait]:
    """Let a pusher work until nothing waits, sleeps or is open."""
    return shops.drive(push, until=lambda: shops.one(AWAITED) + shops.one(OPEN) == 0, steps=3000)


def reach(shops: Shops, push: Push, phase: str) -> None:
    """Let a pusher work until its bulk operation has come that far."""
    query = "SELECT count(*) FROM push_intent WHERE kind = 'bulk' AND progress ->> 'phase' = %s"
    shops.drive(push, until=lambda: shops.one(query, phase) == 1)


def bulk_service(shops: Shops) -> BulkOperations:
    """Return where the simulated shop keeps its files and operations."""
    return shops.simulator._branches[shops.domain("acme")].bulk


def operations(shops: Shops) -> list[BulkOperation]:
    return list(bulk_service(shops).operations.values())


def slow_down(shops: Shops, *, start_s: float = 2.0, line_s: float = 60.0) -> None:
    bulk_service(shops)._start_s, bulk_service(shops)._line_s = start_s, line_s


def prices(shops: Shops) -> set[Decimal]:
    return {shops.shown(f"A-{number}").price for number in range(LISTINGS)}


def check_once(shops: Shops, count: int = LISTINGS, times: int = 1) -> None:
    """See that every price was written exactly so often, and that nothing is left to do."""
    written = Counter(effect.id for effect in shops.simulator.effects if effect.kind == "price")
    assert list(written.values()) == [times] * count
    assert shops.simulator.double_writes() == []
    assert shops.one(OPEN) == 0
    assert shops.one("SELECT count(*) FROM listing_state WHERE applied <> desired") == 0
    assert shops.simulator.refusals == 0
