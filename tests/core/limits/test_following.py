"""A call settled, and the next one reserved, in one exchange."""

from tests.core.limits.test_transitions import BOEING, START, ask, begin_call, limiter_of

from headway.clock import rng
from headway.core.limits.transitions import Rejected
from headway_lab.virtual_clock import VirtualClock


def test_a_reservation_after_a_call_leaves_what_settling_and_reserving_leave() -> None:
    clocks = [VirtualClock(START), VirtualClock(START)]
    one, two = (limiter_of(clock, boeing=(BOEING,)) for clock in clocks)
    ids = [rng("ids"), rng("ids")]
    for limiter, generator in zip((one, two), ids, strict=True):
        limiter.ids = lambda generator=generator: str(generator.random())
    calls = [begin_call(limiter, clock) for limiter, clock in zip((one, two), clocks, strict=True)]
    for clock in clocks:
        clock.sleep(1.5)
    followed = ask(one, after=calls[0])
    two.settle(calls[1], sent=True)
    assert followed == ask(two)
    assert followed.wait_s > 0
    assert one.status("boeing") == two.status("boeing")
    assert one.ledger == two.ledger


def test_a_call_is_settled_though_no_permit_can_follow_it_soon_enough(clock: VirtualClock) -> None:
    limiter = limiter_of(clock, boeing=(BOEING,))
    call = begin_call(limiter, clock)
    wishes = {"owner": "test", "max_wait_s": 1, "lease_s": 60, "grace_s": 10}
    assert isinstance(limiter.reserve(["boeing"], after=call, **wishes), Rejected)
    assert [line.status for line in limiter.ledger.values()] == ["sent"]
