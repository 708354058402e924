import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.timetable.paper_queue import (
    CALLS_A_DAY,
    SEATS,
    PaperLine,
    Score,
    bound,
    call_times,
    round_robin,
)
from tests.core.timetable.paper_worlds import WORLDS, World, bursty, equal, steady, weighted

from headway.core.catalog.listings import Evidence, Listing, Priority, SellerId, Sku
from headway.core.timetable.families import SHARES, Family
from headway.core.timetable.market import Lesson, Market
from headway.core.timetable.policies import ReadResult
from headway.core.timetable.policies.adaptive import Adaptive
from headway.core.timetable.rates import BINS, Recency

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
MARKET = Market(listings=5000, seats_per_min=19.0, price=1.0)
POLICY = Adaptive().informed(MARKET)


def listing(sku: str = "P1", *, read_at: datetime | None = NOW - 4 * HOUR) -> Listing:
    return Listing(
        id=sku,
        user_id=SellerId("s"),
        sku=Sku(sku),
        priority=Priority.SCHEDULED,
        fence=1,
        next_sync_at=NOW,
        hour_bucket=0,
        minute_offset=0,
        created_at=NOW,
        last_successful_sync=read_at,
        evidence=Evidence(changes_seen=1.0, watched_days=20.0),
    )


def read_result(row: Listing, *, has_changed: bool = False) -> ReadResult:
    return ReadResult(listing=row, at=NOW, has_changed=has_changed)


def wait_h(row: Listing, policy: Adaptive = POLICY, *, has_changed: bool = False) -> float:
    return (policy.next_read(read_result(row, has_changed=has_changed)).next_sync_at - NOW) / HOUR


def test_a_new_listing_is_due_within_a_quarter_of_an_hour() -> None:
    dues = {POLICY.place(Sku(f"P{n}"), NOW).next_sync_at - NOW for n in range(200)}
    assert min(dues) > timedelta(0)
    assert max(dues) <= timedelta(minutes=15)
    assert len(dues) > 10
    place = POLICY.place(Sku("P1"), NOW)
    assert (place.hour_bucket, place.minute_offset) == (
        place.next_sync_at.hour,
        place.next_sync_at.minute,
    )


def test_who_changes_or_matters_is_looked_at_sooner() -> None:
    usual = wait_h(listing())
    assert wait_h(listing(), has_changed=True) < usual
    assert wait_h(replace(listing(), value_weight=4.0)) == pytest.approx(usual / 2, rel=0.05)
    assert wait_h(listing(), POLICY.informed(replace(MARKET, price=4.0))) > usual


@given(
    changes=st.floats(0, 1000),
    days=st.floats(0, 1000),
    price=st.floats(1e-9, 1e7),
    weight=st.floats(1e-3, 1e6),
)
def test_nobody_waits_longer_than_22_hours_or_not_at_all(
    changes: float, days: float, price: float, weight: float
) -> None:
    row = replace(
        listing(),
        evidence=Evidence(changes_seen=changes, watched_days=days),
        value_weight=weight,
    )
    assert 0 < wait_h(row, POLICY.informed(replace(MARKET, price=price))) <= 22


def test_a_first_read_teaches_nothing() -> None:
    row = listing(read_at=None)
    assert POLICY.next_read(read_result(row, has_changed=True)).evidence == row.evidence
    lesson = POLICY.learn([read_result(replace(row, family="f"), has_changed=True)])
    assert lesson.lag_min is None
    assert not lesson.families


def test_who_changed_lately_is_looked_at_sooner_if_that_was_learned() -> None:
    bursty = Recency(hits=(100.0,) * 8, hits_expected=(10.0,) * 8)
    row = replace(listing(), evidence=replace(listing().evidence, changed_at=NOW - HOUR / 2))
    assert wait_h(row, POLICY.informed(replace(MARKET, recency=bursty))) < wait_h(row) / 1.5


