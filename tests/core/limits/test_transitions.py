"""The limiter's rules by example, on the twin in memory."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headway.clock import rng
from headway.core.limits.memory import MemoryLimiter
from headway.core.limits.queue import AGEING_US
from headway.core.limits.rules import SECOND_US, Rule
from headway.core.limits.state import at_us, dump, instant, load
from headway.core.limits.transitions import (
    BeginResult,
    Bucket,
    Expired,
    Granted,
    NotYet,
    Observation,
    Permit,
    Quota,
    Rejected,
    Resource,
    Window,
)
from headway.errors import InvalidError, InvariantError
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
BOEING = Window(limit=2, span_s=60, gap_s=30, jitter_s=2.5)
US = timedelta(microseconds=1)


def limiter_of(clock: VirtualClock, **rules: tuple[Rule, ...]) -> MemoryLimiter:
    """Return a limiter whose past is known: the first pause is over."""
    limiter = MemoryLimiter(
        clock, [Resource(key=key, rules=own_rules) for key, own_rules in rules.items()]
    )
    for key in rules:
        limiter.pause(key, 0, "")
    clock.sleep(1000)
    return limiter


def ask(limiter: MemoryLimiter, *keys: str, **wishes: float) -> Permit:
    defaults = {"max_wait_s": 1e6, "lease_s": 60, "grace_s": 10}
    permit = limiter.reserve(keys or ["boeing"], owner="test", **(defaults | wishes))
    assert isinstance(permit, Permit)
    return permit


def begin_call(limiter: MemoryLimiter, clock: VirtualClock, *keys: str, **wishes: float) -> Permit:
    """Reserve, wait as long as the answer says, and begin."""
    permit = ask(limiter, *keys, **wishes)
    clock.sleep(permit.wait_s)
    while isinstance(answer := limiter.begin(permit), NotYet):
        clock.sleep(answer.wait_s)
    assert isinstance(answer, Granted)
    return permit


def quota_of(limiter: MemoryLimiter, key: str) -> tuple[float, float]:
    gauge = limiter.status(key).gauges[-1]
    return gauge.used, gauge.reserved


def test_a_new_key_waits_for_one_window_because_its_history_is_unknown(clock: VirtualClock) -> None:
    limiter = MemoryLimiter(clock, [Resource(key="boeing", rules=(BOEING,))])
    assert ask(limiter).start_at == START + timedelta(seconds=62.5) + US
    assert limiter.status("boeing").reason == "history unknown"


def test_a_new_bucket_starts_full_and_a_new_quota_empty(clock: VirtualClock) -> None:
    rules = (Bucket(capacity=40, rate_per_s=2), Quota(limit=100, span_s=86400))
    limiter = MemoryLimiter(clock, [Resource(key="shop", rules=rules)])
    assert ask(limiter, "shop", cost=3).wait_s == pytest.approx(1.5)
    assert [gauge.used for gauge in limiter.status("shop").gauges] == [40, 0]


def test_the_next_call_starts_a_gap_after_the_finish_and_the_third_a_window_after(
    clock: VirtualClock,
) -> None:
    limiter = limiter_of(clock, boeing=(Window(limit=2, span_s=60, gap_s=10, jitter_s=2.5),))
    finishes = []
    for _ in range(2):
        permit = begin_call(limiter, clock)
        clock.sleep(5)
        limiter.settle(permit, sent=True)
        finishes.append(clock.now())
    assert finishes[1] - finishes[0] == timedelta(seconds=15) + US
    assert ask(limiter).start_at == finishes[0] + timedelta(seconds=60) + US


def test_a_call_in_flight_counts_as_arriving_now(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    begin_call(limiter, clock)
    clock.sleep(50)
    assert ask(limiter).wait_s == pytest.approx(30.000001)


def test_a_call_that_may_still_arrive_counts_from_its_finish_and_the_jitter(
    clock: VirtualClock,
) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    limiter.settle(begin_call(limiter, clock), sent=True, is_late=True)
    assert ask(limiter).wait_s == pytest.approx(32.500001)


@pytest.mark.parametrize(("anchor", "wait_s"), (("finish", 30), ("cap", 22.5), ("start", 22.5)))
def test_the_anchor_says_until_when_a_slow_call_may_have_arrived(
    clock: VirtualClock, anchor: str, wait_s: float
) -> None:
    window = Window(limit=2, span_s=60, gap_s=30, jitter_s=2.5, anchor=anchor)
    limiter = limiter_of(clock, boeing=(window,))
    permit = begin_call(limiter, clock)
    clock.sleep(10)
    limiter.settle(permit, sent=True)
    assert ask(limiter).wait_s == pytest.approx(wait_s + 1e-6)


def test_a_crashed_call_counts_until_the_end_of_its_lease(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    permit = begin_call(limiter, clock, lease_s=45)
    begun_at = clock.now()
    clock.sleep(50)
    assert ask(limiter).start_at == begun_at + timedelta(seconds=45 + 30) + US
    line = limiter.ledger[permit.id, "boeing"]
    assert (line.status, line.arrived_by) == ("lost", begun_at + timedelta(seconds=45))


def test_a_settle_after_the_lease_raises_the_arrival_once(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    permit = begin_call(limiter, clock, lease_s=45)
    clock.sleep(100)
    limiter.settle(permit, sent=True)
    late = clock.now()
    clock.sleep(5)
    limiter.settle(permit, sent=True)
    limiter.settle(permit, sent=False)
    assert ask(limiter).start_at == late + timedelta(seconds=30) + US
    assert limiter.ledger[permit.id, "boeing"].arrived_by == late


def test_an_unsent_call_gives_its_slot_back(clock: VirtualClock) -> None:
    rules = (BOEING, Bucket(capacity=10, rate_per_s=0.01), Quota(limit=10, span_s=86400))
    limiter = limiter_of(clock, boeing=rules)
    permit = begin_call(limiter, clock, cost=2)
    limiter.settle(permit, sent=False)
    assert [gauge.used for gauge in limiter.status("boeing").gauges] == [0, 0, 0]
    assert limiter.ledger[permit.id, "boeing"].status == "unsent"
    assert ask(limiter).wait_s == 0


def test_an_unsent_permit_that_never_began_leaves_the_queue(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    first, second = ask(limiter), ask(limiter)
    limiter.settle(first, sent=False)
    assert isinstance(limiter.begin(first), Expired)
    assert isinstance(limiter.begin(second), Granted)


def test_a_permit_begins_once(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    assert isinstance(limiter.begin(begin_call(limiter, clock)), Expired)


def test_a_permit_whose_owner_stays_away_is_dropped_after_its_grace(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    absent, present = ask(limiter, grace_s=10), ask(limiter, grace_s=60)
    clock.sleep(10)
    assert isinstance(limiter.begin(present), NotYet)
    clock.sleep(0.000001)
    assert isinstance(limiter.begin(present), Granted)
    assert isinstance(limiter.begin(absent), Expired)


def test_a_wait_that_is_too_long_is_shed_and_says_when(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    limiter.settle(begin_call(limiter, clock), sent=True)
    answer = limiter.reserve(["boeing"], owner="t", max_wait_s=10, lease_s=60, grace_s=10)
    assert answer == Rejected(retry_in_s=pytest.approx(20.000001))
    clock.sleep(answer.retry_in_s)
    assert ask(limiter, max_wait_s=10).wait_s == pytest.approx(10)


def test_a_better_class_goes_first_and_first_come_decides_inside_one(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    permits = [ask(limiter, priority=priority, grace_s=1e4) for priority in (2, 1, 0, 1, 2)]
    served: list[int] = []
    while len(served) < len(permits):
        waits = []
        for index, permit in enumerate(permits):
            answer: BeginResult = limiter.begin(permit) if index not in served else Expired()
            if isinstance(answer, Granted):
                served.append(index)
                limiter.settle(permit, sent=True)
            elif isinstance(answer, NotYet):
                waits.append(answer.wait_s)
        clock.sleep(min(waits, default=0))
    assert served == [2, 1, 3, 0, 4]


def test_bulk_is_served_in_bounded_time_under_endless_urgent_load(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    asked_at = clock.now()
    bulk = ask(limiter, priority=2, grace_s=1e6)
    urgent = [ask(limiter, grace_s=1e6) for _ in range(5)]
    while not isinstance(limiter.begin(bulk), Granted):
        answers = [limiter.begin(permit) for permit in urgent]
        for index, answer in enumerate(answers):
            if isinstance(answer, Granted):
                limiter.settle(urgent[index], sent=True)
                urgent[index] = ask(limiter, grace_s=1e6)
        clock.sleep(1)
    # Two classes up take twenty minutes; then five stand before it, a slot each.
    bound_s = 2 * AGEING_US / SECOND_US + 6 * 32
    assert timedelta(minutes=20) <= clock.now() - asked_at <= timedelta(seconds=bound_s)


def test_a_permit_blocked_by_another_key_lets_others_pass(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, app=(Bucket(capacity=5, rate_per_s=0.1),), shop=(BOEING,))
    limiter.pause("shop", 2, "closed")
    blocked = ask(limiter, "app", "shop")
    assert blocked.wait_s == 2
    assert isinstance(limiter.begin(ask(limiter, "app", cost=5)), Granted)
    clock.sleep(2)
    assert limiter.begin(blocked) == NotYet(wait_s=pytest.approx(8))
    clock.sleep(8)
    assert isinstance(limiter.begin(blocked), Granted)


def test_a_permit_with_several_keys_passes_all_or_none(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, app=(Bucket(capacity=5, rate_per_s=1),), shop=(BOEING,))
    begin_call(limiter, clock, "shop")
    both = ask(limiter, "shop", "app")
    assert isinstance(limiter.begin(both), NotYet)
    assert limiter.status("app").in_flight == 0
    assert both.keys == ("app", "shop")


def test_one_who_is_awake_may_use_a_slot_that_a_sleeper_was_not_promised(
    clock: VirtualClock,
) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    dead = [ask(limiter, grace_s=1) for _ in range(3)]
    sleeper = ask(limiter)
    assert sleeper.wait_s == pytest.approx(90, abs=0.001)
    for permit in dead:
        limiter.settle(permit, sent=False)
    awake = ask(limiter)
    assert awake.wait_s == 0
    assert isinstance(limiter.begin(awake), Granted)
    limiter.settle(awake, sent=True)
    clock.sleep(sleeper.wait_s - 29)
    assert isinstance(limiter.begin(ask(limiter, grace_s=1)), NotYet), "it would delay the sleeper"
    clock.sleep(29)
    assert isinstance(limiter.begin(sleeper), Granted)


def test_nothing_starts_in_a_pause_and_a_shorter_one_does_not_shorten_it(
    clock: VirtualClock,
) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    permit = ask(limiter, grace_s=1000)
    limiter.pause("boeing", 300, "rate limited")
    limiter.pause("boeing", 5, "rate limited a little")
    clock.sleep(299)
    assert limiter.begin(permit) == NotYet(wait_s=1)
    assert limiter.status("boeing").reason == "rate limited"
    clock.sleep(1)
    assert isinstance(limiter.begin(permit), Granted)


def test_a_pause_is_stretched_by_at_most_a_tenth(clock: VirtualClock) -> None:
    limiter = MemoryLimiter(clock, [Resource(key="shop", rules=())], jitter=rng(1))
    limiter.pause("shop", 100, "rate limited")
    until = limiter.status("shop").paused_until
    assert until is not None
    assert START + timedelta(seconds=100) < until <= START + timedelta(seconds=110)


@pytest.mark.parametrize("anchor", ("finish", "cap", "start"))
def test_a_step_ahead_of_the_clock_does_not_make_calls_look_older(
    clock: VirtualClock, anchor: str
) -> None:
    limiter = limiter_of(clock, boeing=(replace(BOEING, anchor=anchor),))
    limiter.settle(begin_call(limiter, clock), sent=True)
    clock.step(10)
    clock.sleep(2)
    assert ask(limiter).wait_s >= 28
    assert limiter.status("boeing").reason == "clock stepped"


def test_a_step_back_of_the_clock_is_absorbed(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    limiter.settle(begin_call(limiter, clock), sent=True)
    permit = ask(limiter)
    clock.step(-3600)
    clock.sleep(10)
    assert limiter.begin(permit) == NotYet(wait_s=permit.wait_s)


def test_a_step_ahead_does_not_end_a_lease(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    begin_call(limiter, clock, lease_s=20)
    clock.step(500)
    clock.sleep(1)
    limiter.pause("boeing", 0, "")
    assert limiter.status("boeing").in_flight == 1
    clock.sleep(19)
    assert ask(limiter).wait_s >= 30
    clock.sleep(1)
    assert limiter.status("boeing").in_flight == 0


def test_a_bucket_drains_with_time_and_keeps_its_headroom(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, shop=(Bucket(capacity=10, rate_per_s=2, headroom=2),))
    begin_call(limiter, clock, "shop", cost=8)
    assert ask(limiter, "shop", cost=3).wait_s == pytest.approx(1.5)
    with pytest.raises(InvalidError, match="at most 8"):
        ask(limiter, "shop", cost=9)


def test_a_bucket_is_corrected_by_what_a_call_really_cost(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, shop=(Bucket(capacity=100, rate_per_s=1),))
    permit = begin_call(limiter, clock, "shop", cost=50)
    clock.sleep(10)
    limiter.settle(permit, sent=True, actual=20)
    # 40 are left after ten seconds; of the 30 not used, ten may have drained already.
    assert limiter.status("shop").gauges[0].used == pytest.approx(20)


def test_replies_raise_a_bucket_at_once_and_lower_it_only_when_quiet(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, shop=(Bucket(capacity=40, rate_per_s=0.04),))

    def level() -> float:
        return limiter.status("shop").gauges[0].used

    other = begin_call(limiter, clock, "shop", cost=4)
    limiter.observe("shop", Observation(used=30, capacity=80))
    assert level() == pytest.approx(34)
    assert limiter.status("shop").gauges[0].limit == 80
    for _ in range(5):
        limiter.observe("shop", Observation(used=10))
    assert level() == pytest.approx(34), "somebody is in flight"
    limiter.observe("shop", Observation(used=10), permit=other)
    limiter.settle(other, sent=True)
    limiter.observe("shop", Observation(used=10))
    assert level() == pytest.approx(34)
    limiter.observe("shop", Observation(used=10))
    assert level() == pytest.approx(10)


def test_a_rolling_quota_forgets_only_what_is_wholly_past(clock: VirtualClock) -> None:
    quota = Quota(limit=10, span_s=7200, bucket_s=3600)
    limiter = limiter_of(clock, etsy=(quota,))
    limiter.settle(begin_call(limiter, clock, "etsy", cost=10), sent=True)
    # Used in the hour that ends at 01:00, so free again at 03:00.
    assert ask(limiter, "etsy").start_at == START + timedelta(hours=3)


def test_a_calendar_quota_is_free_again_with_the_new_day(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, etsy=(Quota(limit=10, span_s=86400, is_rolling=False),))
    limiter.settle(begin_call(limiter, clock, "etsy", cost=10), sent=True)
    assert ask(limiter, "etsy").start_at == START + timedelta(days=1)


def test_a_caller_that_leaves_units_of_a_quota_to_others_stops_before_them(
    clock: VirtualClock,
) -> None:
    limiter = limiter_of(clock, etsy=(Quota(limit=100, span_s=86400),))
    modest = begin_call(limiter, clock, "etsy", cost=70, leave=20)
    assert limiter.extend(modest, 10)
    assert not limiter.extend(modest, 1)
    assert ask(limiter, "etsy", cost=1, leave=20).wait_s == 60
    assert ask(limiter, "etsy", cost=20).wait_s == 0


def test_nothing_is_spent_beyond_a_reservation_or_after_it_lapsed(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, etsy=(Quota(limit=100, span_s=86400),))
    permit = begin_call(limiter, clock, "etsy", cost=2, lease_s=60)
    assert limiter.spend(permit, 2)
    assert not limiter.spend(permit, 1)
    assert quota_of(limiter, "etsy") == (2, 0)
    assert limiter.extend(permit, 3)
    clock.sleep(61)
    assert not limiter.spend(permit, 1)
    assert quota_of(limiter, "etsy") == (3, 0)


def test_a_reservation_that_is_spent_from_lives_on_and_a_silent_one_does_not(
    clock: VirtualClock,
) -> None:
    limiter = limiter_of(clock, etsy=(Quota(limit=100, span_s=86400),))
    permit = begin_call(limiter, clock, "etsy", cost=50, lease_s=60)
    for _ in range(20):
        clock.sleep(50)
        assert limiter.spend(permit, 1, lease_s=60)
    assert quota_of(limiter, "etsy") == (20, 30)
    clock.sleep(61)
    assert not limiter.spend(permit, 1, lease_s=60)


def test_a_unit_spent_on_a_request_that_never_left_is_given_back(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, etsy=(Quota(limit=100, span_s=86400),))
    permit = begin_call(limiter, clock, "etsy", cost=50)
    limiter.spend(permit, 8)
    limiter.settle(permit, sent=True, actual=7)
    assert quota_of(limiter, "etsy") == (7, 0)


def test_a_reservation_is_spent_extended_and_settled_exactly(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, etsy=(Quota(limit=100, span_s=86400),))
    permit = begin_call(limiter, clock, "etsy", cost=50)
    for _ in range(30):
        limiter.spend(permit, 1)
    assert quota_of(limiter, "etsy") == (30, 20)
    assert limiter.extend(permit, 50)
    assert not limiter.extend(permit, 1)
    assert quota_of(limiter, "etsy") == (30, 70)
    limiter.settle(permit, sent=True)
    limiter.spend(permit, 1)
    limiter.settle(permit, sent=True, actual=90)
    assert quota_of(limiter, "etsy") == (30, 0)
    assert not limiter.extend(permit, 1)


def test_a_crashed_reservation_ends_with_what_it_spent_and_one_more(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, etsy=(Quota(limit=100, span_s=86400),))
    permit = begin_call(limiter, clock, "etsy", cost=50, lease_s=60)
    limiter.spend(permit, 7)
    clock.sleep(61)
    assert quota_of(limiter, "etsy") == (8, 0)
    limiter.settle(permit, sent=True, actual=12)
    assert quota_of(limiter, "etsy") == (12, 0)


def test_replies_correct_a_quota_by_use_that_was_not_ours(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, etsy=(Quota(limit=100, span_s=86400),))
    limiter.settle(begin_call(limiter, clock, "etsy", cost=10), sent=True)
    limiter.observe("etsy", Observation(used=60, capacity=200))
    assert quota_of(limiter, "etsy") == (60, 0)
    assert limiter.status("etsy").gauges[0].limit == 200
    for _ in range(3):
        limiter.observe("etsy", Observation(used=15))
    assert quota_of(limiter, "etsy") == (15, 0)


def test_what_can_never_be_granted_is_refused_by_name(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    with pytest.raises(InvalidError, match="3 on boeing can never be given: at most 2"):
        ask(limiter, cost=3)
    with pytest.raises(InvalidError, match="must be positive"):
        ask(limiter, cost=0)
    with pytest.raises(InvariantError, match="no limit is set for nobody"):
        ask(limiter, "nobody")
    with pytest.raises(InvariantError, match="empty list"):
        limiter.reserve([], owner="t", max_wait_s=1, lease_s=1, grace_s=1)


def test_a_status_shows_the_queue_by_class_and_when_there_is_room(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    begun = begin_call(limiter, clock)
    ask(limiter, priority=1)
    ask(limiter, priority=0)
    ask(limiter, priority=1)
    status = limiter.status("boeing")
    assert status.queue == {0: 1, 1: 2}
    assert (status.in_flight, status.gauges[0].reserved, status.gauges[0].used) == (1, 1, 0)
    assert status.next_free_at > clock.now() + timedelta(seconds=119)
    assert [line.permit_id for line in status.recent] == [begun.id]


def test_a_trusted_call_must_leave_soon_and_one_counted_at_its_finish_within_its_lease(
    clock: VirtualClock,
) -> None:
    window = Window(limit=2, span_s=60, jitter_s=0.4, anchor="cap")
    bucket = Bucket(capacity=40, rate_per_s=2)
    limiter = limiter_of(clock, shop=(window,), points=(bucket,), boeing=(BOEING,))
    granted = limiter.begin(ask(limiter, lease_s=90))
    assert granted == Granted(send_within_s=45, finish_within_s=90)
    granted = limiter.begin(ask(limiter, "shop", lease_s=10))
    assert granted == Granted(send_within_s=0.2, finish_within_s=10)
    clock.sleep(60)
    granted = limiter.begin(ask(limiter, "points", lease_s=10))
    assert granted == Granted(send_within_s=1, finish_within_s=10)


def test_a_state_survives_its_json_form(clock: VirtualClock) -> None:
    rules = (BOEING, Bucket(capacity=40, rate_per_s=2), Quota(limit=100, span_s=86400))
    limiter = limiter_of(clock, shop=rules)
    begin_call(limiter, clock, "shop")
    ask(limiter, "shop")
    limiter.settle(begin_call(limiter, clock, "shop"), sent=True)
    state = limiter.states["shop"]
    assert load(dump(state)) == state
    assert instant(at_us(clock.now())) == clock.now()
