"""What a visit to a shop does next, and what the answers make of each listing."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.catalog import push_results
from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.push_planning import (
    PRICES_MAX,
    STOCK_MAX,
    PushBatch,
    needs,
    next_push_batch,
)
from headway.core.catalog.storefront import (
    Change,
    Draft,
    FoundVariants,
    Gid,
    Ids,
    Intent,
    InventoryPolicy,
    PriceWrite,
    ProductStatus,
    Pushed,
    PushLease,
    Shop,
    Shown,
    StockWrite,
    WriteKind,
    WriteResult,
    WriteVerdict,
)

NOW = datetime(2026, 1, 5, tzinfo=UTC)
PLACES = ("Dallas Central", "Miami FL")
SHOP = Shop(
    id="1",
    user_id=SellerId("acme"),
    domain="acme.myshopify.com",
    locations={name: Gid(f"gid://shopify/Location/{n}") for n, name in enumerate(PLACES)},
    channels={},
    guard_move=Decimal("0.5"),
)


def state(price: str = "11.00", *stock: int, **more: Any) -> dict[str, Any]:
    quantities = dict(zip(PLACES, stock or (5, 0), strict=True))
    return {
        "price": price,
        "cost": "9.5",
        "currency": "USD",
        "compare_at": None,
        "quantities": quantities,
        **more,
    }


def change(name: str = "A-1", **more: Any) -> Change:
    ids = Ids(product=Gid(f"p{name}"), variant=Gid(f"v{name}"), item=Gid(f"i{name}"))
    fields: dict[str, Any] = {
        "user_id": SHOP.user_id,
        "sku": Sku(name),
        "shop_sku": name,
        "desired": state(),
        "desired_version": 1,
        "applied": state(),
        "ids": ids,
    }
    return Change(**{**fields, **more})


def shown(listing: Change, price: str = "11.00", *stock: int, **more: Any) -> Shown:
    assert SHOP.locations is not None
    ids = listing.ids or Ids(product=Gid("p"), variant=Gid("v"), item=Gid("i"))
    fields: dict[str, Any] = {
        "ids": ids,
        "sku": listing.shop_sku,
        "price": Decimal(price),
        "compare_at": None,
        "cost": Decimal("9.50"),
        "tracked": True,
        "status": ProductStatus.ACTIVE,
        "variants_count": 1,
        "quantities": dict(zip(SHOP.locations.values(), stock or (5, 0), strict=True)),
    }
    return Shown(**{**fields, **more})


def plan(*changes: Change, **more: Any) -> PushBatch | None:
    push_lease = PushLease(shop=more.pop("shop", SHOP), fence=1, changes=changes, **more)
    return next_push_batch(push_lease, handle=str.lower)


def done(push_batch: PushBatch) -> list[Pushed]:
    results = [WriteResult(verdict=WriteVerdict.DONE) for _ in push_batch.writes]
    return push_results.after_write(push_batch, results, SHOP, NOW)


def kinds(push_batch: PushBatch | None) -> WriteKind | None:
    return None if push_batch is None else push_batch.kind


def test_nothing_is_asked_where_nothing_differs() -> None:
    assert plan(change()) is None
    assert [
        result.applied
        for result in push_results.idle(PushLease(shop=SHOP, fence=1, changes=[change()]), NOW)
    ]


def test_the_locations_come_first() -> None:
    shop = replace(SHOP, locations=None)
    assert kinds(plan(change(applied=None), shop=shop)) is WriteKind.LOCATIONS


def test_stock_of_many_products_travels_in_one_call_of_at_most_250_quantities() -> None:
    changes = [change(f"A-{n}", desired=state("11.00", 0, 0)) for n in range(300)]
    push_batch = plan(*changes)
    assert push_batch is not None
    assert (push_batch.kind, len(push_batch.writes)) == (WriteKind.STOCK, STOCK_MAX)
    assert {write.change_from for write in push_batch.writes if isinstance(write, StockWrite)} == {
        5
    }


def test_only_the_quantities_that_differ_are_written() -> None:
    push_batch = plan(change(desired=state("11.00", 5, 3)))
    assert push_batch is not None
    (write,) = push_batch.writes
    assert isinstance(write, StockWrite)
    assert SHOP.locations is not None
    assert (write.location, write.quantity, write.change_from) == (
        SHOP.locations["Miami FL"],
        3,
        0,
    )


def test_prices_and_cost_go_together_and_a_few_products_share_a_call() -> None:
    push_batch = plan(*(change(f"A-{n}", desired=state("12.00")) for n in range(30)))
    assert push_batch is not None
    assert (push_batch.kind, len(push_batch.writes)) == (WriteKind.PRICE, PRICES_MAX)
    (first, *_) = push_batch.writes
    assert isinstance(first, PriceWrite)
    assert (first.price, first.cost) == (Decimal("12.00"), Decimal("9.5"))


def test_stock_that_rises_waits_for_its_price_and_stock_that_falls_does_not() -> None:
    rises, falls = state("12.00", 9, 0), state("12.00", 2, 0)
    assert kinds(plan(*(change(f"A-{n}", desired=rises) for n in range(200)))) is WriteKind.PRICE
    assert kinds(plan(*(change(f"A-{n}", desired=falls) for n in range(200)))) is WriteKind.STOCK


def test_a_few_quantities_wait_for_the_prices_so_that_more_travel_together() -> None:
    both = [change(f"A-{n}", desired=state("12.00", 2, 0)) for n in range(20)]
    push_batch = plan(*both)
    assert push_batch is not None
    assert push_batch.kind is WriteKind.PRICE
    priced = [replace(listing, applied=state("12.00")) for listing in both]
    push_batch = plan(*priced)
    assert push_batch is not None
    assert (push_batch.kind, len(push_batch.writes)) == (WriteKind.STOCK, 20)


def test_a_place_the_shop_lacks_is_not_sold_and_one_not_stocked_is_activated() -> None:
    lacks = state("11.00", 5, 0)
    lacks["quantities"]["Goodyear AZ"] = 7
    assert plan(change(desired=lacks)) is None
    only = {**state(), "quantities": {"Dallas Central": 5}}
    assert plan(change(applied=only)) is None
    assert kinds(plan(change(applied=only, desired=state("11.00", 5, 3)))) is WriteKind.ACTIVATE


def test_what_was_never_seen_is_looked_at_before_it_is_written() -> None:
    assert kinds(plan(change(applied=None))) is WriteKind.READ
    assert kinds(plan(change(applied=None, ids=None))) is WriteKind.FIND


def test_an_open_intent_is_read_back_before_anything_is_written() -> None:
    intent = Intent(id="k", kind=WriteKind.STOCK, skus=[Sku("A-1")])
    assert kinds(plan(change(desired=state("11.00", 0, 0)), open=[intent])) is WriteKind.READ
    push_batch = plan(change(ids=None, applied={}), open=[intent])
    assert kinds(push_batch) is WriteKind.FIND


def test_a_part_is_created_once_it_was_looked_for_in_vain() -> None:
    draft = Draft(shop_sku="A-1", title="A bolt")
    draft_listing = change(ids=None, applied=None, draft=draft)
    push_batch = plan(draft_listing)
    assert push_batch is not None
    assert push_batch.kind is WriteKind.FIND
    (pushed,) = push_results.after_find(push_batch, FoundVariants(shown={}), SHOP, NOW)
    assert kinds(plan(replace(draft_listing, applied=pushed.applied))) is WriteKind.CREATE


def test_a_variant_with_that_very_sku_is_adopted_instead() -> None:
    draft_listing = change(ids=None, applied=None, draft=Draft(shop_sku="A-1", title="A bolt"))
    push_batch = PushBatch(kind=WriteKind.FIND, changes=[draft_listing])
    (pushed,) = push_results.after_find(
        push_batch, FoundVariants(shown={"A-1": [shown(draft_listing)]}), SHOP, NOW
    )
    assert pushed.staging == "published"
    assert pushed.ids is not None
    assert pushed.applied == draft_listing.desired


def test_two_variants_of_one_sku_are_refused_by_name() -> None:
    lost = change(ids=None, applied=None)
    two = FoundVariants(shown={"A-1": [shown(lost), shown(lost)]})
    (pushed,) = push_results.after_find(
        PushBatch(kind=WriteKind.FIND, changes=[lost]), two, SHOP, NOW
    )
    assert "2 variants in the shop have the SKU A-1" in pushed.error
    assert pushed.retry_at is not None


def test_a_part_leaves_the_shop_only_after_a_look_and_keeps_its_former_status() -> None:
    parked = change(desired=state(status="DRAFT"))
    push_batch = plan(parked)
    assert push_batch is not None
    assert push_batch.kind is WriteKind.READ
    read_back = shown(parked, status=ProductStatus.UNLISTED)
    (pushed,) = push_results.after_read(push_batch, [read_back], SHOP, repairs=True)
    assert pushed.former_status is ProductStatus.UNLISTED
    looked = replace(parked, applied=pushed.applied, status=pushed.status)
    push_batch = plan(looked)
    assert push_batch is not None
    assert push_batch.kind is WriteKind.STATUS
    (written,) = done(push_batch)
    assert (written.status, written.former_status) == (ProductStatus.DRAFT, None)
    assert written.applied == parked.desired


def test_a_part_that_shares_its_product_stays_for_sale() -> None:
    parked = change(desired=state(status="DRAFT"), applied=state(status="ACTIVE"), variants_count=3)
    assert plan(parked) is None


@pytest.mark.parametrize(
    "how", ({"tracked": False}, {"inventory_policy": InventoryPolicy.CONTINUE})
)
@pytest.mark.parametrize("stops", (True, False))
def test_a_variant_that_sells_at_zero_is_written_only_where_that_is_to_be_stopped(
    how: dict[str, Any], *, stops: bool
) -> None:
    listing, shop = change(applied=None), replace(SHOP, stops_overselling=stops)
    push_batch = PushBatch(kind=WriteKind.READ, changes=[listing])
    variant = shown(listing, **how)
    (pushed,) = push_results.after_read(push_batch, [variant], shop, repairs=True)
    needed = needs(replace(listing, applied=pushed.applied, tracked=variant.tracked), shop)
    assert bool(needed) is stops
    assert (pushed.tracked, pushed.inventory_policy) == (variant.tracked, variant.inventory_policy)


def test_the_merchants_own_crossed_out_price_is_neither_compared_nor_written() -> None:
    desired = {name: value for name, value in state("12.00").items() if name != "compare_at"}
    listing = change(desired=desired, applied=None)
    push_batch = PushBatch(kind=WriteKind.READ, changes=[listing])
    variant = replace(shown(listing), compare_at=Decimal("120.00"))
    (pushed,) = push_results.after_read(push_batch, [variant], SHOP, repairs=True)
    assert "compare_at" not in (pushed.applied or {})
    (write,) = plan(replace(listing, applied=state("11.00"))).writes
    assert write.keeps_compare_at
    assert not write.stops_overselling


def test_a_stale_quantity_is_read_back_and_an_unknown_id_found_again_once() -> None:
    listing = change(desired=state("11.00", 0, 0))
    push_batch = plan(listing)
    assert push_batch is not None
    (stale,) = push_results.after_write(
        push_batch, [WriteResult(verdict=WriteVerdict.STALE)], SHOP, NOW
    )
    assert stale.forgets_applied
    gone = WriteResult(verdict=WriteVerdict.UNKNOWN, reason="no such item")
    (first,) = push_results.after_write(push_batch, [gone], SHOP, NOW)
    assert (first.forgets_ids, first.retry_at, first.failures) == (True, None, 1)
    again = replace(push_batch, changes=[replace(listing, failures=1)])
    (second,) = push_results.after_write(again, [gone], SHOP, NOW)
    assert second.retry_at == NOW + timedelta(minutes=10)
    assert second.forgets_ids


def test_one_bad_item_does_not_keep_the_others() -> None:
    good, bad = change("A-1", desired=state("12.00")), change("A-2", desired=state("13.00"))
    push_batch = plan(good, bad)
    assert push_batch is not None
    results = [
        WriteResult(verdict=WriteVerdict.DONE),
        WriteResult(verdict=WriteVerdict.REFUSED, reason="suspended"),
    ]
    first, second = push_results.after_write(push_batch, results, SHOP, NOW)
    assert first.applied == good.desired
    assert (second.applied, second.error) == (None, "suspended")
    assert [event.kind for event in second.events] == ["shopify_update_failed"]


def test_a_batch_without_a_culprit_is_halved_until_the_one_at_fault_is_alone() -> None:
    changes = [change(f"A-{n}", desired=state("11.00", 0, 0)) for n in range(8)]
    for failures in range(9):
        push_batch = plan(*(replace(listing, failures=failures) for listing in changes))
        assert push_batch is not None
        assert len(push_batch.writes) == min(8, max(1, STOCK_MAX >> failures))


def test_a_first_price_far_from_the_shops_own_is_held_and_stock_still_flows() -> None:
    listing = change(applied=None, is_first=True, desired=state("3.31", 7, 0))
    push_batch = PushBatch(kind=WriteKind.READ, changes=[listing])
    (pushed,) = push_results.after_read(push_batch, [shown(listing, "70.74")], SHOP, repairs=True)
    assert pushed.held_reason is not None
    assert "70.74" in pushed.held_reason
    assert pushed.desired is not None
    assert (pushed.desired["price"], pushed.desired["quantities"]) == (
        "70.74",
        listing.desired["quantities"],
    )
    near = replace(listing, desired=state("71.00"))
    push_batch = PushBatch(kind=WriteKind.READ, changes=[near])
    (fine,) = push_results.after_read(push_batch, [shown(near, "70.74")], SHOP, repairs=True)
    assert fine.held_reason is None


def test_a_drift_check_leaves_sold_stock_alone_and_repairs_or_reports_the_rest() -> None:
    listing = change()
    push_batch = PushBatch(kind=WriteKind.READ, changes=[listing], is_drift_check=True)
    read_back = [shown(listing, "11.00", 3, 0)]
    (sold,) = push_results.after_read(push_batch, read_back, SHOP, repairs=True)
    assert (sold.applied, sold.events, sold.is_verified) == (None, (), True)
    meddled = shown(listing, "1.00", 3, 0)
    (repaired,) = push_results.after_read(push_batch, [meddled], SHOP, repairs=True)
    assert repaired.applied is not None
    assert [event.kind for event in repaired.events] == ["drift_found"]
    assert kinds(plan(replace(listing, applied=repaired.applied))) is WriteKind.PRICE
    (result,) = push_results.after_read(push_batch, [meddled], SHOP, repairs=False)
    assert result.applied is None
    assert [event.kind for event in result.events] == ["drift_found"]


quantity = st.integers(0, 3)
price = st.sampled_from(["10.00", "11.00", "12.50"])


@st.composite
def mixed(draw: st.DrawFn) -> list[Change]:
    count = draw(st.integers(1, 25))
    return [
        change(
            f"A-{n}",
            desired=state(draw(price), draw(quantity), draw(quantity)),
            applied=state(draw(price), draw(quantity), draw(quantity)),
        )
        for n in range(count)
    ]


@given(mixed())
def test_every_difference_is_written_exactly_once_and_nothing_else_is(
    changes: list[Change],
) -> None:
    needed = {(listing.sku, name) for listing in changes for name in needs(listing, SHOP).stock} | {
        (listing.sku, "price") for listing in changes if needs(listing, SHOP).price
    }
    assert SHOP.locations is not None
    names = {gid: name for name, gid in SHOP.locations.items()}
    written: list[tuple[str, str]] = []
    for _ in range(2 * len(changes) + 2):
        push_batch = plan(*changes)
        if push_batch is None:
            break
        written += [
            (write.sku, names[write.location] if isinstance(write, StockWrite) else "price")
            for write in push_batch.writes
        ]
        changes = _after(changes, done(push_batch))
    assert sorted(written) == sorted(needed)
    assert all(listing.applied == listing.desired for listing in changes if listing.applied)


def _after(changes: Sequence[Change], pushed: Sequence[Pushed]) -> list[Change]:
    by_sku = {result.change.sku: result for result in pushed}
    return [
        replace(listing, applied=by_sku[listing.sku].applied) if listing.sku in by_sku else listing
        for listing in changes
    ]


def test_a_search_that_finds_too_much_looks_for_fewer_and_then_gives_up() -> None:
    lost = [change(f"A-{n}", ids=None, applied=None) for n in range(4)]
    push_batch = plan(*lost)
    assert push_batch is not None
    cut = FoundVariants(shown={}, unsure=frozenset(listing.shop_sku for listing in lost))
    again = push_results.after_find(push_batch, cut, SHOP, NOW)
    assert [(result.failures, result.retry_at) for result in again] == [(1, None)] * 4
    for failures in range(1, 6):
        push_batch = plan(*(replace(listing, failures=failures) for listing in lost))
        assert push_batch is not None
    assert len(push_batch.changes) == 1
    (alone,) = push_results.after_find(push_batch, cut, SHOP, NOW)
    assert "too many SKUs in the shop look like A-0" in alone.error
