from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import Guard, MassChange, SellerSettings
from headway.core.catalog.lifecycle import FailureRule, Judge, Settlement, suspicions, unclear_skus
from headway.core.catalog.listings import Listing, Outcome, Priority, Quote, Reply, SellerId, Sku
from headway.core.timetable.policies.rolling import Rolling

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SKU = Sku("P1=E9")
TERMS = Terms(locations={"Miami FL": "Miami"}, currency="USD")
PRICES, STOCK = MassChange.PRICES, MassChange.STOCK
STANDING = SellerSettings(terms=TERMS, catalog_count=100)
JUDGE = Judge(rule=FailureRule(), policy=Rolling())
LISTING = Listing(
    id="1",
    user_id=SellerId("s"),
    sku=SKU,
    priority=Priority.SCHEDULED,
    fence=1,
    next_sync_at=NOW,
    hour_bucket=0,
    minute_offset=0,
    created_at=NOW - timedelta(days=9),
)
QUOTE = Quote(
    sku=SKU,
    list_price=Decimal(10),
    net_price=Decimal(8),
    currency="USD",
    quantities={"Miami FL": 5},
)
NOTHING = Reply(quotes={}, missing=frozenset([SKU]))


def read(listing: Listing, quote: Quote = QUOTE, standing: SellerSettings = STANDING) -> Settlement:
    return JUDGE.settle(listing, Reply(quotes={SKU: quote}), NOW, standing)


def missed(listing: Listing, judge: Judge = JUDGE) -> Settlement:
    return judge.settle(listing, NOTHING, NOW, STANDING)


def after(listing: Listing, settled: Settlement) -> Listing:
    """What the next claim would load."""
    observed = settled.observed
    return replace(
        listing,
        consecutive_failures=settled.failures,
        missing_count=settled.missing_count,
        last_boeing_hash=observed.fingerprint() if observed else listing.last_boeing_hash,
        observed=observed.as_json() if observed else listing.observed,
        desired=settled.desired or listing.desired,
        proposed=settled.proposed,
        rejected=settled.rejected,
        held_reason=settled.held_reason,
        moved_at=NOW if PRICES in settled.mass_changes else listing.moved_at,
        emptied_at=NOW if STOCK in settled.mass_changes else listing.emptied_at,
    )


def kinds(settled: Settlement) -> list[str]:
    return [event.kind for event in settled.events]


def test_the_first_read_is_an_update_and_the_same_again_is_not() -> None:
    first = read(LISTING)
    assert (first.outcome, kinds(first)) == (Outcome.UPDATED, ["first_observed"])
    again = read(after(LISTING, first))
    assert (again.outcome, again.events) == (Outcome.UNCHANGED, ())
    assert again.next_sync_at == NOW + timedelta(days=1)


@pytest.mark.parametrize(
    ("change", "kind"),
    (
        ({"list_price": Decimal(11)}, "price_changed"),
        ({"net_price": Decimal(9)}, "cost_changed"),
        ({"quantities": {"Miami FL": 4}}, "quantity_changed"),
    ),
)
def test_a_change_is_an_event_with_old_and_new_values(change: dict, kind: str) -> None:
    settled = read(after(LISTING, read(LISTING)), replace(QUOTE, **change))
    assert (settled.outcome, kinds(settled)) == (Outcome.UPDATED, [kind])
    event = settled.events[0]
    assert event.old != event.new


def test_running_out_and_coming_back_into_stock_are_events_beside_the_quantity() -> None:
    some = after(LISTING, read(LISTING))
    gone = read(some, replace(QUOTE, quantities={"Miami FL": 0}))
    assert kinds(gone) == ["quantity_changed", "stock_status_changed"]
    event = gone.events[-1]
    assert event.old == {"stock_status": "in stock"}
    assert event.new == {"stock_status": "out of stock"}
    back = read(after(some, gone), QUOTE)
    assert kinds(back) == ["quantity_changed", "stock_status_changed"]
    assert back.events[-1].new == {"stock_status": "in stock"}


def test_a_held_change_is_not_reported_again_when_the_last_piece_is_sold() -> None:
    listing = after(LISTING, read(LISTING))
    held = read(listing, replace(QUOTE, list_price=None, net_price=None))
    empty = replace(QUOTE, list_price=None, net_price=None, quantities={"Miami FL": 0})
    assert kinds(read(after(listing, held), empty)) == [
        "quantity_changed",
        "stock_status_changed",
    ]


