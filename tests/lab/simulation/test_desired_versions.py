"""Law L6 at the shop: each desired version is shown, replaced, or overdue; and how long it took."""

from typing import Any

from headway.core.catalog.listings import SellerId, Sku
from headway_lab.simulation.desired_versions import TROUBLE_S, WAIT_S, DesiredVersions, grace_of
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.shops import ShownListing

MIAMI = "stock at Miami"


def shop_listing() -> ShownListing:
    shop_fields = {"price": 1, MIAMI: 5, "status": "ACTIVE"}
    return ShownListing(id="id", seller=SellerId("acme"), sku=Sku("A"), shop_fields=shop_fields)


def versions_for(shown: ShownListing) -> DesiredVersions:
    return DesiredVersions({"id": shown}, {"id"})


def want(versions: DesiredVersions, at_s: float, **facts: Any) -> None:
    shop_fields = {"price": 1, MIAMI: 5, **facts}
    versions.want("id", shop_fields, shop_fields, at_s)


def never(_since_s: float) -> bool:
    return False


def test_a_version_is_pushed_when_the_shop_shows_all_of_it() -> None:
    shown = shop_listing()
    versions = versions_for(shown)
    want(versions, 100, **{"price": 2, MIAMI: 4})
    shown.write(MIAMI, 4)
    versions.shown("id", 101)
    assert versions.pushed == 0
    shown.write("price", 2)
    versions.shown("id", 103)
    assert (versions.pushed, versions.push_s) == (1, [3])
    assert list(versions.overdue(never)) == []


def test_a_newer_version_replaces_a_pending_one() -> None:
    shown = shop_listing()
    versions = versions_for(shown)
    want(versions, 100, price=2)
    want(versions, 200, price=3)
    shown.write("price", 3)
    versions.shown("id", 201)
    assert (versions.pushed, versions.superseded, versions.push_s) == (1, 1, [1])


def test_a_version_that_goes_back_to_what_is_shown_needs_no_push() -> None:
    versions = versions_for(shop_listing())
    want(versions, 100, price=2)
    want(versions, 200)
    assert (versions.pushed, versions.superseded) == (0, 2)
    assert list(versions.overdue(never)) == []


def test_an_overdue_version_is_reported_once_with_its_missing_facets() -> None:
    versions = versions_for(shop_listing())
    want(versions, 100, price=2, status="DRAFT")
    ((_, since_s, left),) = versions.overdue(never)
    assert (since_s, left) == (100, ["price", "status"])
    assert list(versions.overdue(never)) == []


def test_a_merchants_edit_is_unexpected_after_the_grace_time_and_a_sale_never_is() -> None:
    shown = shop_listing()
    versions = versions_for(shown)
    shown.take(MIAMI, 1)
    assert list(versions.unexpected(never)) == []
    shown.change_by_hand("price", 9, 100)
    assert [facet for _, facet, _ in versions.unexpected(never)] == ["price"]
    assert list(versions.unexpected(lambda since_s: since_s == 100)) == []


def test_a_difference_without_an_edit_is_unexpected_unless_it_is_pending() -> None:
    shown = shop_listing()
    versions = versions_for(shown)
    want(versions, 100, price=2)
    assert list(versions.unexpected(never)) == []
    shown.write(MIAMI, 0)
    assert [(facet, value) for _, facet, value in versions.unexpected(never)] == [(MIAMI, 5)]


def test_a_value_belongs_to_the_first_of_the_latest_versions_in_a_row_that_have_it() -> None:
    versions = versions_for(shop_listing())
    want(versions, 100, price=2)
    want(versions, 200, **{"price": 2, MIAMI: 4})
    want(versions, 300)
    assert versions.first_version_with("id", "price", 2) == 1
    assert versions.first_version_with("id", "price", 1) == 3
    assert versions.first_version_with("id", "price", 7) is None


def test_an_outage_suspends_the_wait_and_troubles_lengthen_it() -> None:
    quiet = grace_of(parse_faults([]))
    assert quiet.covers(100, 100 + WAIT_S)
    assert not quiet.covers(100, 101 + WAIT_S)
    troubled = grace_of(parse_faults(["shop-outage:2h@01:00", "crash:1/h", "clock:10s"]))
    most_s = WAIT_S + 20 + 2 * TROUBLE_S
    assert troubled.covers(3600, 3 * 3600 + most_s)
    assert not troubled.covers(3600, 3 * 3600 + most_s + 1)
