"""A shop in rehearsal is read and never written; what the report says is what is written then."""

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.rehearsal_setup import (
    SELLER,
    caller,
    foretold,
    open_merchant_shop,
    report,
    take_over,
    written,
)
from tests.engine.shop_setup import PLACES, Shops, make_shops, wanted

from headway.core.catalog.rehearsal import RehearsedListing, RehearsedOutcome
from headway.errors import ConflictError, InvalidError
from headway.operations.rehearsals import StartBody, read_again, start
from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    return make_shops(pool, clock, tmp_path, rehearses=True)


def begin(shops: Shops, version: str) -> None:
    start(caller(shops), SELLER, StartBody(version=version, reason="checked"))


def row_of(shops: Shops, sku: str) -> RehearsedListing:
    return next(row for row in report(shops).items if row.sku == sku)


def seed(shops: Shops, sku: str, price: str, *stock: int, **details: object) -> None:
    quantities = dict(zip(PLACES, stock, strict=False))
    shops.simulator.seed_product(
        shops.domain(SELLER), sku, price=Decimal(price), quantities=quantities, **details
    )


def test_a_shop_in_rehearsal_without_any_mapped_location_is_read_and_says_so(
    shops: Shops,
) -> None:
    for place in PLACES:
        shops.simulator.shop(shops.domain(SELLER)).rename_location(place, f"Lager {place}")
    seed(shops, "A-1", "20.00")
    take_over(shops, "A-1", wanted("22.00", 5))
    push = shops.push()
    shops.drive(push)
    shops.clock.sleep(3601)
    shops.drive(push)
    row = row_of(shops, "A-1")
    assert row.outcome is RehearsedOutcome.UNMATCHED
    assert "the shop has no location" in row.reason
    assert shops.one("SELECT applied ->> 'price' FROM listing_state") == "20.00"


def test_a_rehearsal_lists_what_a_new_product_would_carry_and_what_is_left_out(
    shops: Shops,
) -> None:
    details = {"weight": "0.5", "weight_unit": "POUNDS", "condition": "NE", "left_out": ["origin"]}
    take_over(shops, "N-1", wanted("11.00", 5), is_draft=True, details=details)
    shops.drive(shops.push())
    row = row_of(shops, "N-1")
    assert {
        write.field: write.new for write in row.writes if write.field in {"weight", "tags"}
    } == {
        "weight": "0.5 pounds",
        "tags": "Condition: NE",
    }
    assert row.concerns == ("left out of the new product: origin",)


@pytest.mark.parametrize(("number", "oversell"), ((1, "keep"), (2, "deny")))
def test_what_a_rehearsal_says_is_what_is_written_then_listing_by_listing(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, number: int, oversell: str
) -> None:
    shops = make_shops(pool, clock, tmp_path, rehearses=True, oversell=oversell)
    open_merchant_shop(shops, 100 * number, number)
    shops.drive(shops.push())
    assert shops.simulator.effects == []
    found = report(shops)
    assert found.is_in_rehearsal
    assert found.blocks == ()
    begin(shops, found.version)
    shops.drive(shops.push())
    expected, effects = (
        Counter(foretold(found)),
        Counter(written(shops.simulator, shops.domain(SELLER))),
    )
    assert expected - effects == Counter()
    assert effects - expected == Counter()
    assert shops.simulator.double_writes() == []
    assert {row.outcome for row in found.items} == {
        RehearsedOutcome.WRITE,
        RehearsedOutcome.CREATE,
        RehearsedOutcome.SAME,
        RehearsedOutcome.HELD,
        RehearsedOutcome.UNMATCHED,
    }


def test_a_shop_in_rehearsal_is_read_again_and_never_written(shops: Shops) -> None:
    seed(shops, "A-1", "20.00", 4)
    take_over(shops, "A-1", wanted("22.00", 5))
    shops.drive(shops.push())
    shops.simulator.edit_price(shops.domain(SELLER), "A-1", Decimal("21.00"))
    assert row_of(shops, "A-1").price_old == 20
    read_again(caller(shops), SELLER)
    assert row_of(shops, "A-1").outcome is RehearsedOutcome.READING
    shops.drive(shops.push())
    found = row_of(shops, "A-1")
    assert (found.price_old, found.price_new, found.stock_old, found.stock_new) == (21, 22, 4, 5)
    shops.want("A-1", wanted("23.00", 5))
    shops.drive(shops.push())
    assert row_of(shops, "A-1").price_new == 23
    assert shops.simulator.effects == []
    kinds = {kind for (kind,) in shops.ask("SELECT event_type FROM sync_audit_log")}
    assert "shopify_updated" not in kinds


