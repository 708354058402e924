"""Checks for storefronts: every write has its own result, and a repeated one has one effect."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from headway.core.catalog.listings import Sku
from headway.core.catalog.storefront import (
    Creation,
    Gid,
    Ids,
    PriceWrite,
    StatusWrite,
    StockWrite,
    WriteResult,
    WriteVerdict,
)
from headway.core.catalog.storefront import ProductStatus as Status
from headway_lab.conformance.world import StorefrontWorld

GOOD, OTHER = Sku("GOOD-1"), Sku("GOOD-2")
PRICE, COST = Decimal("17.25"), Decimal("9.00")
QUANTITY = 23
KEY = "123e4567-e89b-12d3-a456-426614174001"
POLLS_MAX, POLL_S = 60, 30
# Verdicts that do not blame the item.
NOT_AT_FAULT = (WriteVerdict.DONE, WriteVerdict.AGAIN)


def _location(world: StorefrontWorld) -> tuple[str, Gid]:
    locations: Mapping[str, Gid] = world.client.details().locations
    assert locations, "the shop has no location, so no stock can be written"
    return next(iter(locations.items()))


def _product(world: StorefrontWorld, sku: Sku) -> Ids:
    return world.add_product(sku, location=_location(world)[0])


def _price(sku: Sku, ids: Ids) -> PriceWrite:
    return PriceWrite(
        sku=sku,
        product=ids.product,
        variant=ids.variant,
        price=PRICE,
        compare_at=None,
        cost=COST,
    )


def _unknown(ids: Ids) -> Ids:
    """Return ids of the same form that the shop does not know."""
    product, variant, item = (Gid(f"{gid}99999") for gid in (ids.product, ids.variant, ids.item))
    return Ids(product=product, variant=variant, item=item)


def _check_done(results: Sequence[WriteResult], what: str) -> None:
    for result in results:
        assert result.verdict is WriteVerdict.DONE, f"{what}: {result.verdict} ({result.reason})"


def _check_refused(results: Sequence[WriteResult], count: int, bad: int, what: str) -> None:
    """Check that one result of so many blames its item, by name and reason, and no other does."""
    assert len(results) == count, f"{what}: {len(results)} results for {count} writes"
    result = results[bad]
    assert result.verdict not in NOT_AT_FAULT, f"{what}: the refused item is {result.verdict}"
    assert result.reason, f"{what}: the refused item has no reason"
    others = [*results[:bad], *results[bad + 1 :]]
    blamed = [other for other in others if other.verdict not in NOT_AT_FAULT]
    assert not blamed, f"{what}: a good item is blamed for another: {blamed}"


def a_variant_is_found_and_read(world: StorefrontWorld) -> None:
    """Check that a variant is found by its SKU and read by its id; an unknown one is None."""
    ids = _product(world, GOOD)
    found = world.client.find([GOOD, OTHER], locations=1)
    variants = [shown.ids.variant for shown in found.shown.get(GOOD, ())]
    assert variants == [ids.variant], f"find({GOOD}) returned {variants}"
    assert not found.shown.get(OTHER), f"find({OTHER}) found a SKU that is not there"
    shown, nothing = world.client.read([ids.variant, _unknown(ids).variant], locations=1)
    assert shown is not None, "read() returned None for a variant that is there"
    assert shown.ids == ids, f"read() returned {shown.ids}, not {ids}"
    assert nothing is None, "read() must return None for a variant that is not there"


def a_price_is_written(world: StorefrontWorld) -> None:
    """Check that a new price and a new status reach the shop and are read back."""
    ids = _product(world, GOOD)
    _check_done(world.client.set_prices([_price(GOOD, ids)]), "set_prices")
    assert world.price_in_shop(GOOD) == PRICE, f"the shop shows {world.price_in_shop(GOOD)}"
    draft = StatusWrite(sku=GOOD, product=ids.product, status=Status.DRAFT)
    _check_done(world.client.set_status([draft]), "set_status")
    [shown] = world.client.read([ids.variant], locations=1)
    assert (shown.price, shown.cost, shown.status) == (PRICE, COST, Status.DRAFT), f"{shown}"


def one_refused_price_does_not_hide_the_others(world: StorefrontWorld) -> None:
    """Check that a refused price has a reason, and the other prices of the call are written."""
    ids, other = _product(world, GOOD), _product(world, OTHER)
    writes = [_price(GOOD, ids), _price(Sku("NONE"), _unknown(ids)), _price(OTHER, other)]
    results = world.client.set_prices(writes)
    _check_refused(results, 3, 1, "set_prices")
    _check_done([results[0], results[2]], "set_prices with one refused item")
    shown = [world.price_in_shop(sku) for sku in (GOOD, OTHER)]
    assert shown == [PRICE, PRICE], f"the prices in the shop are {shown}"


def stock_is_written_once(world: StorefrontWorld) -> None:
    """Check that a quantity reaches the shop, and the same key writes it only once."""
    (name, location), ids = _location(world), _product(world, GOOD)
    write = StockWrite(
        sku=GOOD, item=ids.item, location=location, quantity=QUANTITY, change_from=None
    )
    for _ in range(2):
        _check_done(world.client.set_stock([write], key=KEY), "set_stock")
    assert world.quantity_in_shop(GOOD, name) == QUANTITY, "the quantity is not in the shop"
    [shown] = world.client.read([ids.variant], locations=2)
    assert shown.quantities.get(location) == QUANTITY, f"read back: {shown.quantities}"


def a_refused_quantity_names_its_item(world: StorefrontWorld) -> None:
    """Check that a quantity that is refused blames its own item, not the others of the call."""
    (_, location), ids = _location(world), _product(world, GOOD)
    good = StockWrite(
        sku=GOOD, item=ids.item, location=location, quantity=QUANTITY, change_from=None
    )
    bad = replace(good, sku=Sku("NONE"), item=_unknown(ids).item)
    _check_refused(world.client.set_stock([good, bad], key=KEY), 2, 1, "set_stock")


def a_product_is_created_once(world: StorefrontWorld) -> None:
    """Check that a product is made with its price and stock, and a repeat makes no second one."""
    name, location = _location(world)
    creation = Creation(
        sku=GOOD,
        shop_sku=GOOD,
        handle="good-1",
        title="A good part",
        description_html="",
        vendor="",
        price=PRICE,
        compare_at=None,
        cost=COST,
        quantities={location: QUANTITY},
    )
    _check_done([world.client.create(creation)], "create")
    again = world.client.create(creation).verdict
    assert again in {WriteVerdict.DONE, WriteVerdict.STALE}, f"a repeat of create is {again}"
    assert world.price_in_shop(GOOD) == PRICE, "the new product has another price"
    assert world.quantity_in_shop(GOOD, name) == QUANTITY, "the new product has another quantity"
    world.clock.sleep(POLL_S)
    variants = world.client.find([GOOD], locations=1).shown.get(GOOD, ())
    assert len(variants) == 1, f"two creations with one handle made {len(variants)} products"


def prices_are_written_in_bulk(world: StorefrontWorld) -> None:
    """Check that a bulk change runs to its end, with a result for each price (if declared)."""
    ids = _product(world, GOOD)
    writes = [_price(GOOD, ids), _price(Sku("NONE"), _unknown(ids))]
    target = world.client.stage_upload("prices")
    path = world.client.upload(target, world.role.price_file(writes))
    operation = world.client.run_bulk(path, key=KEY)
    assert operation is not None, "run_bulk started nothing"
    found = world.client.find_bulk(KEY)
    assert found is not None, "find_bulk does not find a running operation by its key"
    for _ in range(POLLS_MAX):
        world.clock.sleep(POLL_S)
        status = world.client.bulk_status(operation)
        if status.url is not None:
            results = world.client.bulk_result(status.url, writes)
            _check_refused(results, 2, 1, "bulk_result")
            _check_done(results[:1], "bulk_result")
            assert world.price_in_shop(GOOD) == PRICE, "the price is not in the shop"
            return
    raise AssertionError(f"the bulk operation did not end after {POLLS_MAX} looks: {status}")
