from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.lifecycle import FailureRule, Judge, Settlement
from headway.core.catalog.listings import (
    Listing,
    Priority,
    Quote,
    Reply,
    SellerId,
    Sku,
    SuppliedDetails,
)
from headway.core.catalog.staging import Staging
from headway.core.timetable.policies.rolling import Rolling

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SKU = Sku("WF338109=K3")
TERMS = Terms(locations={"Dallas Central": "Dallas", "Miami FL": "Miami"}, currency="USD")
STANDING = SellerSettings(terms=TERMS)
JUDGE = Judge(rule=FailureRule(), policy=Rolling())
LISTING = Listing(
    id="1",
    user_id=SellerId("s"),
    sku=SKU,
    priority=Priority.ONBOARDING,
    fence=1,
    next_sync_at=NOW,
    hour_bucket=0,
    minute_offset=0,
    created_at=NOW,
    batch_id="b",
)
QUOTE = Quote(
    sku=SKU,
    list_price=Decimal(10),
    net_price=Decimal(8),
    currency="USD",
    quantities={"Miami FL": 2, "Dallas Central": 5, "Germany CSC": 9},
    name="Seal",
    description="A seal.",
    vendor="Acme",
)


def read(listing: Listing = LISTING, **change: Any) -> Settlement:
    reply = Reply(quotes={SKU: replace(QUOTE, **change)}, raw={SKU: {"name": "Seal"}})
    return JUDGE.settle(listing, reply, NOW, STANDING)


def test_a_published_part_keeps_everything_known_about_it() -> None:
    settled = read()
    assert settled.staging == Staging(
        status="normalized",
        title="Seal",
        description_html="A seal.",
        vendor="Acme",
        list_price=Decimal(10),
        net_price=Decimal(8),
        price="11.00",
        cost_per_item="8",
        currency="USD",
        inventory_quantity=7,
        inventory_status="in_stock",
        location_summary="Dallas Central: 5; Germany CSC: 9; Miami FL: 2",
        raw={"name": "Seal"},
    )
    assert settled.priority is Priority.SCHEDULED
    assert not settled.is_blocked


def test_a_supplier_whose_texts_are_html_writes_plain_text_into_the_shop() -> None:
    staging = read(
        name="<b>Seal</b>",
        vendor="<i>Acme</i>",
        description="5 < 6 & <script>alert('x')</script>",
        details=SuppliedDetails(condition="<b>NE</b>", origin="UNITED STATES"),
    ).staging
    assert staging is not None
    assert (staging.title, staging.vendor) == ("(b)Seal(/b)", "(i)Acme(/i)")
    assert staging.description_html == (
        "5 &lt; 6 &amp; &lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;"
    )
    assert [text.partition(":")[0] for text in staging.details.left_out] == [
        "country of origin 'UNITED STATES'",
        "condition '<b>NE</b>'",
    ]
    assert staging.status == "normalized", "no part fails because of its details"


def test_a_description_is_made_by_the_sellers_template() -> None:
    template = (
        "<p>{name} ({sku}) by {vendor}</p>\n<p>{condition}</p>\n<p>{pack} {unit}, {origin}</p>"
    )
    standing = SellerSettings(terms=replace(TERMS, description_template=template))
    quote = replace(QUOTE, unit="PR", minimum=5, details=SuppliedDetails(origin="US"))
    reply = Reply(quotes={SKU: quote}, raw={})
    staging = JUDGE.settle(LISTING, reply, NOW, standing).staging
    assert staging is not None
    assert staging.description_html == "<p>Seal (WF338109=K3) by Acme</p>\n<p>10 PR, US</p>"


def test_images_are_taken_only_where_they_are_allowed() -> None:
    image = "https://images.example.com/seal.jpg"
    reply = Reply(quotes={SKU: replace(QUOTE, details=SuppliedDetails(image=image))}, raw={})
    for is_allowed, shown in ((False, ""), (True, image)):
        standing = SellerSettings(terms=replace(TERMS, images=is_allowed))
        staging = JUDGE.settle(LISTING, reply, NOW, standing).staging
        assert staging is not None
        assert staging.details.image == shown


def test_a_part_without_a_name_goes_by_its_number() -> None:
    staging = read(name="").staging
    assert staging is not None
    assert staging.title == SKU


def test_a_part_stocked_only_where_the_shop_does_not_sell_is_blocked_with_the_reason() -> None:
    settled = read(quantities={"Germany CSC": 9, "Miami FL": 0})
    reason = "stocked only at Germany CSC, which is not mapped; see HEADWAY_LOCATIONS"
    assert settled.is_blocked
    assert (settled.error, settled.held_reason, settled.desired) == (reason, reason, None)
    assert [event.kind for event in settled.events] == ["first_observed", "publish_blocked"]
    both = read(quantities={"Germany CSC": 9, "Singapore": 1})
    assert "Germany CSC, Singapore, which are not mapped" in (both.error or "")


def test_a_part_without_any_stock_is_published_with_none() -> None:
    for nothing in ({}, {"Germany CSC": 0}):
        settled = read(quantities=nothing)
        assert not settled.is_blocked
        assert (settled.desired or {})["quantities"] == {"Dallas": 0, "Miami": 0}


def test_a_part_with_an_unusable_price_is_blocked_and_reported_once() -> None:
    settled = read(list_price=None, net_price=None)
    assert settled.is_blocked
    assert settled.error == "no price was quoted"
    assert "change_held" not in [event.kind for event in settled.events]


def test_a_part_that_is_not_being_published_is_never_blocked() -> None:
    settled = read(replace(LISTING, batch_id=None), quantities={"Germany CSC": 9})
    assert settled.staging is None
    assert (settled.desired or {})["quantities"] == {"Dallas": 0, "Miami": 0}


def test_a_part_that_the_supplier_omits_stays_requested_until_it_is_parked() -> None:
    missed = JUDGE.settle(LISTING, Reply(quotes={}), NOW, STANDING)
    assert missed.staging is None
    last = replace(LISTING, consecutive_failures=4)
    parked = JUDGE.settle(last, Reply(quotes={}), NOW, STANDING)
    assert parked.staging == Staging(status="failed", reason=parked.error or "")