def test_a_report_that_is_out_of_date_does_not_start_the_shop(shops: Shops) -> None:
    seed(shops, "A-1", "20.00", 4)
    take_over(shops, "A-1", wanted("22.00", 5))
    shops.drive(shops.push())
    old = report(shops).version
    shops.clock.sleep(60)
    shops.want("A-1", wanted("23.00", 5))
    shops.drive(shops.push())
    with pytest.raises(ConflictError, match=r"has changed since.*A-1: price 23\.00"):
        begin(shops, old)
    with pytest.raises(InvalidError, match="no version of a report"):
        begin(shops, "yesterday's")
    assert shops.one("SELECT push_started_at FROM connected_accounts") is None
    begin(shops, report(shops).version)
    shops.drive(shops.push())
    assert shops.shown("A-1").price == 23
    with pytest.raises(ConflictError, match="was started at"):
        begin(shops, report(shops).version)


def test_other_numbers_of_stock_do_not_outdate_a_report_and_the_last_piece_does(
    shops: Shops,
) -> None:
    seed(shops, "A-1", "20.00", 4)
    take_over(shops, "A-1", wanted("22.00", 5))
    shops.drive(shops.push())
    old = report(shops).version.partition("-")[2]
    shops.want("A-1", wanted("22.00", 9))
    shops.drive(shops.push())
    assert report(shops).version.partition("-")[2] == old
    shops.want("A-1", wanted("22.00"))
    shops.drive(shops.push())
    assert report(shops).version.partition("-")[2] != old
    assert report(shops).summary.zeroed == 1


def test_nothing_starts_before_every_part_was_read(shops: Shops) -> None:
    assert "nothing to rehearse" in report(shops).blocks[-1]
    seed(shops, "A-1", "20.00", 4)
    take_over(shops, "A-1", wanted("22.00", 5))
    shops.ask(
        "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)"
        " VALUES ('acme', 'B-1', 0, %s)",
        shops.clock.now(),
    )
    found = report(shops)
    assert found.summary.outcomes == {"reading": 1, "unread": 1}
    with pytest.raises(ConflictError, match="1 part was not read at the supplier yet"):
        begin(shops, found.version)


def test_a_report_names_what_of_the_merchants_own_it_touches(shops: Shops) -> None:
    seed(shops, "A-1", "20.00", 4, compare_at=Decimal("30.00"))
    seed(shops, "A-2", "20.00", 4, tracked=False)
    desired = wanted("22.00", 5)
    take_over(shops, "A-1", desired)
    take_over(shops, "A-2", {**desired, "quantities": {**desired["quantities"], "Moon": 7}})
    shops.drive(shops.push())
    assert row_of(shops, "A-1").concerns == ("its own crossed-out price 30.00 is replaced",)
    tracked, unsold = row_of(shops, "A-2").concerns
    assert tracked == "its stock is not tracked, so the shop sells it without stock"
    assert "this stock is not sold: 7 at Moon" in unsold
    places = {place.name: place for place in report(shops).locations or ()}
    assert places["Dallas Central"].is_in_shop
    assert places["Dallas Central"].is_mapped


def test_a_start_is_an_event_with_its_actor_and_its_report(shops: Shops) -> None:
    seed(shops, "A-1", "20.00", 4)
    take_over(shops, "A-1", wanted("22.00", 5))
    shops.drive(shops.push())
    version = report(shops).version
    begin(shops, version)
    ((actor, value, why),) = shops.ask(
        "SELECT actor, new_value, error_message FROM sync_audit_log"
        " WHERE event_type = 'shop_started'"
    )
    assert (actor, why) == ("ann", "checked")
    assert value["version"] == version
    assert value["outcomes"] == {"write": 1}