def test_a_good_read_clears_failures_and_ends_a_retry() -> None:
    settled = read(
        replace(LISTING, priority=Priority.RETRY, consecutive_failures=4, missing_count=2)
    )
    assert (settled.failures, settled.missing_count, settled.priority) == (0, 0, Priority.SCHEDULED)


def test_a_quote_without_a_price_is_held_while_its_stock_reaches_the_shop() -> None:
    listing = after(LISTING, read(LISTING))
    gone = replace(QUOTE, list_price=None, net_price=None, quantities={"Miami FL": 2})
    settled = read(listing, gone)
    assert settled.desired == {**(listing.desired or {}), "quantities": {"Miami": 2}}
    assert settled.held_reason == "no price was quoted"
    assert settled.proposed is None
    assert kinds(settled).count("change_held") == 1
    fewer = replace(gone, quantities={"Miami FL": 1})
    assert kinds(read(after(listing, settled), fewer)) == ["quantity_changed"], "one event"


def test_a_first_quote_without_a_price_makes_no_desired_state() -> None:
    settled = read(LISTING, replace(QUOTE, list_price=None, net_price=None))
    assert (settled.desired, settled.proposed) == (None, None)
    assert settled.held_reason == "no price was quoted"


def test_a_price_that_moves_too_far_is_held_with_old_and_new_once_for_each_proposal() -> None:
    listing = after(LISTING, read(LISTING))
    settled = read(listing, replace(QUOTE, list_price=Decimal(40)))
    event = settled.events[-1]
    assert event.kind == "change_held"
    assert event.error == (
        "the price would rise by 300.0 %, from 11.00 to 44.00; more than 50 % is held"
    )
    assert (event.old, event.new) == (listing.desired, settled.proposed)
    held = after(listing, settled)
    again = read(held, replace(QUOTE, list_price=Decimal(40)))
    assert (settled.mass_changes, again.mass_changes, again.events) == ({PRICES}, set(), ())
    assert "change_held" in kinds(read(held, replace(QUOTE, list_price=Decimal(50))))


def test_the_moves_of_a_call_count_for_those_that_come_after_in_it() -> None:
    skus = [Sku(f"P{number}") for number in range(10)]
    before = read(LISTING)
    listings = [replace(after(LISTING, before), id=sku, sku=sku) for sku in skus]
    dearer = {sku: replace(QUOTE, sku=sku, list_price=Decimal(11)) for sku in skus}
    standings = {LISTING.user_id: replace(STANDING, changed_count={PRICES: 20})}
    settled = JUDGE.settle_all(listings, Reply(quotes=dearer), NOW, standings)
    assert [result.held_reason is None for result in settled] == [True] * 5 + [False] * 5
    assert settled[5].held_reason == "26 of 100 prices changed within a day, more than 25 %"
    assert all(result.mass_changes for result in settled), "the held ones count as well"


def test_each_seller_is_judged_by_own_terms_in_one_call() -> None:
    other = SellerId("t")
    standings = {
        LISTING.user_id: STANDING,
        other: SellerSettings(terms=replace(TERMS, markup=Decimal(1)), guard=Guard()),
    }
    listings = [LISTING, replace(LISTING, id="2", user_id=other)]
    settled = JUDGE.settle_all(listings, Reply(quotes={SKU: QUOTE}), NOW, standings)
    assert [(result.desired or {})["price"] for result in settled] == ["11.00", "20.00"]


def test_failures_wait_2_4_8_16_hours_and_the_fifth_parks() -> None:
    listing, waits = LISTING, []
    for _ in range(5):
        settled = JUDGE.charge(listing, NOW, "bad")
        waits.append(settled.next_sync_at - NOW)
        listing = after(listing, settled)
    assert waits == [timedelta(hours=hours) for hours in (2, 4, 8, 16, 24)]
    assert settled.is_parked
    assert kinds(settled) == ["sync_failed", "product_deactivated"]


