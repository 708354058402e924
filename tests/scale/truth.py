"""What a town came to, judged by those outside: their own logs, shelves and books."""

from datetime import timedelta
from decimal import Decimal
from operator import attrgetter

from tests.scale.deployment import CLOCK, Town

from headway.cli.check import BROKEN, LAWS
from headway.core.accounts.jobs import PlatformName
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.warehouse import Warehouse
from headway_lab.simulation.accounts.comparison import Rows, compare, keyed

MARKUP = Decimal("1.10")
LEDGER_LAG = timedelta(seconds=90)
ETSY_PER_SECOND, PRINTIFY_PER_MIN = 10, 600


def unshown(town: Town) -> list[str]:
    """Return what some shop does not show as the supplier has it now."""
    return [
        f"{seller}/{sku}: {view and view.price} is not {price}"
        for seller, sku in town.listed
        for view in [town.shops.shown(town.domain(seller), sku)]
        for price in [(town.shelf.parts[sku].list_price or Decimal(0)) * MARKUP]
        if view is None or view.price != price
    ]


def unbooked(town: Town) -> list[str]:
    """Return where our tables differ from the platforms' own books, row for row."""
    problems: list[str] = []
    for account in ConnectedShops(town.pool).list():
        true = _true(town, account.user_id, account.platform)
        rows = Warehouse(town.pool).rows(account.id)
        different = compare(rows, true, horizon_at=account.horizon_at)
        young = _young(true)
        missing = [row for row in different.missing if row not in young]
        problems_here = (*missing, *different.wrong, *different.extra)
        problems += [f"{account.user_id} on {account.platform}: {row}" for row in problems_here]
    return problems


def breaches(town: Town) -> list[str]:
    """Return what broke a law: by the logs of those outside, and by `headway check`."""
    log = town.etsy.log
    most = {
        "supplier": (town.supplier.max_calls_in_window, town.calls_per_min),
        "Etsy": (log.calls_max_second, ETSY_PER_SECOND),
        "Printify": (town.printify.max_calls_in_window, PRINTIFY_PER_MIN),
    }
    problems = [
        f"L1: {limit_key} counted {count} of {limit}"
        for limit_key, (count, limit) in most.items()
        if count > limit
    ]
    problems += [f"L1: {count} refused" for count in town.refusals if count]
    problems += [f"L7: {write} was there already" for write in town.shops.double_writes()]
    # The supplier's prices only rise in these tests: whoever lowers one writes an old one.
    prices = [effect for effect in town.shops.effects if effect.kind == "price"]
    old = [price for price in prices if price.old is not None and price.new < price.old]  # type: ignore[operator]
    problems += [f"L7: {effect} went back" for effect in sorted(old, key=attrgetter("at_s"))]
    verdicts = [law(town.app) for law in LAWS]
    return problems + [
        f"{verdict.law}: {verdict.examples}" for verdict in verdicts if verdict.verdict == BROKEN
    ]


def _young(true: Rows) -> set[str]:
    """Name the payments that nobody reads yet: Etsy's ledger is read up to a minute ago."""
    since = CLOCK.now() - LEDGER_LAG
    rows = keyed(true.get("payments", {})).items()
    return {f"payments {'/'.join(key)}" for key, row in rows if row["paid_at"] > since}


def _true(town: Town, seller: str, platform: PlatformName) -> Rows:
    if platform is PlatformName.SHOPIFY:
        return town.shops.truth(town.domain(seller))
    number = town.shop_ids.get((seller, platform.value))
    assert number is not None
    return town.etsy.truth(number) if platform is PlatformName.ETSY else town.printify.truth(number)
