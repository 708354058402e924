"""The cost of writing changes to a shop: the engine beside one call per item, in virtual time.

Both ways have the same database, client and limiter, and the same simulated Shopify counts the
calls. A run begins when the shop is known, its bucket full, and every listing changed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from bench.services import CLOCK, postgres, scratch, version
from bench.shop import BEFORE, State, World, open_world, state
from bench.table import report_progress, show
from headway.clock import fresh_id
from headway.core.catalog.push_planning import CALL_POINTS, needs, price_write
from headway.core.catalog.storefront import Change, Shop, StockWrite
from headway.core.limits.transitions import Rejected
from headway.engine.ports import Storefront
from headway.providers.shopify.limits import shop_resource
from headway.store.server.embedded import EmbeddedServer

SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
CHANGED = 1000
BULK_TIMES = 10
NO_BULK = 1_000_000_000
# REST calls per changed product of the first build of these designs: inferred, not measured here.
FIRST_BUILD_CALLS = 15
LEASE = timedelta(hours=6)
# Every other listing goes up, the rest down.
PRICES = state("11.55", "9.9"), state("10.45", "9.1")
MIXES: Mapping[str, tuple[State, State]] = {
    "stock at 1 place": (state("11.00", "9.5", 8), state("11.00", "9.5", 2)),
    "stock at 4 places": (state("11.00", "9.5", 8, 8, 8, 8), state("11.00", "9.5", 2, 2, 2, 2)),
    "price and cost": PRICES,
    "price and stock": (state("11.55", "9.9", 8), state("10.45", "9.1", 2)),
}
HEADERS = (
    "changes: way",
    "calls",
    "points",
    "sim s",
    "double",
    "refused",
    "wrong",
    "ms a listing",
    "fewer calls",
    "fewer points",
    "faster",
)
NOTES = (
    "sim s: until the last answer; the shop has 2,000 points, and restores 100 a second",
    "in bulk the simulated shop starts after 2 s and runs 50 lines a second",
    "one per item: the next call after the last one's answer",
    "ms a listing: real time of database, planning and connector, without the simulator",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The cost of one way as the shop counted it; `own_ms` is our real time per listing."""

    calls: int
    points: int
    seconds: float
    doubles: int
    refusals: int
    wrong: int
    own_ms: float


def run(*, changed: int = CHANGED) -> None:
    """Measure every mix in every way, then ten times the prices in bulk, and print."""
    with scratch() as folder, postgres(folder / "push", SETTINGS) as server:
        measure = partial(_measure, server, folder)
        rows: list[Sequence[str]] = []
        for mix, states in MIXES.items():
            report_progress(f"push: {changed:,} listings, {mix}")
            results = {"engine": measure(states, changed)}
            if states[0]["price"] != BEFORE["price"]:
                results["engine, in bulk"] = measure(states, changed, bulk_from=max(2, changed))
            results["one per item"] = measure(states, changed, _one_per_item)
            rows += _rows(mix, results)
        many = BULK_TIMES * changed
        report_progress(f"push: {many:,} prices in bulk")
        (row,) = _rows(f"{many:,} prices", {"in bulk": measure(PRICES, many, bulk_from=many)})
        stated = f"{FIRST_BUILD_CALLS * changed:,}"
        rows += [_cut(row, 8), _cut(("any: first build, stated", stated), 2)]
        title = f"push: {changed:,} changed listings of one shop, in virtual time"
        show(title, HEADERS, rows, version(server), *NOTES)


def _cut(row: Sequence[str], cells: int) -> Sequence[str]:
    """Leave the rest of a row empty: nothing was measured to compare it with."""
    return (*row[:cells], *[""] * (len(HEADERS) - cells))


def _measure(
    server: EmbeddedServer,
    folder: Path,
    states: tuple[State, State],
    changed: int,
    way: Callable[[World], float] = World.push,
    *,
    bulk_from: int = NO_BULK,
) -> Figures:
    """Write the changes to a shop of their own, and return what the shop counted."""
    with open_world(server, folder, changed, bulk_from=bulk_from) as world:
        transport, shop = world.transport, world.transport.simulator
        calls, points, real_s, at_s = shop.requests, shop.points, transport.real_s, shop.elapsed_s()
        world.change(*states)
        own_s = way(world) - (transport.real_s - real_s)
        return Figures(
            calls=shop.requests - calls,
            points=shop.points - points,
            seconds=transport.answered_s - at_s,
            doubles=len(shop.double_writes()),
            refusals=shop.refusals,
            wrong=world.count_wrong(*states),
            own_ms=own_s * 1000 / changed,
        )


def _rows(mix: str, results: Mapping[str, Figures]) -> list[Sequence[str]]:
    """Return the figures of each way, and how many times less it took than the last."""
    last = list(results.values())[-1]
    return [
        (
            f"{mix}: {way}",
            f"{figures.calls:,}",
            f"{figures.points:,}",
            f"{figures.seconds:,.1f}",
            f"{figures.doubles:,}",
            f"{figures.refusals:,}",
            f"{figures.wrong:,}",
            f"{figures.own_ms:.2f}",
            f"{last.calls / figures.calls:,.1f}",
            f"{last.points / figures.points:,.1f}",
            f"{last.seconds / figures.seconds:,.1f}",
        )
        for way, figures in results.items()
    ]


def _one_per_item(world: World) -> float:
    """Write each price and each quantity by a call of its own; return the real seconds."""
    app, now = world.app, world.clock.now()
    (shop,) = app.pushes.due_shops(now, verified_before=None, limit=1)
    push_lease = app.pushes.claim(
        shop,
        now=now,
        owner="bench",
        lease_until=now + LEASE,
        verified_before=None,
        limit=len(world.skus),
    )
    assert push_lease is not None, "no other lease on this shop is live"
    storefront = app.new_storefront(shop)
    app.limiter.know(shop_resource(storefront.limit_key))
    at_s = CLOCK.monotonic()
    for change in push_lease.changes:
        for send in _single_writes(storefront, change, shop):
            _call(world, storefront, send)
    return CLOCK.monotonic() - at_s


def _single_writes(
    storefront: Storefront, change: Change, shop: Shop
) -> Iterator[Callable[[], object]]:
    assert change.ids is not None
    need = needs(change, shop)
    if need.price:
        yield partial(storefront.set_prices, [price_write(change, shop)])
    for name, quantity in need.stock.items():
        write = StockWrite(
            sku=change.sku,
            item=change.ids.item,
            location=(shop.locations or {})[name],
            quantity=quantity,
            change_from=(change.applied or {})["quantities"][name],
        )
        yield partial(storefront.set_stock, [write], key=fresh_id())


def _call(world: World, storefront: Storefront, send: Callable[[], object]) -> None:
    """Wait for a permit, and make one call."""
    reserve = partial(
        world.app.limiter.reserve,
        [storefront.limit_key],
        cost=CALL_POINTS,
        owner="bench",
        max_wait_s=0,
        lease_s=60,
        grace_s=10,
        begins=True,
    )
    while isinstance(permit := reserve(), Rejected):
        world.clock.sleep(permit.retry_in_s)
    send()
    cost = storefront.cost
    assert cost is not None, "every answer tells its cost"
    world.app.limiter.settle(permit, sent=True, actual=cost.actual, observation=cost.observation)