def test_a_parked_part_leaves_the_sale_if_that_is_the_rule_and_it_was_ever_offered() -> None:
    failing = replace(after(LISTING, read(LISTING)), consecutive_failures=4)
    drafts = replace(JUDGE, rule=FailureRule(draft_parked=True))
    assert drafts.charge(failing, NOW, "bad").desired == {
        **(failing.desired or {}),
        "quantities": {"Miami": 0},
        "status": "DRAFT",
    }
    assert JUDGE.charge(failing, NOW, "bad").desired is None
    assert drafts.charge(replace(failing, consecutive_failures=3), NOW, "bad").desired is None
    assert drafts.charge(replace(failing, desired=None), NOW, "bad").desired is None


def test_a_parked_part_that_is_gone_shows_no_stock_either() -> None:
    listing = replace(after(LISTING, read(LISTING)), consecutive_failures=4, missing_count=2)
    settled = missed(listing, replace(JUDGE, rule=FailureRule(draft_parked=True)))
    assert settled.desired == {
        **(listing.desired or {}),
        "quantities": {"Miami": 0},
        "status": "DRAFT",
    }


def test_a_status_that_a_person_gave_back_outlives_the_next_read() -> None:
    listing = after(LISTING, read(LISTING))
    revived = replace(listing, desired={**(listing.desired or {}), "status": "UNLISTED"})
    assert (read(revived).desired or {})["status"] == "UNLISTED"


def test_parts_that_vanish_by_the_score_keep_their_stock_until_a_person_has_looked() -> None:
    gone = replace(after(LISTING, read(LISTING)), missing_count=2)
    crowd = replace(STANDING, changed_count={STOCK: 30})
    settled = JUDGE.settle(gone, NOTHING, NOW, crowd)
    assert settled.desired is None
    assert settled.proposed == {**(gone.desired or {}), "quantities": {"Miami": 0}}
    assert settled.held_reason is not None
    assert "change_held" in kinds(settled)
    assert settled.mass_changes == {STOCK}
    again = JUDGE.settle(after(gone, settled), NOTHING, NOW, crowd)
    assert (again.desired, "change_held" in kinds(again)) == (None, False)


def test_parts_that_are_parked_by_the_score_stay_on_sale_until_a_person_has_looked() -> None:
    failing = replace(after(LISTING, read(LISTING)), consecutive_failures=4, missing_count=4)
    drafts = replace(JUDGE, rule=FailureRule(draft_parked=True))
    crowd = replace(STANDING, changed_count={STOCK: 30})
    faulty = Reply(quotes={}, faulty={LISTING.sku: "nonsense"})
    for reply in (NOTHING, faulty):
        settled = drafts.settle(failing, reply, NOW, crowd)
        assert settled.is_parked
        assert settled.desired is None
        assert (settled.proposed or {})["status"] == "DRAFT"
        assert settled.held_reason is not None
        assert kinds(settled).count("change_held") == 1


def test_a_price_that_waits_does_not_bring_back_the_stock_of_a_part_that_is_gone() -> None:
    listing = after(LISTING, read(LISTING))
    held = after(listing, read(listing, replace(QUOTE, list_price=Decimal(40))))
    settled = missed(replace(held, missing_count=2))
    assert (settled.proposed or {})["quantities"] == {"Miami": 0}


def test_a_missing_sku_changes_nothing_until_it_is_confirmed_and_then_only_the_stock() -> None:
    listing = after(LISTING, read(LISTING))
    for count in (1, 2):
        settled = missed(listing)
        assert (settled.missing_count, settled.desired) == (count, None)
        listing = after(listing, settled)
    settled = missed(listing)
    assert settled.desired == {**(listing.desired or {}), "quantities": {"Miami": 0}}
    assert "not_listed" in kinds(settled)


def test_a_miss_beyond_a_lowered_number_of_confirmations_empties_the_stock_once() -> None:
    listing = replace(after(LISTING, read(LISTING)), missing_count=2)
    judge = replace(JUDGE, rule=FailureRule(missing_confirmations=2))
    settled = missed(listing, judge)
    assert settled.desired == {**(listing.desired or {}), "quantities": {"Miami": 0}}
    again = missed(after(listing, settled), judge)
    assert again.desired is None
    assert "not_listed" not in kinds(again)


def test_the_count_of_missed_reads_makes_sense() -> None:
    listing, messages = after(LISTING, read(LISTING)), []
    for _ in range(4):
        settled = missed(listing)
        messages.append((settled.error or "").partition("(")[2])
        listing = after(listing, settled)
    assert messages == ["1 of 3)", "2 of 3)", "3 of 3)", "4 times)"]


