from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Thread
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import Listing, Priority, SellerId, Sku
from headway.core.pauses import Pause, PauseKind
from headway.core.timetable.policies.rolling import Rolling
from headway.errors import ConflictError, InvalidError
from headway.store.access.isolation import TenantPool
from headway.store.catalog.listings import LOCK, Listings
from headway.store.pauses import Pauses
from headway.store.timetable.markets import Markets
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

HOUR = timedelta(hours=1)
Ask = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def ask(pool: ConnectionPool) -> Ask:
    def query(sql: str, *values: object) -> list[tuple[Any, ...]]:
        with pool.connection() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    return query


@pytest.fixture
def now(pool: ConnectionPool, clock: VirtualClock) -> datetime:
    """Two sellers, of whom each lists the same three parts."""
    now = clock.now()
    keys = [(SellerId(seller), Sku(f"P{n}")) for seller in "ab" for n in range(3)]
    Listings(pool).add(keys, policy=Rolling(), now=now)
    return now


def a_pause(kind: PauseKind, now: datetime, **rest: Any) -> Pause:
    return Pause(kind=kind, since=now, actor="Ada", reason="stock-taking", **rest)


ALL, SUPPLIER, SELLER, LISTING = PauseKind
OF_A = {"seller": SellerId("a")}
P1_OF_A = {"seller": SellerId("a"), "sku": Sku("P1")}


def front(pool: ConnectionPool, now: datetime) -> set[str]:
    return {
        f"{candidate.user_id}/{candidate.sku}" for candidate in Schedule(pool).front(now, limit=30)
    }


def claim(pool: ConnectionPool, now: datetime, *skus: str) -> list[Listing]:
    named = [Sku(sku) for sku in skus or ("P0", "P1", "P2")]
    return Schedule(pool).claim(named, now=now, owner="w1", lease_until=now + HOUR)


def marked(ask: Ask) -> set[str]:
    return {
        f"{user}/{sku}"
        for user, sku in ask("SELECT user_id, sku FROM product_sync_schedule WHERE is_paused")
    }


def events(ask: Ask) -> list[tuple[Any, ...]]:
    return ask(
        "SELECT user_id, sku, event_type, new_value ->> 'kind', error_message FROM sync_audit_log"
        " WHERE event_type IN ('sync_paused', 'sync_resumed') ORDER BY sync_timestamp, event_type"
    )


EVERYBODY = {f"{seller}/P{n}" for seller in "ab" for n in range(3)}


@pytest.mark.parametrize(
    ("kind", "of", "left"),
    (
        (ALL, {}, set()),
        (SUPPLIER, {}, set()),
        (SELLER, OF_A, {"b/P0", "b/P1", "b/P2"}),
        (LISTING, P1_OF_A, EVERYBODY - {"a/P1"}),
    ),
)
def test_what_is_paused_neither_stands_in_front_nor_is_claimed_and_then_goes_on(
    pool: ConnectionPool, now: datetime, kind: PauseKind, of: Any, left: set[str]
) -> None:
    pauses = Pauses(pool)
    pauses.pause(a_pause(kind, now, **of), now)
    assert front(pool, now) == left
    assert {f"{listing.user_id}/{listing.sku}" for listing in claim(pool, now)} == left
    assert pauses.resume(kind, now=now, **of).is_done
    assert front(pool, now) == EVERYBODY - left, "the others are in_call"
    assert not pauses.resume(kind, now=now, **of).is_done


@pytest.mark.parametrize(("kind", "of"), ((SELLER, OF_A), (LISTING, P1_OF_A)))
def test_a_pause_acts_before_anything_is_marked(
    pool: ConnectionPool, now: datetime, ask: Ask, kind: PauseKind, of: Any
) -> None:
    Pauses(pool, batches_max=0).pause(a_pause(kind, now, **of), now)
    assert marked(ask) == set()
    assert "a/P1" not in front(pool, now)
    assert "a" not in {listing.user_id for listing in claim(pool, now, "P1")}


