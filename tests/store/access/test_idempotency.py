"""Requests under a key, in a real PostgreSQL."""

from dataclasses import replace
from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import fresh_id
from headway.store.access.idempotency import (
    KEPT,
    LEASE,
    Idempotency,
    IdempotentRequest,
    KeyReused,
    RequestBegun,
    RequestInProgress,
    StoredResponse,
)
from headway_lab.virtual_clock import VirtualClock

REPLY = StoredResponse(status=202, content_type="application/json", body=b"{}")


def recorded(
    key: str = "k", fingerprint: bytes = b"a" * 32, principal: str = "key:1"
) -> IdempotentRequest:
    return IdempotentRequest(
        principal=principal, key=key, fingerprint=fingerprint, owner=fresh_id()
    )


@pytest.fixture
def store(pool: ConnectionPool) -> Idempotency:
    return Idempotency(pool)


def test_what_was_done_is_answered_as_it_was_and_kept_for_a_day(
    store: Idempotency, clock: VirtualClock
) -> None:
    first = recorded()
    assert store.begin(first, now=clock.now()) == RequestBegun()
    store.finish(first, REPLY)
    assert store.begin(recorded(), now=clock.now()) == REPLY
    assert store.begin(recorded(fingerprint=b"b" * 32), now=clock.now()) == KeyReused()
    assert store.begin(recorded(principal="key:2"), now=clock.now()) == RequestBegun()
    clock.sleep(KEPT.total_seconds())
    assert store.begin(recorded(fingerprint=b"b" * 32), now=clock.now()) == RequestBegun()


def test_one_under_way_is_waited_for_and_taken_over_when_its_lease_ends(
    store: Idempotency, clock: VirtualClock
) -> None:
    crashed, until = recorded(), clock.now() + LEASE
    assert store.begin(crashed, now=clock.now()) == RequestBegun()
    assert store.begin(recorded(), now=until - timedelta(seconds=1)) == RequestInProgress(
        until=until
    )
    assert store.begin(recorded(fingerprint=b"b" * 32), now=until) == KeyReused()
    again = recorded()
    assert store.begin(again, now=until) == RequestBegun()
    store.finish(crashed, replace(REPLY, status=200))
    store.release(crashed)
    assert isinstance(store.begin(recorded(), now=until), RequestInProgress), (
        "a late one changes nothing"
    )
    store.finish(again, REPLY)
    assert store.begin(recorded(), now=until) == REPLY


def test_what_was_refused_may_be_tried_again(store: Idempotency, clock: VirtualClock) -> None:
    first = recorded()
    store.begin(first, now=clock.now())
    store.release(first)
    assert store.begin(recorded(fingerprint=b"b" * 32), now=clock.now()) == RequestBegun()


def test_what_is_forgotten_leaves_no_row(
    store: Idempotency, pool: ConnectionPool, clock: VirtualClock
) -> None:
    for number in range(5):
        one = recorded(key=str(number))
        store.begin(one, now=clock.now())
        store.finish(one, REPLY)
    clock.sleep(KEPT.total_seconds())
    store.begin(recorded(key="new"), now=clock.now())
    with pool.connection() as connection:
        assert connection.execute("SELECT key FROM idempotency").fetchall() == [("new",)]