def test_a_part_that_returns_unchanged_gets_its_stock_back() -> None:
    listing = after(LISTING, read(LISTING))
    for _ in range(3):
        listing = after(listing, missed(listing))
    back = read(listing)
    assert back.desired is not None
    assert back.desired["quantities"] == {"Miami": 5}


def test_an_unusable_line_is_charged_to_its_sku_only() -> None:
    reply = Reply(quotes={}, faulty={SKU: "negative price"})
    settled = JUDGE.settle(LISTING, reply, NOW, STANDING)
    assert settled.outcome is Outcome.FAILED
    assert "negative price" in (settled.error or "")
    assert settled.missing_count == 0


def batch(*suspicion: int, read_at: datetime | None = NOW) -> list[Listing]:
    return [
        replace(
            LISTING,
            id=str(n),
            sku=Sku(f"P{n}"),
            suspicion=count,
            last_successful_sync=read_at,
        )
        for n, count in enumerate(suspicion)
    ]


def test_a_failed_call_makes_everybody_more_suspect_and_convicts_nobody() -> None:
    suspicion, convicted = suspicions(batch(0, 0, 1, 2), 10, last_call_was_good=True)
    assert suspicion == {"0": 1, "1": 1, "2": 2, "3": 3}
    assert not convicted


def test_a_lone_suspect_is_convicted_only_after_it_failed_alone_before() -> None:
    assert not suspicions(batch(5, *[0] * 9), 10, last_call_was_good=True)[1]
    suspicion, convicted = suspicions(batch(6, *[0] * 9), 10, last_call_was_good=True)
    assert [listing.sku for listing in convicted] == ["P0"]
    assert [suspicion[str(n)] for n in range(1, 10)] == [0] * 9, "its company is spared"


def test_nobody_is_convicted_beside_a_part_that_may_be_the_culprit_itself() -> None:
    assert not suspicions(batch(6, 1, *[0] * 8), 10, last_call_was_good=True)[1]
    assert not suspicions(batch(6, 0, read_at=None), 10, last_call_was_good=True)[1]


QUOTED = {Sku("P0"): QUOTE}


@pytest.mark.parametrize(
    ("reply", "unclear"),
    (
        (Reply(quotes={}, missing=frozenset({Sku("P0"), Sku("P1")})), {"P0", "P1"}),
        (Reply(quotes={}, missing=frozenset({Sku("P0")})), set()),
        (Reply(quotes=QUOTED, missing=frozenset({Sku("P1"), Sku("P2")})), set()),
        (Reply(quotes=QUOTED, unclear={Sku("P1"): "?", Sku("P2"): "?"}), {"P1", "P2"}),
        (Reply(quotes=QUOTED, unclear={Sku("P1"): "?"}), set()),
        (Reply(quotes={}, faulty={Sku("P0"): "?"}, missing=frozenset({Sku("P1")})), set()),
    ),
    ids=(
        "an empty reply", "empty for one alone", "some answered", "a nameless line",
        "a nameless line that can be only one's", "refused by name",
    ),
)  # fmt: skip
def test_a_reply_that_says_nothing_of_a_part_is_no_evidence_against_it(
    reply: Reply, unclear: set[str]
) -> None:
    assert set(unclear_skus(reply, batch(0, 0, 0))) == unclear


def test_an_empty_reply_is_expected_of_parts_that_were_all_missing_before() -> None:
    reply = Reply(quotes={}, missing=frozenset({Sku("P0"), Sku("P1")}))
    first, second = (replace(listing, missing_count=1) for listing in batch(0, 0))
    assert not unclear_skus(reply, [first, second])
    assert set(unclear_skus(reply, [first, replace(second, missing_count=0)])) == {"P0", "P1"}


def test_nobody_is_convicted_while_the_supplier_fails_others_too() -> None:
    assert not suspicions(batch(9, *[0] * 9), 10, last_call_was_good=False)[1]


def test_two_suspects_in_call_shield_each_other() -> None:
    assert not suspicions(batch(6, 2, *[0] * 8), 10, last_call_was_good=True)[1]


def test_where_a_call_has_one_seat_two_failures_between_good_calls_convict() -> None:
    assert not suspicions(batch(1), 1, last_call_was_good=True)[1]
    assert suspicions(batch(2), 1, last_call_was_good=True)[1]