def test_each_pause_and_resume_leaves_its_event_and_nobodys_are_nobodys(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    pauses = Pauses(pool)
    pauses.pause(a_pause(ALL, now), now)
    pauses.resume(ALL, now=now + HOUR, reason="done")
    assert events(ask) == [
        ("", None, "sync_paused", "all", "stock-taking"),
        ("", None, "sync_resumed", "all", "done"),
    ]


def test_a_listing_paused_twice_goes_on_when_both_are_over(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    pauses = Pauses(pool)
    pauses.pause(a_pause(SELLER, now, **OF_A), now)
    pauses.pause(a_pause(LISTING, now, **P1_OF_A), now)
    assert pauses.resume(SELLER, now=now, **OF_A).is_done
    assert marked(ask) == {"a/P1"}
    assert front(pool, now) == EVERYBODY - {"a/P1"}
    pauses.pause(a_pause(SELLER, now, **OF_A), now)
    assert pauses.resume(LISTING, now=now, **P1_OF_A).is_done
    assert marked(ask) == {"a/P0", "a/P1", "a/P2"}
    assert pauses.resume(SELLER, now=now, **OF_A).is_done
    assert marked(ask) == set()


def test_a_pause_that_runs_out_is_unmarked_by_the_next_round_and_is_an_event(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    pauses = Pauses(pool)
    pauses.pause(a_pause(SELLER, now, until=now + HOUR, **OF_A), now)
    pauses.pause(a_pause(ALL, now, until=now + HOUR), now)
    assert pauses.reconcile(now + HOUR / 2) == 0
    assert front(pool, now + HOUR) == {"b/P0", "b/P1", "b/P2"}, "over, and a round is to come"
    assert pauses.active(now + HOUR) == []
    assert pauses.reconcile(now + HOUR) == 3
    assert front(pool, now + HOUR) == EVERYBODY
    assert ask("SELECT count(*) FROM pauses") == [(0,)]
    types = [row[2] for row in events(ask)]
    assert types == ["sync_paused", "sync_paused", "sync_resumed", "sync_resumed"]


def test_a_crash_at_any_instant_leaves_enough_for_the_next_round(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    pauses = Pauses(pool, batch=1, batches_max=1)
    pauses.pause(a_pause(SELLER, now, **OF_A), now)
    assert marked(ask) == {"a/P0"}
    assert front(pool, now) == {"b/P0", "b/P1", "b/P2"}
    assert [pauses.reconcile(now) for _ in range(4)] == [1, 1, 0, 0]
    assert marked(ask) == {"a/P0", "a/P1", "a/P2"}
    pauses.resume(SELLER, now=now, **OF_A)
    assert len(marked(ask)) == 2
    pauses.pause(a_pause(SELLER, now, **OF_A), now)
    while pauses.reconcile(now):
        pass
    assert marked(ask) == {"a/P0", "a/P1", "a/P2"}, "paused again half way"
    pauses.resume(SELLER, now=now, **OF_A)
    while pauses.reconcile(now):
        pass
    assert (marked(ask), ask("SELECT count(*) FROM pauses")) == (set(), [(0,)])


def test_new_listings_of_a_paused_seller_come_marked(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    Pauses(pool).pause(a_pause(SELLER, now, **OF_A), now)
    keys = [(SellerId(seller), Sku("NEW")) for seller in "ab"]
    Listings(pool).add(keys, policy=Rolling(), now=now, priority=Priority.ONBOARDING)
    assert "a/NEW" in marked(ask)
    assert "b/NEW" not in marked(ask)


def test_marks_wait_for_a_transaction_that_adds_listings(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    """Else what is brought by one who did not see the pause would never be marked."""
    pauses = Pauses(pool)
    with pool.connection() as importing, importing.transaction():
        importing.execute(LOCK)
        pauses.pause(a_pause(SELLER, now, **OF_A), now)
        assert marked(ask) == set()
        assert front(pool, now) == {"b/P0", "b/P1", "b/P2"}
    assert pauses.reconcile(now) == 3
    assert marked(ask) == {"a/P0", "a/P1", "a/P2"}


def test_two_rounds_at_once_do_the_work_of_one(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    pauses = Pauses(pool)
    with pool.connection() as importing, importing.transaction():
        importing.execute(LOCK)
        pauses.pause(a_pause(SELLER, now, **OF_A), now)
    done: list[int] = []
    rounds = [Thread(target=lambda: done.append(pauses.reconcile(now))) for _ in range(4)]
    for thread in rounds:
        thread.start()
    for round_ in rounds:
        round_.join()
    assert sum(done) == 3
    assert marked(ask) == {"a/P0", "a/P1", "a/P2"}


def test_what_is_in_call_settles_and_does_not_join_call_again(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    in_call = claim(pool, now, "P1")
    Pauses(pool).pause(a_pause(SELLER, now, **OF_A), now)
    assert Schedule(pool).release(in_call, suspicion={}) == 2
    assert {listing.user_id for listing in claim(pool, now, "P1")} == {"b"}


def test_a_pause_is_made_longer_at_will_and_shorter_only_on_purpose(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    pauses, later = Pauses(pool), now + timedelta(minutes=1)
    first = a_pause(SELLER, now, until=now + HOUR, **OF_A)
    pauses.pause(first, now)
    short = Pause(kind=SELLER, since=later, until=now + HOUR / 12, actor="Bo", **OF_A)
    with pytest.raises(ConflictError, match=r"paused by Ada.*stock-taking\. Your pause would end"):
        pauses.pause(short, later)
    assert pauses.active(later) == [first]
    endless = Pause(kind=SELLER, since=later, actor="Bo", **OF_A)
    pauses.pause(endless, later)
    with pytest.raises(ConflictError, match="until somebody resumes"):
        pauses.pause(first, later)
    pauses.pause(short, later, replaces=True)
    assert pauses.active(later) == [short]
    olds = ask("SELECT old_value FROM sync_audit_log")
    assert {old and (old["by"], old["until"]) for (old,) in olds} == {
        None, ("Ada", "2026-01-01T01:00:00Z"), ("Bo", None),
    }  # fmt: skip


def test_one_that_is_over_hinders_no_shorter_one_and_an_expired_one_is_refused(
    pool: ConnectionPool, now: datetime
) -> None:
    pauses = Pauses(pool)
    pauses.pause(a_pause(SELLER, now, until=now + HOUR, **OF_A), now)
    second = Pause(kind=SELLER, since=now + HOUR, until=now + 2 * HOUR, actor="Bo", **OF_A)
    pauses.pause(second, now + HOUR)
    assert pauses.active(now + HOUR) == [second]
    with pytest.raises(InvalidError, match="an instant to come"):
        pauses.pause(second, now + 2 * HOUR)


def test_a_seller_sees_what_stops_it_and_no_other_sellers_pauses(
    pool: ConnectionPool, now: datetime
) -> None:
    pauses = Pauses(pool)
    stops = [a_pause(SUPPLIER, now), a_pause(LISTING, now + HOUR, **P1_OF_A)]
    others = a_pause(SELLER, now + 2 * HOUR, seller=SellerId("b"))
    for item in (*stops, others):
        pauses.pause(item, now)
    assert pauses.active(now, seller=SellerId("a")) == stops
    assert pauses.active(now) == [*stops, others]


def test_the_guard_of_the_deadline_leaves_paused_listings_aside(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    ask(
        "UPDATE product_sync_schedule SET last_successful_sync = %s WHERE user_id = 'a'", now - HOUR
    )
    ask("UPDATE product_sync_schedule SET last_successful_sync = %s WHERE user_id = 'b'", now)
    markets = Markets(pool, limit_key="boeing", seats_per_min=20)
    assert markets.oldest() == now - HOUR
    Pauses(pool).pause(a_pause(SELLER, now, **OF_A), now)
    assert markets.oldest() == now
    assert markets.ages_min(now) == {0: 3}
    assert markets.hurry(1, now + HOUR) == ["P0"]


def test_a_pause_that_expires_is_not_attributed_to_the_process_that_noticed_it(
    pool: ConnectionPool, now: datetime, ask: Ask
) -> None:
    Pauses(TenantPool(pool, actor="Ada")).pause(a_pause(SELLER, now, until=now + HOUR, **OF_A), now)
    later = now + 2 * HOUR
    Pauses(TenantPool(pool, actor="Bo")).pause(a_pause(SUPPLIER, later), later)
    assert ask(
        "SELECT event_type, actor FROM sync_audit_log WHERE event_type ~ 'paused|resumed'"
        " ORDER BY sync_timestamp"
    ) == [("sync_paused", "Ada"), ("sync_resumed", None), ("sync_paused", "Bo")]
