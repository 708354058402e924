"""The same trace through memory and PostgreSQL gives the same answers."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg_pool import ConnectionPool

from headway.clock import fresh_id, rng
from headway.core.limits.base_limiter import LimiterVerbs
from headway.core.limits.memory import MemoryLimiter
from headway.core.limits.transitions import Bucket, Observation, Permit, Quota, Resource, Window
from headway.errors import InvalidError
from headway.store.limits.limiter import PostgresLimiter
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
runs = itertools.count()
places = st.sampled_from(("app", "shop"))
indexes = st.integers(0, 6)
moves = st.one_of(
    st.tuples(
        st.just("reserve"),
        st.sampled_from(("app", "shop", "both")),
        st.sampled_from((0.5, 1, 2, 50)),
        st.integers(0, 2),
    ),
    st.tuples(st.sampled_from(("begin", "begin", "unsent", "late", "extend", "follow")), indexes),
    st.tuples(
        st.sampled_from(("settle", "spend")), st.integers(0, 6), st.sampled_from((0.3, 1, 3))
    ),
    st.tuples(st.just("observe"), places, st.integers(0, 40)),
    st.tuples(st.just("pause"), places, st.integers(0, 50)),
    st.tuples(
        st.sampled_from(("sleep", "sleep", "sleep", "step")), st.sampled_from((0.1, 7, 31, 95))
    ),
)


def resources(run: int) -> list[Resource]:
    app = (Bucket(capacity=40, rate_per_s=0.7, headroom=2), Window(limit=4, span_s=30, jitter_s=1))
    shop = (
        Window(limit=2, span_s=60, gap_s=30, jitter_s=2.5),
        Quota(limit=30, span_s=600, bucket_s=60),
    )
    return [Resource(key=f"{run} app", rules=app), Resource(key=f"{run} shop", rules=shop)]


def play(limiter: LimiterVerbs, clock: VirtualClock, trace: list[tuple], run: int) -> list[object]:
    """Make the moves; return every answer, and what a person was shown after each."""
    answers: list[object] = []
    permits: list[Permit] = []
    for verb, *values in trace:
        answer: object = None
        if verb == "sleep":
            clock.sleep(values[0])
        elif verb == "step":
            clock.step(values[0])
        elif verb == "reserve":
            answer = reserve(limiter, run, *values)
            permits += [answer] if isinstance(answer, Permit) else []
        elif verb == "observe":
            limiter.observe(f"{run} {values[0]}", Observation(used=values[1], capacity=45))
        elif verb == "pause":
            limiter.pause(f"{run} {values[0]}", values[1], "rate limited")
        elif values[0] < len(permits):
            answer = act(limiter, verb, permits[values[0]], *values[1:])
            permits += [answer] if isinstance(answer, Permit) else []
        answers.append((verb, answer))
        answers += [limiter.status(f"{run} {name}") for name in ("app", "shop")]
    return answers


def reserve(limiter: LimiterVerbs, run: int, where: str, cost: float, priority: int) -> object:
    names = ["shop", "app"] if where == "both" else [where]
    try:
        return limiter.reserve(
            [f"{run} {name}" for name in names],
            cost=cost,
            priority=priority,
            leave=6 * min(priority, 1),
            owner="test",
            max_wait_s=300,
            lease_s=40,
            grace_s=20,
        )
    except InvalidError as error:
        return str(error)


def act(limiter: LimiterVerbs, verb: str, permit: Permit, amount: float = 2) -> object:
    if verb == "begin":
        return limiter.begin(permit)
    if verb == "follow":
        return limiter.reserve(
            permit.keys, owner="test", max_wait_s=300, lease_s=40, grace_s=20, after=permit
        )
    if verb == "spend":
        return limiter.spend(permit, amount)
    if verb == "extend":
        return limiter.extend(permit, amount)
    is_sent = verb != "unsent"
    actual = amount if verb == "settle" else None
    return limiter.settle(permit, sent=is_sent, actual=actual, is_late=verb == "late")


# A lost call with a late word, one unsent, one extended and spent, a step, a correction.
EVENTFUL: list[tuple] = [
    ("reserve", "both", 2, 1),
    ("reserve", "app", 1, 0),
    ("begin", 0),
    ("begin", 1),
    ("extend", 0),
    ("spend", 0, 3),
    ("unsent", 1),
    ("reserve", "shop", 1, 0),
    ("begin", 2),
    ("sleep", 95),
    ("observe", "app", 30),
    ("pause", "shop", 5),
    ("settle", 0, 3),
    ("step", 31),
    ("sleep", 95),
    ("begin", 2),
    ("reserve", "both", 50, 0),
    ("reserve", "both", 1, 2),
    ("begin", 3),
    ("late", 3),
    ("sleep", 31),
    ("reserve", "shop", 1, 0),
    ("begin", 4),
    ("follow", 4),
    ("sleep", 95),
    ("begin", 5),
]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(trace=st.lists(moves, max_size=40))
@example(trace=EVENTFUL)
def test_memory_and_postgresql_answer_alike(pool: ConnectionPool, trace: list[tuple]) -> None:
    run = next(runs)
    clocks = VirtualClock(START), VirtualClock(START)
    generators = rng(f"run {run}"), rng(f"run {run}")
    memory = MemoryLimiter(clocks[0], resources(run), ids=lambda: fresh_id(generators[0]))
    stored = PostgresLimiter(
        pool, clocks[1], resources(run), ids=lambda: fresh_id(generators[1]), jitter=None
    )
    for limiter, clock in zip((memory, stored), clocks, strict=True):
        for resource in resources(run):
            limiter.pause(resource.key, 0, "")
        clock.sleep(100)
    expected = play(memory, clocks[0], trace, run)
    stored_results = play(stored, clocks[1], trace, run)
    for memory_result, stored_result in zip(expected, stored_results, strict=True):
        assert memory_result == stored_result
    assert memory.ledger == {
        (line.permit_id, line.key): replace(line)
        for resource in resources(run)
        for line in stored.calls_since(resource.key, START)
    }
