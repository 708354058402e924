"""The result of a deployment, checked against the simulators' own logs and records."""

from datetime import timedelta
from decimal import Decimal
from operator import attrgetter

from tests.scale.deployment import CLOCK, Deployment

from headway.core.accounts.jobs import PlatformName
from headway.operations.laws import BROKEN, LAWS
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.warehouse import Warehouse
from headway_lab.platforms import ETSY, SHOPIFY
from headway_lab.simulation.accounts.comparison import Rows, compare, keyed

MARKUP = Decimal("1.10")
LEDGER_LAG = timedelta(seconds=90)
ETSY_PER_SECOND, PRINTIFY_PER_MIN = 10, 600


def unshown(deployment: Deployment) -> list[str]:
    """Return the listings whose shop does not show the supplier's current state."""
    return [
        f"{seller}/{sku}: {view and view.price} is not {price}"
        for seller, sku in deployment.listed
        for view in [deployment.shops.shown(deployment.domain(seller), sku)]
        for price in [(deployment.catalog.parts[sku].list_price or Decimal(0)) * MARKUP]
        if view is None or view.price != price
    ]


def unbooked(deployment: Deployment) -> list[str]:
    """Return the rows in which our tables differ from the platforms' records."""
    problems: list[str] = []
    for account in ConnectedShops(deployment.pool).list():
        true = _expected_rows(deployment, account.seller, account.platform)
        rows = Warehouse(deployment.pool).rows(account.id)
        different = compare(rows, true, horizon_at=account.horizon_at)
        young = _not_yet_readable(true)
        missing = [row for row in different.missing if row not in young]
        problems_here = (*missing, *different.wrong, *different.extra)
        problems += [f"{account.seller} on {account.platform}: {row}" for row in problems_here]
    return problems


def breaches(deployment: Deployment) -> list[str]:
    """Return the violations of laws by the simulators' logs and by `headway check`."""
    log = deployment.etsy.log
    most = {
        "supplier": (deployment.supplier.max_calls_in_window, deployment.calls_per_min),
        "Etsy": (log.calls_max_second, ETSY_PER_SECOND),
        "Printify": (deployment.printify.max_calls_in_window, PRINTIFY_PER_MIN),
    }
    problems = [
        f"L1: {limit_key} counted {count} of {limit}"
        for limit_key, (count, limit) in most.items()
        if count > limit
    ]
    problems += [f"L1: {count} refused" for count in deployment.refusals if count]
    problems += [f"L7: {write} was there already" for write in deployment.shops.double_writes()]
    # The supplier's prices only rise in these tests: a lower price is an old one.
    prices = [effect for effect in deployment.shops.effects if effect.kind == "price"]
    old = [price for price in prices if price.old is not None and price.new < price.old]  # type: ignore[operator]
    problems += [f"L7: {effect} went back" for effect in sorted(old, key=attrgetter("at_s"))]
    verdicts = [law(deployment.app) for law in LAWS]
    return problems + [
        f"{verdict.law}: {verdict.examples}" for verdict in verdicts if verdict.verdict == BROKEN
    ]


def _not_yet_readable(true: Rows) -> set[str]:
    """Return the payments that are not read yet: Etsy's ledger is read up to a minute ago."""
    since = CLOCK.now() - LEDGER_LAG
    rows = keyed(true.get("payments", {})).items()
    return {f"payments {'/'.join(key)}" for key, row in rows if row["paid_at"] > since}


def _expected_rows(deployment: Deployment, seller: str, platform: PlatformName) -> Rows:
    if platform == SHOPIFY:
        return deployment.shops.truth(deployment.domain(seller))
    number = deployment.shop_ids.get((seller, platform))
    assert number is not None
    return deployment.etsy.truth(number) if platform == ETSY else deployment.printify.truth(number)
