"""Buckets that a shop's replies correct: what is learned is used, and nobody is refused."""

import math
from collections.abc import Callable

import pytest

from headway.clock import rng
from headway.core.catalog.storefront import Cost
from headway.core.limits.memory import MemoryLimiter
from headway.core.limits.transitions import (
    Bucket,
    Granted,
    NotYet,
    Observation,
    Permit,
    Rejected,
    Resource,
)
from headway.errors import InvalidError
from headway.providers.shopify.limits import shop_limit_key, shop_resource
from headway_lab.virtual_clock import VirtualClock

SCOPE = shop_limit_key("", "one.myshopify.com")
REST = "calls:one"
# A leaky bucket of calls whose replies report its level, as in "32/40".
CALLS = Resource(key=REST, rules=(Bucket(capacity=40, rate_per_s=2, headroom=4),))


def read_call_limit(header: str) -> Observation:
    used, capacity = map(int, header.split("/"))
    return Observation(used=used, capacity=capacity, restore_per_s=capacity / 20)


def reserve(limiter: MemoryLimiter, key: str, cost: float = 1) -> Permit:
    permit = limiter.reserve([key], cost=cost, owner="t", max_wait_s=3600, lease_s=60, grace_s=600)
    assert isinstance(permit, Permit)
    return permit


def begin_call(limiter: MemoryLimiter, clock: VirtualClock, key: str, cost: float = 1) -> Permit:
    permit = reserve(limiter, key, cost)
    clock.sleep(permit.wait_s)
    while isinstance(begun := limiter.begin(permit), NotYet):
        clock.sleep(begun.wait_s)
    assert isinstance(begun, Granted)
    return permit


def observed(available: float, *, capacity: float = 2000, restore: float = 100) -> Observation:
    cost = Cost(
        requested=10, actual=10, available=available, capacity=capacity, restore_per_s=restore
    )
    observation = cost.observation
    assert observation is not None
    return observation


@pytest.fixture
def limiter(clock: VirtualClock) -> MemoryLimiter:
    """Return a limiter whose buckets have had the time to run empty."""
    made = MemoryLimiter(clock, [shop_resource(SCOPE), CALLS])
    for key in (SCOPE, REST):
        made.pause(key, 0, "")
    clock.sleep(60)
    return made


def test_a_scope_is_the_app_in_a_shop() -> None:
    assert SCOPE == "shopify:app:one.myshopify.com"
    assert shop_limit_key("app-1", "a.b") == "shopify:app-1:a.b"


def test_a_cost_says_how_full_the_bucket_is_if_it_says_so_at_all() -> None:
    assert observed(1500) == Observation(used=500, capacity=2000, restore_per_s=100)
    assert observed(2500).used == 0
    assert Cost(requested=5).observation is None
    assert Cost(requested=5, available=5).observation is None


def test_a_new_bucket_is_believed_to_be_full_and_a_part_of_it_is_left_to_others(
    clock: VirtualClock,
) -> None:
    limiter = MemoryLimiter(clock, [shop_resource(SCOPE), CALLS])
    assert reserve(limiter, SCOPE, 100).wait_s == pytest.approx((200 + 100) / 100)
    assert reserve(limiter, REST).wait_s == pytest.approx((4 + 1) / 2)


def test_a_larger_capacity_and_a_faster_rate_are_used_once_they_are_known(
    limiter: MemoryLimiter, clock: VirtualClock
) -> None:
    with pytest.raises(InvalidError, match="can never be given"):
        reserve(limiter, SCOPE, 5000)
    first = begin_call(limiter, clock, SCOPE, 10)
    limiter.settle(first, sent=True, observation=observed(15_200, capacity=20_000, restore=1000))
    assert reserve(limiter, SCOPE, 15_000).wait_s == pytest.approx(0)
    assert reserve(limiter, SCOPE, 5000).wait_s == pytest.approx(5)


def test_a_smaller_capacity_and_a_slower_rate_are_used_once_they_are_known(
    limiter: MemoryLimiter, clock: VirtualClock
) -> None:
    early = reserve(limiter, SCOPE, 700)
    limiter.settle(
        begin_call(limiter, clock, SCOPE, 10),
        sent=True,
        observation=observed(0, capacity=1000, restore=50),
    )
    # What was promised before is planned again when it begins.
    begun = limiter.begin(early)
    assert isinstance(begun, NotYet)
    assert begun.wait_s == pytest.approx((700 + 200) / 50)
    # What no longer fits beside the headroom waits for an empty bucket: the shop may be wrong.
    assert reserve(limiter, SCOPE, 801).wait_s > begun.wait_s
    with pytest.raises(InvalidError, match="at most 1800"):
        reserve(limiter, SCOPE, 1801)


