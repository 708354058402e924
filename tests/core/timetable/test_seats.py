from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headway.core.catalog.listings import Candidate, Priority, SellerId, Sku
from headway.core.timetable.seats import SeatRule, departure, fill_call, suspects_max

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULE = SeatRule(seats=10, slack=timedelta(minutes=20))


def candidate(
    sku: str,
    *,
    due_min: float = 0,
    priority: Priority = Priority.SCHEDULED,
    suspicion: int = 0,
    is_proven: bool = True,
    seller: str = "s",
) -> Candidate:
    return Candidate(
        id=f"{seller}/{sku}",
        user_id=SellerId(seller),
        sku=Sku(sku),
        priority=priority,
        next_sync_at=NOW + timedelta(minutes=due_min),
        suspicion=suspicion,
        is_proven=is_proven,
    )


def skus(in_call: list[Candidate]) -> list[str]:
    return [candidate.sku for candidate in in_call]


def test_a_call_with_ten_due_leaves_at_once() -> None:
    front = [candidate(f"P{n}", due_min=-n) for n in range(10)]
    assert departure(front, NOW, RULE) == NOW


def test_a_call_with_fewer_due_waits_for_company_until_the_first_has_no_slack_left() -> None:
    front = [candidate("P1", due_min=-5), candidate("P2", due_min=600)]
    assert departure(front, NOW, RULE) == NOW + timedelta(minutes=15)


def test_a_call_leaves_when_its_tenth_seat_becomes_due() -> None:
    front = [candidate(f"P{n}", due_min=n) for n in range(10)]
    assert departure(front, NOW, RULE) == NOW + timedelta(minutes=9)


def test_an_urgent_listing_sends_the_call_at_once() -> None:
    front = [candidate("P1", due_min=60), candidate("P2", priority=Priority.MANUAL)]
    assert departure(front, NOW, RULE) == NOW


def test_an_eager_rule_with_spare_seats_waits_unless_a_part_was_never_read() -> None:
    rule = replace(RULE, is_eager=True, has_spare_seats=True, slack=timedelta(0))
    known, new = candidate("P1", due_min=30), candidate("P2", due_min=40, is_proven=False)
    assert departure([known], NOW, rule) == NOW + timedelta(minutes=30)
    assert departure([known, new], NOW, rule) == NOW
    failed = candidate("P3", due_min=600, is_proven=False)
    assert departure([known, failed], NOW, rule) == NOW + timedelta(minutes=30)


def test_an_empty_queue_never_departs() -> None:
    assert departure([], NOW, RULE) is None


def test_listings_join_a_call_by_priority_and_spare_seats_are_borrowed() -> None:
    front = [
        candidate("ahead", due_min=30),
        candidate("retry", due_min=-1, priority=Priority.RETRY),
        candidate("later-retry", due_min=1, priority=Priority.RETRY),
        candidate("due", due_min=-2),
        candidate("new", priority=Priority.ONBOARDING),
        candidate("asked", priority=Priority.MANUAL),
    ]
    assert skus(fill_call(front, NOW, RULE)) == ["asked", "new", "due", "retry", "ahead"]


def test_scheduled_listings_without_slack_go_before_all_but_a_few_urgent_ones() -> None:
    flood = [candidate(f"N{n}", due_min=-99, priority=Priority.ONBOARDING) for n in range(20)]
    manual = [candidate("asked", priority=Priority.MANUAL)]
    late = [candidate(f"L{n}", due_min=-21) for n in range(12)]
    due = [candidate(f"P{n}", due_min=-19) for n in range(12)]
    in_call = skus(fill_call(flood + manual + late + due, NOW, RULE))
    assert in_call == ["asked", "N0"] + [f"L{n}" for n in range(8)]
    retry = [candidate("R", due_min=-21, priority=Priority.RETRY)]
    assert skus(fill_call(flood + late + retry, NOW, RULE))[:4] == ["N0", "N1", "R", "L0"]
    in_call = skus(fill_call(flood + manual + late[:3] + due, NOW, RULE))
    assert in_call == ["asked", "N0", "L0", "L1", "L2"] + [f"N{n}" for n in range(1, 6)]


def test_with_patience_due_listings_let_urgent_ones_go_first_for_longer() -> None:
    rule = SeatRule(seats=10, slack=timedelta(0), patience=timedelta(hours=1), is_eager=True)
    flood = [candidate(f"N{n}", priority=Priority.ONBOARDING) for n in range(20)]
    due = [candidate(f"P{n}", due_min=-59) for n in range(12)]
    assert skus(fill_call(flood + due, NOW, rule)) == [f"N{n}" for n in range(10)]
    late = [candidate(f"L{n}", due_min=-61) for n in range(5)]
    retry = [candidate("R", due_min=-1, priority=Priority.RETRY)]
    in_call = skus(fill_call(flood + due + late + retry, NOW, rule))
    assert in_call == ["N0", "N1", "R", "L0", "L1", "L2", "L3", "L4", "N2", "N3"]


