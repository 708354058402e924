"""Random worlds in virtual time: whatever happens to the callers, the supplier never refuses."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.laws import replay_windows
from headway.core.limits.memory import MemoryLimiter
from headway.core.limits.transitions import Bucket, Granted, NotYet, Permit, Quota, Resource, Window
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
ROUNDING_S = 5e-6
JITTER_S = 2.5
LEASE_S = 40.0
GRACE_S = 12.0
FATES = (
    "ok",
    "ok",
    "ok",
    "dies waiting",
    "dies begun",
    "dies calling",
    "times out",
    "settles late",
)

WINDOWS = {
    "boeing": Window(limit=2, span_s=60, gap_s=30, jitter_s=JITTER_S),
    "no gap": Window(limit=3, span_s=60, jitter_s=JITTER_S),
    "cap": Window(limit=2, span_s=60, gap_s=30, jitter_s=JITTER_S, anchor="cap"),
    "start": Window(limit=2, span_s=60, gap_s=30, jitter_s=JITTER_S, anchor="start"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    at_s: float
    priority: int
    fate: str
    delay_s: float
    travel: float
    reply_s: float


@dataclass(slots=True, kw_only=True)
class World:
    """Callers on one limiter; the supplier writes down when calls arrive, by true time."""

    window: Window
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(START))
    # What a predecessor sent just before we came to know this key.
    arrivals: list[float] = field(default_factory=lambda: [-30.1, 0.0])
    pauses: list[tuple[float, float]] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    waiting: dict[str, tuple[int, float]] = field(default_factory=dict)
    # Per call: begin, and until when it may have arrived (None while in flight).
    calls: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    is_stepping: bool = False
    limiter: MemoryLimiter = field(init=False)

    def __post_init__(self) -> None:
        resource = Resource(key="boeing", rules=(self.window,))
        self.limiter = MemoryLimiter(self.clock, [resource])

    def act(self, job: Job) -> None:
        """Live the life of one caller."""
        self.clock.sleep(job.at_s)
        permit = self.limiter.reserve(
            ["boeing"],
            owner="test",
            priority=job.priority,
            max_wait_s=1e6,
            lease_s=LEASE_S,
            grace_s=GRACE_S,
        )
        assert isinstance(permit, Permit)
        self._promise(permit, job, permit.wait_s)
        if job.fate == "dies waiting":
            return
        self.clock.sleep(permit.wait_s)
        while isinstance(answer := self.limiter.begin(permit), NotYet):
            self._judge_hold(permit)
            self._promise(permit, job, answer.wait_s)
            self.clock.sleep(answer.wait_s)
        if isinstance(answer, Granted):
            self._judge_order(permit)
            self._call(permit, job, answer)
        self.waiting.pop(permit.id, None)

    def _call(self, permit: Permit, job: Job, answer: Granted) -> None:
        begun_s = self.clock.monotonic()
        self.begun.append(begun_s)
        self.calls[permit.id] = (begun_s, None)
        if job.fate == "dies begun":
            return
        self.clock.sleep(job.delay_s)
        if job.delay_s > answer.send_within_s:
            self._settle(permit, sent=False)
            return
        lease_s = begun_s + LEASE_S - job.delay_s
        late_s = {"dies calling": lease_s, "settles late": lease_s}.get(job.fate)
        finish_s = begun_s + job.delay_s + job.reply_s
        margin_s = JITTER_S if job.fate == "times out" else 0
        latest_s = late_s or finish_s + margin_s
        if self.window.anchor != "finish":
            latest_s = min(latest_s, begun_s + JITTER_S)
        sent_s = begun_s + job.delay_s
        self.arrivals.append(sent_s + job.travel * max(0, latest_s - sent_s))
        if job.fate == "dies calling":
            return
        self.clock.sleep(LEASE_S + 5 if job.fate == "settles late" else job.reply_s)
        self._settle(permit, sent=True, is_late=job.fate == "times out")
        self._settle(permit, sent=True)

    def _settle(self, permit: Permit, *, sent: bool, is_late: bool = False) -> None:
        self.limiter.settle(permit, sent=sent, is_late=is_late)
        begun_s, known_s = self.calls.pop(permit.id)
        if sent:
            arrived_s = self.clock.monotonic() + (JITTER_S if is_late else 0)
            self.calls[permit.id] = (begun_s, known_s or arrived_s)

    def _promise(self, permit: Permit, job: Job, wait_s: float) -> None:
        self.waiting[permit.id] = (job.priority, self.clock.monotonic() + wait_s)

    def _ahead(self, permit: Permit) -> list[float]:
        """Return the promised times of who came earlier with the same class, and still waits."""
        priority = self.waiting[permit.id][0]
        return [
            promised_s
            for other, (other_priority, promised_s) in self.waiting.items()
            if other_priority == priority and other < permit.id
            if promised_s + GRACE_S >= self.clock.monotonic()
        ]

    def _judge_order(self, permit: Permit) -> None:
        # Without a gap several may go at one instant, in whatever order they come.
        if self.window.gap_s and not self.is_stepping:
            now_s = self.clock.monotonic()
            asleep = [promised_s > now_s for promised_s in self._ahead(permit)]
            assert all(asleep), "an earlier permit of its class was ready and was passed over"
        del self.waiting[permit.id]

    def _judge_hold(self, permit: Permit) -> None:
        """No caller waits for a free slot, unless another is to take it within a slot."""
        now_s = self.clock.monotonic()
        slot_s = self.window.gap_s + LEASE_S
        is_paused = any(from_s <= now_s < until_s for from_s, until_s in self.pauses)
        if self.is_stepping or is_paused or not self._is_free(now_s):
            return
        others = [at_s for other, (_, at_s) in self.waiting.items() if other != permit.id]
        assert any(promised_s <= now_s + slot_s for promised_s in others), "a free slot was refused"

    def _is_free(self, now_s: float) -> bool:
        inside = 0
        for begun_s, arrived_s in self.calls.values():
            until_s = begun_s + LEASE_S if arrived_s is None else arrived_s
            if self.window.anchor == "start":
                until_s = begun_s + JITTER_S
            if self.window.anchor == "cap":
                until_s = min(until_s, begun_s + JITTER_S)
            inside += until_s + self.window.span_s >= now_s
            if until_s + self.window.gap_s >= now_s:
                return False
        return inside < self.window.limit and now_s > 62.6

    def pause(self, at_s: float, length_s: float) -> None:
        self.clock.sleep(at_s)
        self.limiter.pause("boeing", length_s, "rate limited")
        self.pauses.append((at_s, at_s + length_s))

    def step(self, at_s: float, by_s: float) -> None:
        self.clock.sleep(at_s)
        self.clock.step(by_s)


def run(world: World, *actors: Callable[[], None]) -> None:
    for actor in actors:
        world.clock.spawn(actor)
    world.clock.run(1e5)


def refusals_of_a_log(arrivals: list[float], limit: int) -> list[float]:
    late = zip(arrivals, arrivals[limit:], strict=False)
    return [after for before, after in late if after - before <= 60 - ROUNDING_S]


def refusals_of_fixed_windows(arrivals: list[float], limit: int) -> list[float]:
    refused = []
    for offset_s in (0.0, 7.5, 31.0):
        counts: dict[float, int] = {}
        for at_s in arrivals:
            number = (at_s + 120 + offset_s) // 60
            counts[number] = counts.get(number, 0) + 1
            if counts[number] > limit:
                refused.append(at_s)
    return refused


def refusals_of_a_bucket(arrivals: list[float], capacity: int, refill_s: float = 30) -> list[float]:
    """Two at first, one more every 30 seconds; with a capacity of one, a pure leaky bucket."""
    left, before, refused = float(capacity), arrivals[0], []
    for at_s in arrivals:
        left, before = min(capacity, left + (at_s - before) / refill_s), at_s
        if left < 1 - ROUNDING_S:
            refused.append(at_s)
        else:
            left -= 1
    return refused


tenths = st.integers(0, 6000).map(lambda number: number / 10)
jobs = st.builds(
    Job,
    at_s=tenths,
    priority=st.integers(0, 2),
    fate=st.sampled_from(FATES),
    delay_s=st.sampled_from((0.0, 0.0, 0.3, 1.0, 1.5)),
    travel=st.sampled_from((0.0, 0.2, 0.9, 1.0)),
    reply_s=st.sampled_from((0.0, 0.4, 2.0, 9.0, 29.0)),
)
pauses = st.lists(st.tuples(tenths, st.integers(1, 200)), max_size=2)
steps = st.lists(st.tuples(tenths, st.integers(-20, 20).map(lambda tens: tens * 10)), max_size=3)


@pytest.mark.parametrize("name", WINDOWS)
@settings(max_examples=60, deadline=None)
@given(jobs=st.lists(jobs, min_size=1, max_size=14), pauses=pauses, steps=steps)
def test_no_supplier_refuses_whatever_becomes_of_the_callers(
    name: str,
    jobs: list[Job],
    pauses: list[tuple[float, int]],
    steps: list[tuple[float, int]],
) -> None:
    window = WINDOWS[name]
    world = World(window=window, is_stepping=any(by_s for _, by_s in steps))
    run(
        world,
        *(lambda job=job: world.act(job) for job in jobs),
        *(lambda pause=pause: world.pause(*pause) for pause in pauses),
        *(lambda step=step: world.step(*step) for step in steps),
    )
    arrivals = sorted(world.arrivals)
    limit = int(window.limit)
    assert not refusals_of_a_log(arrivals, limit)
    assert not refusals_of_fixed_windows(arrivals, limit)
    if window.gap_s:
        assert not refusals_of_a_bucket(arrivals, 2)
        assert not refusals_of_a_bucket(arrivals, 1)
    for from_s, until_s in world.pauses:
        assert not [at_s for at_s in world.begun if from_s < at_s < until_s - ROUNDING_S]
    if not world.is_stepping:
        outlived = any(job.fate == "settles late" for job in jobs)
        assert outlived or not replay_windows(world.limiter.ledger.values(), window)
    assert len(world.limiter.states["boeing"].calls) <= len(jobs)


@settings(max_examples=25, deadline=None)
@given(
    replies=st.lists(st.sampled_from((0.5, 2.0, 5.0)), min_size=4, max_size=4),
    deaths=st.sets(st.integers(0, 59), max_size=6),
)
def test_a_busy_line_loses_at_most_one_slot_per_death(
    replies: list[float], deaths: set[int]
) -> None:
    world = World(window=WINDOWS["boeing"])

    def caller(index: int) -> None:
        for number in range(15):
            fate = "dies waiting" if index * 15 + number in deaths else "ok"
            world.act(
                Job(
                    at_s=0,
                    priority=0,
                    fate=fate,
                    delay_s=0,
                    travel=0.5,
                    reply_s=replies[index],
                )
            )

    run(world, *(lambda index=index: caller(index) for index in range(4)))
    slot_s = 30.001 + max(replies)
    # Each call starts one gap after the finish of the one before; the owners of later tickets
    # sleep until their promised times, so each death costs its slot at most.
    assert len(world.begun) == 60 - len(deaths)
    assert world.begun[-1] - world.begun[0] <= slot_s * (len(world.begun) - 1 + len(deaths))


@settings(max_examples=60, deadline=None)
@given(
    calls=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 10), st.integers(0, 10), st.integers(0, 50)),
        max_size=25,
    )
)
def test_a_bucket_never_overflows_at_the_supplier(calls: list[tuple[int, int, int, int]]) -> None:
    clock = VirtualClock(START)
    limiter = MemoryLimiter(
        clock, [Resource(key="shop", rules=(Bucket(capacity=10, rate_per_s=0.5),))]
    )
    charged: list[tuple[float, float]] = []

    def caller(at_s: float, cost: float, actual: float, reply_s: float) -> None:
        clock.sleep(at_s)
        permit = limiter.reserve(
            ["shop"], owner="t", cost=cost, max_wait_s=1e6, lease_s=100, grace_s=10
        )
        assert isinstance(permit, Permit)
        clock.sleep(permit.wait_s)
        while isinstance(answer := limiter.begin(permit), NotYet):
            clock.sleep(answer.wait_s)
        assert isinstance(answer, Granted)
        charged.append((clock.monotonic(), min(cost, actual)))
        clock.sleep(reply_s)
        limiter.settle(permit, sent=True, actual=min(cost, actual))

    for call in calls:
        clock.spawn(lambda call=call: caller(*call))
    clock.run(1e5)
    level = before = 0.0
    for at_s, cost in charged:
        level = max(0, level - 0.5 * (at_s - before)) + cost
        before = at_s
        assert level <= 10 + 1e-4
    assert len(charged) == len(calls)


verbs = st.tuples(
    st.sampled_from(("begin", "modest", "spend", "spend", "extend", "settle", "sleep", "crash")),
    st.integers(0, 2),
    st.integers(1, 40),
)


@settings(max_examples=150, deadline=None)
@given(trace=st.lists(verbs, min_size=20, max_size=80), is_rolling=st.booleans())
def test_a_quota_is_never_overdrawn_and_nothing_reserved_is_negative(
    trace: list[tuple[str, int, int]], *, is_rolling: bool
) -> None:
    """Whatever is overspent, settled twice, extended, left to lapse, or used after that."""
    clock = VirtualClock(START)
    quota = Quota(limit=100, span_s=3600, bucket_s=300, is_rolling=is_rolling)
    limiter = MemoryLimiter(clock, [Resource(key="etsy", rules=(quota,))])
    held: dict[int, Permit] = {}
    used: list[tuple[float, float]] = []
    for verb, index, amount in trace:
        if verb in {"begin", "modest"}:
            taken = take_quota(limiter, amount, leave=20 if verb == "modest" else 0)
            held |= {index: taken} if taken else {}
        elif verb in {"sleep", "crash"}:
            clock.sleep(1000 if verb == "crash" else amount * 10)
        elif (permit := held.get(index)) is None:
            continue
        elif verb == "spend":
            if limiter.spend(permit, amount, lease_s=900):
                used.append((clock.monotonic(), amount))
        elif verb == "extend":
            limiter.extend(permit, amount)
        else:
            limiter.settle(permit, sent=True)
            limiter.settle(permit, sent=True, actual=1000)
        gauge = limiter.status("etsy").gauges[0]
        assert gauge.reserved >= 0
        assert gauge.used + gauge.reserved <= 100
        if is_rolling:
            assert sum(n for at_s, n in used if at_s >= clock.monotonic() - 3600) <= gauge.used


def take_quota(limiter: MemoryLimiter, amount: int, *, leave: int) -> Permit | None:
    before = limiter.status("etsy").gauges[0]
    taken = limiter.reserve(
        ["etsy"],
        owner="t",
        cost=amount,
        leave=leave,
        max_wait_s=0,
        lease_s=900,
        grace_s=0,
        begins=True,
    )
    fits = before.used + before.reserved + amount <= 100 - leave
    assert isinstance(taken, Permit) == fits
    return taken if isinstance(taken, Permit) else None
