"""A merchant's shop with products and prices of its own, in rehearsal, and its parts as read."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tests.engine.shop_setup import PLACES, Shops, wanted

from headway.clock import rng
from headway.operations.callers import OperatorCaller, operator
from headway.operations.rehearsals import RehearsalReport, rehearsal
from headway_lab.simulators.shopify.shop import ShopVariant, SimulatedShop
from headway_lab.simulators.shopify.simulator import ShopifySimulator

SELLER = "acme"
READ = """
INSERT INTO listing_state (user_id, sku, desired, desired_at, desired_version, push_at)
VALUES (%(user_id)s, %(sku)s, %(desired)s, %(now)s, 1, %(now)s)
"""
LIST = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at, last_sync_at)
VALUES (%(user_id)s, %(sku)s, 0, %(now)s, %(now)s)
"""
DRAFT = """
INSERT INTO product_staging (user_id, sku, shop_sku, batch_id, status, title, vendor, details,
  created_at, updated_at)
VALUES (%(user_id)s, %(sku)s, %(sku)s, gen_random_uuid(), 'normalized', %(sku)s, 'Boeing',
  %(details)s, %(now)s, %(now)s)
"""
# What a new product has besides what the report lists: it comes with being created.
BIRTH_FACTS = {"sku", "tracked", "variant"}
WriteStatistics = tuple[str, str, str | None, str | None, str | None]
IMPORT = """
INSERT INTO product (user_id, sku, shop_sku, shopify_product_id, shopify_variant_id,
  shopify_inventory_item_id)
VALUES (%(user_id)s, %(sku)s, %(sku)s, %(product)s, %(variant)s, %(item)s)
"""


def caller(shops: Shops) -> OperatorCaller:
    return operator(shops.app, "ann")


def report(shops: Shops, seller: str = SELLER) -> RehearsalReport:
    return rehearsal(caller(shops), seller, limit=100_000)


def take_over(shops: Shops, sku: str, desired: dict[str, Any], **values: Any) -> None:
    """List a part that the supplier has quoted and the shop was not read for yet."""
    key = {"user_id": SELLER, "sku": sku, "now": shops.clock.now()}
    with shops.pool.connection() as connection:
        connection.execute(LIST, key)
        connection.execute(READ, {**key, "desired": json.dumps(desired)})
        if values.get("ids"):
            ids = values["ids"]
            row = {"product": ids.product, "variant": ids.variant, "item": ids.item}
            connection.execute(IMPORT, {**key, **row})
        if values.get("is_draft"):
            details = json.dumps(values.get("details", {}))
            connection.execute(DRAFT, {**key, "details": details})


def open_merchant_shop(shops: Shops, count: int, seed: int) -> None:
    """Fill a shop with products of all kinds, each with a price of its merchant's."""
    chance = rng(f"merchant:{seed}")
    for number in range(count):
        sku = f"P-{number:04}"
        ours = Decimal(chance.randrange(1000, 90000)) / 100
        stock = [chance.randrange(9) for _ in PLACES]
        desired = wanted(str(ours), *stock, cost=str((ours * Decimal("0.8")).quantize(ours)))
        kind = number % 20
        if kind == 0:  # to be published
            take_over(shops, sku, {**desired, "channels": ["Online Store"]}, is_draft=True)
            continue
        if kind == 1:  # the merchant does not have it
            take_over(shops, sku, desired)
            continue
        factor = {2: "1", 3: "1", 4: "2.4", 5: "0.3"}.get(kind, chance.choice(["1.3", "0.9", "1"]))
        shown = [chance.randrange(9) for _ in PLACES[: chance.randrange(1, len(PLACES) + 1)]]
        ids = shops.simulator.seed_product(
            shops.domain(SELLER),
            sku,
            price=(ours * Decimal(factor)).quantize(ours),
            cost=None if kind == 6 else Decimal(desired["cost"]),
            compare_at=Decimal("999.00") if kind == 7 else None,
            tracked=kind != 8,
            policy="CONTINUE" if kind == 9 else "DENY",
            quantities=dict(zip(PLACES, stock if kind == 2 else shown, strict=False)),
        )
        take_over(shops, sku, desired, ids=ids if number % 2 else None)


def written(simulator: ShopifySimulator, domain: str) -> Iterator[WriteStatistics]:
    """Yield what the shop's own log holds: SKU, field, place, old and new value."""
    shop = simulator.shop(domain)
    effects = [effect for effect in simulator.effects if effect.shop == domain]
    births = {effect.write for effect in effects if effect.kind == "create"}
    for effect in effects:
        if effect.write in births and effect.kind in BIRTH_FACTS:
            continue
        product = shop.products.get(effect.id)
        variant = product.variants[0] if product else shop.items.get(effect.id, effect.id)
        if effect.kind == "channel":
            channel = shop.publications[effect.location].name
            yield shop.variants[variant].sku, "publish", None, None, channel
            continue
        place = None if effect.location is None else shop.locations[effect.location].name
        is_new = effect.kind == "create"
        yield (
            shop.variants[variant].sku,
            effect.kind,
            place,
            None if effect.write in births else _text(effect.kind, effect.old),
            None if is_new else _text(effect.kind, effect.new),
        )
        if is_new:
            for name, value in carried(shop, shop.variants[variant]).items():
                yield shop.variants[variant].sku, name, None, None, value


def carried(shop: SimulatedShop, variant: ShopVariant) -> dict[str, str]:
    """Return what a product carries besides price and stock; the log has no entry for it."""
    weight, unit = variant.weight or ("", "")
    facts = {
        "weight": f"{weight} {unit.lower()}".strip(),
        "origin": variant.origin,
        "tariff_code": variant.tariff_code,
        "tags": ", ".join(shop.products[variant.product].tags),
    }
    return {name: value for name, value in facts.items() if value}


def foretold(found: RehearsalReport) -> Iterator[WriteStatistics]:
    """Yield what a report says will be written, in the same form."""
    for row in found.items:
        for write in row.writes:
            new = None if write.field == "create" else _text(write.field, write.new)
            yield row.shop_sku, write.field, write.location, _text(write.field, write.old), new


def _text(field: str, value: object) -> str | None:
    if value is None:
        return None
    if field in {"price", "cost", "compare_at"}:
        return str(Decimal(str(value)).quantize(Decimal("0.01")))
    if field == "tracked":
        return {"True": "yes", "False": "no"}.get(str(value), str(value))
    return str(value)