def test_one_long_overdue_retry_goes_with_the_scheduled_and_the_next_waits() -> None:
    due = [candidate(f"P{n}", due_min=-n) for n in range(12)]
    late = [candidate(f"R{n}", due_min=-90 + n, priority=Priority.RETRY) for n in range(3)]
    in_call = skus(fill_call(due + late, NOW, RULE))
    assert [sku for sku in in_call if sku.startswith("R")] == ["R0"]


def test_a_sku_of_two_sellers_takes_one_seat() -> None:
    front = [candidate(f"P{n}", seller=seller) for n in range(10) for seller in ("a", "b")]
    assert skus(fill_call(front, NOW, RULE)) == [f"P{n}" for n in range(10)]


def test_one_failed_call_restricts_nobody_and_each_further_one_halves_the_company() -> None:
    assert [suspects_max(n, 10) for n in range(7)] == [10, 10, 5, 3, 2, 1, 1]


def test_suspects_are_bisected_while_the_others_take_the_other_seats() -> None:
    front = [candidate(f"S{n}", due_min=-99, suspicion=2) for n in range(10)]
    front += [candidate(f"P{n}", due_min=n, suspicion=n % 2) for n in range(10)]
    in_call = skus(fill_call(front, NOW, RULE))
    assert len(in_call) == 10
    assert sum(sku.startswith("S") for sku in in_call) == 5


def test_the_worst_suspect_in_call_decides_how_much_company_it_has() -> None:
    worst = [candidate("W", due_min=-99, suspicion=5)]
    front = worst + [candidate(f"S{n}", suspicion=2) for n in range(10)]
    assert skus(fill_call(front, NOW, RULE)) == ["W"]
    in_call = fill_call(front + [candidate(f"P{n}", due_min=1) for n in range(9)], NOW, RULE)
    assert [candidate.sku for candidate in in_call if candidate.suspicion] == ["W"]
    assert len(in_call) == 10


def test_after_a_failed_call_the_least_suspect_join_call_first() -> None:
    suspects = [candidate(f"S{n}", due_min=-99, suspicion=2) for n in range(10)]
    fallen = [candidate(f"F{n}", due_min=-50, suspicion=1) for n in range(4)]
    clean = [candidate(f"P{n}", due_min=5) for n in range(4)]
    in_call = skus(fill_call(suspects + fallen + clean, NOW, RULE, least_suspect=True))
    assert [sku[0] for sku in in_call] == ["P"] * 4 + ["F"] * 4 + ["S"] * 2
    assert fill_call([], NOW, RULE, least_suspect=True) == []


candidates = st.lists(
    st.builds(
        candidate,
        st.sampled_from([f"P{n}" for n in range(15)]),
        due_min=st.integers(-200, 200),
        priority=st.sampled_from(
            [Priority.MANUAL, Priority.ONBOARDING, Priority.SCHEDULED, Priority.RETRY]
        ),
        seller=st.sampled_from("ab"),
    ),
    max_size=40,
)


@given(candidates)
def test_seats_are_full_whenever_enough_skus_may_join_call_and_no_sku_joins_call_twice(
    front: list[Candidate],
) -> None:
    eligible = {
        candidate.sku
        for candidate in front
        if candidate.priority is not Priority.RETRY or candidate.next_sync_at <= NOW
    }
    in_call = skus(fill_call(front, NOW, RULE))
    assert len(in_call) == min(RULE.seats, len(eligible))
    assert len(set(in_call)) == len(in_call)


@given(candidates)
def test_nobody_due_waits_longer_than_the_slack(front: list[Candidate]) -> None:
    leave_at = departure(front, NOW, RULE)
    for candidate in front:
        assert leave_at is not None
        assert leave_at <= max(NOW, candidate.next_sync_at + RULE.slack)


def test_the_accused_shares_a_call_only_with_parts_that_were_read_before() -> None:
    accused = candidate("A", due_min=-99, suspicion=6)
    unread = [candidate(f"U{n}", due_min=-50, is_proven=False) for n in range(5)]
    proven = [candidate(f"P{n}", due_min=-9) for n in range(9)]
    failed_once = candidate("F", due_min=-60, suspicion=1)
    in_call = fill_call([accused, failed_once, *unread, *proven], NOW, RULE)
    assert set(skus(in_call)) == {"A", *skus(proven)}
    later = fill_call([candidate("A", suspicion=6), *unread, *proven], NOW, RULE)
    assert set(skus(later)) == {*skus(unread), *skus(proven[:5])}, "unread parts go first"


def test_the_accused_waits_where_it_would_leave_seats_empty_unless_few_are_left() -> None:
    accused = candidate("A", due_min=-99, suspicion=6)
    unread = [candidate(f"U{n}", is_proven=False) for n in range(10)]
    assert set(skus(fill_call([accused, *unread], NOW, RULE))) == set(skus(unread))
    assert skus(fill_call([accused, *unread[:5]], NOW, RULE)) == ["A"]