def test_a_reply_counts_beside_what_is_in_flight_and_never_instead_of_it(
    limiter: MemoryLimiter, clock: VirtualClock
) -> None:
    begin_call(limiter, clock, SCOPE, 700)
    mine = begin_call(limiter, clock, SCOPE, 100)
    # 700 are gone at the shop, and 700 may not have arrived yet: 400 of our 1,800 are left.
    limiter.settle(mine, sent=True, observation=observed(1300))
    assert reserve(limiter, SCOPE, 400).wait_s == pytest.approx(0)
    assert reserve(limiter, SCOPE, 100).wait_s == pytest.approx(1)


def test_a_reply_that_is_too_hopeful_lowers_nothing_at_once(
    limiter: MemoryLimiter, clock: VirtualClock
) -> None:
    limiter.settle(begin_call(limiter, clock, SCOPE, 1800), sent=True, observation=observed(2000))
    assert reserve(limiter, SCOPE, 100).wait_s == pytest.approx(1)


def test_what_a_call_did_not_use_is_returned_before_the_reply_is_believed(
    limiter: MemoryLimiter, clock: VirtualClock
) -> None:
    limiter.settle(
        begin_call(limiter, clock, SCOPE, 1000), sent=True, actual=10, observation=observed(500)
    )
    # 500 are left, says the shop, and the 990 that came back are among them already.
    assert reserve(limiter, SCOPE, 300).wait_s == pytest.approx(0)
    assert reserve(limiter, SCOPE, 100).wait_s == pytest.approx(1)


class LeakyBucket:
    """The shop's own arithmetic: 40 calls, two of them forgotten each second."""

    def __init__(self, clock: VirtualClock, level: float) -> None:
        self._clock = clock
        self.level = level
        self._at_s = clock.monotonic()
        self.taken = self.refused = 0
        self.highest = level

    def call(self) -> str:
        now_s = self._clock.monotonic()
        self.level = max(0.0, self.level - 2 * (now_s - self._at_s))
        self._at_s = now_s
        if self.level + 1 > 40:
            self.refused += 1
        else:
            self.taken += 1
            self.level += 1
        self.highest = max(self.highest, self.level)
        return f"{math.ceil(self.level)}/40"


def run_shop(
    clock: VirtualClock, *, seed: int, reads: Callable[[str], Observation | None]
) -> tuple[LeakyBucket, int]:
    """Let six workers of ours and two strangers use one bucket for ten minutes."""
    generator = rng(f"rest {seed}")
    limiter = MemoryLimiter(clock, [CALLS])
    shop = LeakyBucket(clock, level=generator.choice([0, 20, 38]))
    ours = 0

    def stranger() -> None:
        # Each waits for its own answer, and makes a call in two seconds.
        clock.sleep(generator.uniform(0, 2))
        while True:
            shop.call()
            clock.sleep(generator.uniform(2, 3))

    def worker() -> None:
        nonlocal ours
        while True:
            if generator.random() < 0.02:
                clock.sleep(generator.uniform(10, 90))
            permit = limiter.reserve([REST], owner="t", max_wait_s=3600, lease_s=60, grace_s=600)
            assert not isinstance(permit, Rejected)
            clock.sleep(permit.wait_s)
            while isinstance(begun := limiter.begin(permit), NotYet):
                clock.sleep(begun.wait_s)
            clock.sleep(generator.uniform(0.02, 0.2))
            header = shop.call()
            ours += 1
            clock.sleep(generator.uniform(0.02, 0.2))
            limiter.settle(permit, sent=True, observation=reads(header))

    for actor in (stranger, stranger, *[worker] * 6):
        clock.spawn(actor)
    clock.run(600)
    return shop, ours


@pytest.mark.parametrize("seed", range(10))
def test_beside_strangers_who_use_half_of_the_bucket_nobody_is_ever_refused(
    clock: VirtualClock, seed: int
) -> None:
    shop, ours = run_shop(clock, seed=seed, reads=read_call_limit)
    assert shop.refused == 0
    assert shop.highest <= 40
    assert ours > 450, "and the other half is used"


def test_without_what_the_headers_say_the_same_bucket_overflows(clock: VirtualClock) -> None:
    shop, _ = run_shop(clock, seed=1, reads=lambda _: None)
    assert shop.refused > 20
