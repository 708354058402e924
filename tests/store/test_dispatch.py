"""Dispatch leases: one message per subject, whatever is lost, late or delivered twice."""

from datetime import UTC, datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.core.accounts.jobs import Account, DataKind, Job, JobType, Tier
from headway.core.catalog.listings import SellerId
from headway.core.dispatch import DispatchLease, PullClaim, Subject, Verb, subject_of
from headway.core.limits.transitions import Permit
from headway.store.dispatch import DispatchLeases
from headway_lab.platforms import ETSY
from headway_lab.virtual_clock import VirtualClock

LIFE = timedelta(seconds=15)
SHOP = Subject(verb=Verb.PUSH, provider="shopify", which="7")
OTHER = Subject(verb=Verb.PUSH, provider="shopify", which="8")
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
PERMIT = Permit(id="t", keys=("a", "b"), wait_s=0.5, start_at=AT, position=2)
JOB = Job(
    id="j",
    account=Account(id="a", user_id=SellerId("acme"), platform=ETSY, shop="77"),
    kind=DataKind.ORDERS,
    type=JobType.WEBHOOK,
    tier=Tier.PRO,
    fence=4,
    cursor={"run": {"page": 3, "ids": ["1", "2"]}, "mark": None},
    started_at=AT,
    due_at=AT,
    requested_ids=("o1", "o2"),
)
CLAIM = PullClaim(job=JOB, cursor={"x": 1}, day=PERMIT, permit=PERMIT, sent=3, waits_since=AT)


@pytest.fixture
def dispatch_leases(pool: ConnectionPool, clock: VirtualClock) -> DispatchLeases:
    return DispatchLeases(pool, clock)


def take_up(dispatch_leases: DispatchLeases, subject: Subject = SHOP) -> DispatchLease:
    (taken,) = dispatch_leases.take([subject], life=LIFE)
    dispatch_lease = dispatch_leases.take_up(taken, life=LIFE)
    assert dispatch_lease is not None
    return dispatch_lease


def test_a_subject_with_a_message_under_way_is_not_sent_another(
    dispatch_leases: DispatchLeases,
) -> None:
    assert [lease.subject for lease in dispatch_leases.take([SHOP, OTHER], life=LIFE)] == [
        SHOP,
        OTHER,
    ]
    assert dispatch_leases.take([SHOP, OTHER], life=LIFE) == []


def test_a_lost_message_is_sent_again_once_its_life_is_over(
    dispatch_leases: DispatchLeases, clock: VirtualClock
) -> None:
    dispatch_leases.take([SHOP], life=LIFE)
    clock.sleep(14)
    assert dispatch_leases.take([SHOP], life=LIFE) == []
    clock.sleep(1)
    assert len(dispatch_leases.take([SHOP], life=LIFE)) == 1


def test_of_two_deliveries_of_a_message_one_is_heard(dispatch_leases: DispatchLeases) -> None:
    (named,) = dispatch_leases.take([SHOP], life=LIFE)
    assert dispatch_leases.take_up(named, life=LIFE) is not None
    assert dispatch_leases.take_up(named, life=LIFE) is None


def test_a_message_that_waited_longer_than_its_life_is_heard_and_the_later_one_is_not(
    dispatch_leases: DispatchLeases, clock: VirtualClock
) -> None:
    """Else a queue that is longer than a life would never be worked off."""
    (early,) = dispatch_leases.take([SHOP], life=LIFE)
    clock.sleep(20)
    (late,) = dispatch_leases.take([SHOP], life=LIFE)
    assert dispatch_leases.take_up(early, life=LIFE) is not None
    assert dispatch_leases.take_up(late, life=LIFE) is None


def test_a_worker_that_gives_metrics_of_life_keeps_its_dispatch_lease(
    dispatch_leases: DispatchLeases, clock: VirtualClock
) -> None:
    dispatch_lease = take_up(dispatch_leases)
    for _ in range(3):
        clock.sleep(10)
        assert dispatch_leases.keep([dispatch_lease], life=LIFE) == 1
        assert dispatch_leases.take([SHOP], life=LIFE) == []


def test_a_worker_that_was_silent_and_replaced_can_neither_keep_nor_lay_down(
    dispatch_leases: DispatchLeases, clock: VirtualClock
) -> None:
    silent = take_up(dispatch_leases)
    clock.sleep(15)
    heir = take_up(dispatch_leases)
    assert dispatch_leases.keep([silent], life=LIFE) == 0
    assert not dispatch_leases.rest(silent, wait=timedelta(hours=1), state=PERMIT)
    assert dispatch_leases.rest(heir, wait=timedelta(0))


@pytest.mark.parametrize("carried", (PERMIT, CLAIM), ids=("a permit", "a job"))
def test_what_is_carried_arrives_as_it_was_in_one_hand_only(
    dispatch_leases: DispatchLeases, carried: Permit | PullClaim
) -> None:
    dispatch_lease = take_up(dispatch_leases)
    assert dispatch_leases.rest(dispatch_lease, wait=timedelta(0), state=carried)
    assert take_up(dispatch_leases).state == carried
    named = DispatchLease(subject=SHOP, fence=dispatch_lease.fence + 1)
    again = dispatch_leases.take_up(named, life=LIFE)
    assert again is not None
    assert again.state is None


def test_what_another_version_carried_and_nobody_can_read_is_let_go(
    dispatch_leases: DispatchLeases, pool: ConnectionPool
) -> None:
    dispatch_leases.rest(take_up(dispatch_leases), wait=timedelta(0), state=PERMIT)
    with pool.connection() as connection:
        connection.execute("""UPDATE dispatch_leases SET carried = '{"shape": "of tomorrow"}'""")
    assert take_up(dispatch_leases).state is None


def test_a_subject_with_a_permit_is_woken_when_its_time_has_come(
    dispatch_leases: DispatchLeases, clock: VirtualClock
) -> None:
    assert dispatch_leases.next_in() is None
    dispatch_leases.rest(take_up(dispatch_leases, OTHER), wait=timedelta(0))
    dispatch_leases.rest(take_up(dispatch_leases), wait=timedelta(seconds=30), state=PERMIT)
    assert dispatch_leases.next_in() == timedelta(seconds=30)
    assert dispatch_leases.waking(limit=9) == []
    clock.sleep(31)
    assert dispatch_leases.next_in() == timedelta(0)
    assert dispatch_leases.waking(limit=9) == [SHOP]


def test_living_are_those_that_need_no_message(
    dispatch_leases: DispatchLeases, clock: VirtualClock
) -> None:
    dispatch_leases.take([SHOP, subject_of("pull", "etsy:1")], life=LIFE)
    assert dispatch_leases.living(Verb.PUSH) == [SHOP]
    clock.sleep(16)
    assert dispatch_leases.living(Verb.PUSH) == []


def test_dispatch_leases_that_nobody_touched_for_long_are_forgotten(
    dispatch_leases: DispatchLeases, clock: VirtualClock
) -> None:
    dispatch_leases.take([SHOP], life=LIFE)
    assert dispatch_leases.forget(clock.now()) == 0
    assert dispatch_leases.forget(clock.now() + timedelta(minutes=1)) == 1


def test_hosts_whose_clocks_are_apart_agree_by_the_clock_of_the_server(
    pool: ConnectionPool,
) -> None:
    class Ahead(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(minutes=2)

    assert len(DispatchLeases(pool, SystemClock()).take([SHOP], life=LIFE)) == 1
    assert DispatchLeases(pool, Ahead()).take([SHOP], life=LIFE) == []
