"""The queue played forward: which listings are in which call, and when it is sent."""

from datetime import UTC, datetime, timedelta

import pytest

from headway.core.catalog.listings import Listing, Priority, SellerId, Sku
from headway.core.timetable.outlook import Departures, Outlook, foresee
from headway.core.timetable.policies.policy import Next, Policy, ReadResult
from headway.core.timetable.policies.rolling import Rolling
from headway.core.timetable.seats import SeatRule

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HEADWAY = timedelta(seconds=30)
CALM = Rolling()
RULE = SeatRule(seats=2, slack=timedelta(minutes=20))


def listing(sku: str, due_in_min: float, *, priority: Priority = Priority.SCHEDULED) -> Listing:
    return Listing(
        id=f"id-{sku}",
        user_id=SellerId("acme"),
        sku=Sku(sku),
        priority=priority,
        fence=1,
        next_sync_at=NOW + timedelta(minutes=due_in_min),
        hour_bucket=0,
        minute_offset=0,
        created_at=NOW,
    )


def foreseen(
    *queue: Listing,
    sign_ins: tuple[datetime, ...] = (),
    permit_at: datetime = NOW,
    retries_from: datetime | None = None,
    policy: Policy = CALM,
) -> dict[str, timedelta]:
    outlook = Outlook(
        queue=queue,
        departures=Departures(permit_at=permit_at, headway=HEADWAY, sign_ins=sign_ins),
        rule=RULE,
        policy=policy,
        retries_from=retries_from,
    )
    expected_skus = {candidate.sku for candidate in queue}
    return {str(sku): at - NOW for sku, at in foresee(outlook, NOW, expected_skus).items()}


def test_those_who_are_due_join_call_two_a_call_a_headway_apart() -> None:
    queue = [listing(f"P{number}", -50 + number) for number in range(4)]
    none, one = timedelta(0), HEADWAY
    assert foreseen(*queue) == {"P0": none, "P1": none, "P2": one, "P3": one}


def test_a_call_waits_for_company_and_lends_its_spare_seat() -> None:
    calls = foreseen(listing("DUE", 0), listing("LATER", 300))
    assert calls == {"DUE": timedelta(minutes=20), "LATER": timedelta(minutes=20)}


def test_an_urgent_listing_goes_first_and_a_retry_after_the_due_ones() -> None:
    queue = [
        listing("RETRY", -10, priority=Priority.RETRY),
        listing("DUE1", -5),
        listing("DUE2", -4),
        listing("NOW", 0, priority=Priority.MANUAL),
    ]
    calls = foreseen(*queue)
    assert (calls["NOW"], calls["DUE1"]) == (timedelta(0), timedelta(0))
    assert (calls["DUE2"], calls["RETRY"]) == (HEADWAY, HEADWAY)


def test_a_token_that_ends_costs_a_headway_and_its_successor_another_later() -> None:
    queue = [listing(f"P{number}", -50 + number) for number in range(6)]
    calls = foreseen(*queue, sign_ins=(NOW + timedelta(seconds=20),))
    assert [calls[f"P{number}"] / HEADWAY for number in (0, 2, 4)] == [0, 2, 3]


def test_nobody_joins_call_before_the_first_permit() -> None:
    calls = foreseen(listing("DUE", -60), permit_at=NOW + timedelta(minutes=7))
    assert calls == {"DUE": timedelta(minutes=7)}


class Restless(Rolling):
    """Every third look shows a change, and lets the part go before all others once more."""

    def chance(self, listing: Listing, at: datetime) -> float:
        del listing, at
        return 1 / 3

    def next_read(self, result: ReadResult) -> Next:
        wait = timedelta(hours=-3) if result.has_changed else timedelta(days=1)
        return Next(next_sync_at=result.at + wait, evidence=result.listing.evidence)


def test_as_many_come_back_early_as_are_likely_to_have_changed() -> None:
    queue = [listing(f"P{number:02}", number - 100) for number in range(24)]
    calm = foreseen(*queue)["P23"] / HEADWAY
    restless = foreseen(*queue, policy=Restless())["P23"] / HEADWAY
    assert calm == 11
    assert restless == pytest.approx(11 * 3 / 2, abs=1), "three reads for every two parts"


def test_a_retry_waits_for_the_next_window_while_this_one_is_full() -> None:
    opens_at = NOW + timedelta(hours=2)
    retry = listing("RETRY", -10, priority=Priority.RETRY)
    dues = [listing(f"P{number}", number * 60) for number in range(1, 5)]
    calls = foreseen(retry, *dues, retries_from=opens_at)
    assert calls["RETRY"] >= timedelta(hours=2)
    assert foreseen(retry, *dues)["RETRY"] < timedelta(hours=1)