def test_a_failure_backs_off_but_not_beyond_the_deadline() -> None:
    assert POLICY.next_try(listing(), NOW, 2 * HOUR) == NOW + 2 * HOUR
    old = listing(read_at=NOW - 21 * HOUR)
    assert POLICY.next_try(old, NOW, 8 * HOUR) == NOW + HOUR
    older = listing(read_at=NOW - 22 * HOUR + HOUR / 60)
    assert POLICY.next_try(older, NOW, 8 * HOUR) == NOW + HOUR / 12
    at_its_deadline = listing(read_at=NOW - 22 * HOUR)
    again_at = POLICY.next_try(at_its_deadline, NOW, 2 * HOUR)
    assert NOW + HOUR < again_at < NOW + 2 * HOUR, "within the day, with time for the call"
    assert POLICY.next_try(listing(read_at=NOW - 24 * HOUR), NOW, 8 * HOUR) == NOW + 8 * HOUR
    assert POLICY.next_try(listing(read_at=None), NOW, 8 * HOUR) == NOW + 8 * HOUR
    assert POLICY.retry_window(NOW, 5000) is None


def test_the_lag_is_that_of_the_last_listing_which_came_in_its_own_time() -> None:
    late = replace(listing("late"), next_sync_at=NOW - HOUR)
    last = replace(listing("last"), next_sync_at=NOW - HOUR / 2)
    swept = replace(listing("swept"), next_sync_at=NOW, swept_from=NOW + HOUR)
    pulled = replace(listing("pulled"), next_sync_at=NOW - 4 * HOUR)
    wished = replace(listing("wished"), next_sync_at=NOW, priority=Priority.MANUAL)
    in_call = [read_result(listing) for listing in (late, last, swept, pulled, wished)]
    assert POLICY.learn(in_call).lag_min == 30
    assert POLICY.learn(in_call[2:]).lag_min is None


def test_changes_soon_after_a_change_are_counted_with_what_was_expected() -> None:
    lately = replace(listing().evidence, changed_at=NOW - 5 * HOUR)
    lesson = POLICY.learn([read_result(replace(listing(), evidence=lately), has_changed=True)])
    assert lesson.hits[1] == 1, "it had been read an hour after its change"
    assert sum(lesson.hits) == 1
    assert 0 < sum(lesson.hits_expected) < 0.1


def family_of(lesson: Lesson) -> Family:
    (family,) = lesson.families
    return family


def test_a_change_in_a_family_asks_a_few_companions_and_their_answers_the_others() -> None:
    members = [replace(listing(f"P{n}"), family="f") for n in range(9)]
    lesson = POLICY.learn([read_result(members[0], has_changed=True)])
    (sweep,) = lesson.sweeps
    assert (sweep.family, sweep.limit) == ("f", 8)
    assert sweep.read_before < NOW
    policy = POLICY.informed(replace(MARKET, families={"f": family_of(lesson)}))
    lesson = policy.learn([read_result(member, has_changed=True) for member in members[1:4]])
    (sweep,) = lesson.sweeps
    assert sweep.limit is None
    policy = POLICY.informed(replace(MARKET, families={"f": family_of(lesson)}))
    assert not policy.learn([read_result(members[5], has_changed=True)]).sweeps, (
        "all are in a sweep"
    )
    own = policy.next_read(read_result(members[5], has_changed=True)).evidence
    assert own.changes_seen < 1.1, "the list explains it"


def test_companions_that_did_not_change_are_spared_and_the_family_is_believed_less() -> None:
    members = [replace(listing(f"P{n}"), family="f") for n in range(40)]
    lesson = POLICY.learn([read_result(members[0], has_changed=True)])
    policy = POLICY.informed(replace(MARKET, families={"f": family_of(lesson)}))
    lesson = policy.learn([read_result(member) for member in members[1:]])
    assert list(lesson.spares) == ["f"]
    assert not lesson.sweeps
    calm = POLICY.informed(replace(MARKET, families={"f": family_of(lesson)}))
    closed = calm.learn([read_result(member) for member in members[1:]])
    assert not closed.spares


def test_an_episode_ends_when_everybody_was_read_anyway() -> None:
    row = replace(listing(), family="f")
    family = family_of(POLICY.learn([read_result(row, has_changed=True)]))
    policy = POLICY.informed(replace(MARKET, families={"f": family}))
    later = ReadResult(listing=row, at=NOW + 6 * HOUR, has_changed=False)
    lesson = policy.learn([later])
    assert family_of(lesson).episode is None
    assert sum(lesson.hits_expected[len(BINS) :]) > 0
    assert len(lesson.hits) == len(BINS) + len(SHARES)


def test_it_says_in_one_sentence_why() -> None:
    row = replace(
        listing(), evidence=Evidence(changes_seen=3.2, watched_days=41), next_sync_at=NOW + HOUR
    )
    why = POLICY.reason(row, NOW)
    assert re.fullmatch(
        r"3 changes in 41 days → 0\.0\d+ a day; \d+ % likely stale;"
        r" worth [\d.]+ min, current price 1; next read 13:30",
        why,
    )
    assert "swept" in POLICY.reason(replace(row, swept_from=NOW), NOW)
    assert "1 change in" in POLICY.reason(listing(), NOW)
    unread = listing(read_at=None)
    reason = POLICY.reason(unread, NOW)
    assert reason == f"never read yet; first look {unread.next_sync_at:%H:%M}", "not at once"


PRODUCTS = 600
# As many for each listing as 5,000 have.
CALLS = CALLS_A_DAY * PRODUCTS / 5000


def tried(
    world: World, days: float, calls_a_day: float = CALLS, seats: int = SEATS
) -> tuple[PaperLine, Score, Score]:
    calls = call_times(world, days, 1, calls_a_day)
    line = PaperLine(world, days, calls_a_day, seats)
    return line, line.run(calls), round_robin(world, days, calls)


def test_it_learns_who_changes_often() -> None:
    line, score, priorities = tried(steady(PRODUCTS, 8, 1), 8)
    least = bound(line.world, CALLS)
    assert least is not None
    assert score.expected_min / 8 / PRODUCTS < 1.6 * least
    assert score.expected_min < 0.77 * priorities.expected_min


def test_it_does_no_harm_where_all_are_alike() -> None:
    _, score, priorities = tried(equal(PRODUCTS, 8, 1), 8)
    # In a week, 600 listings show less about one another than 5,000 (where it is 1.005).
    assert score.expected_min < 1.03 * priorities.expected_min


def test_it_sweeps_families_that_change_together() -> None:
    line, score, priorities = tried(bursty(PRODUCTS, 8, 1, every_days=7), 8)
    assert score.staleness_min() < 0.6 * priorities.staleness_min()
    assert line.swept_reads / score.reads < 0.1


@pytest.mark.parametrize("name", ("random-labels", "one-family"))
def test_wrong_families_do_no_harm(name: str) -> None:
    line, score, priorities = tried(WORLDS[name](PRODUCTS, 6, 1), 6)
    assert score.staleness_min() < 1.02 * priorities.staleness_min()
    assert line.swept_reads / score.reads < 0.1


def test_nobody_grows_older_than_a_day_though_the_seats_hardly_suffice() -> None:
    world = weighted(PRODUCTS, 5, 1)
    world = replace(world, outages=[(3.4 * 1440, 3.4 * 1440 + 118)], failed_share=0.02)
    line, score, _ = tried(world, 5, calls_a_day=720, seats=1)
    assert score.oldest_min <= 24 * 60
    assert line.guarded_reads > 0


def test_half_a_day_of_outage_is_made_good_within_a_day() -> None:
    world = steady(PRODUCTS, 7, 1)
    world = replace(world, outages=[(4 * 1440, 4.5 * 1440)])
    _, score, _ = tried(world, 7)
    before = sum(score.by_day[2:4]) / 2
    assert score.by_day[4] > 2 * before
    assert score.by_day[5] < 1.25 * before
