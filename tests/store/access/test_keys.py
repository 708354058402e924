"""Keys, sessions, links and the count of wrong tries, in a real PostgreSQL."""

import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from headway.core.access import AccessGrant, Role
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, TooManyError
from headway.store.access.isolation import TenantPool
from headway.store.access.keys import TRIES_MAX, ApiKeys
from headway.store.access.sessions import Sessions
from headway_lab.virtual_clock import VirtualClock

OPS = AccessGrant(name="ops", role=Role.OPERATOR)
ACME = AccessGrant(name="acme-app", role=Role.SELLER, seller=SellerId("acme"))
MINUTE = timedelta(minutes=1)


@pytest.fixture
def access(pool: ConnectionPool) -> ApiKeys:
    return ApiKeys(pool)


@pytest.fixture
def sessions(pool: ConnectionPool) -> Sessions:
    return Sessions(pool)


def events(pool: ConnectionPool) -> list[tuple[str, str, str | None, dict[str, Any]]]:
    """Return what happened: the kind, the seller, the actor and the details."""
    with pool.connection() as connection:
        return connection.execute(
            "SELECT event_type, user_id, actor, new_value FROM sync_audit_log"
            " ORDER BY sync_timestamp, event_type"
        ).fetchall()


def test_a_key_stands_for_whom_it_was_made_and_knows_its_last_use(
    access: ApiKeys, clock: VirtualClock
) -> None:
    key, secret = access.add_key(ACME, now=clock.now())
    key_found = access.find_key(secret, now=clock.now())
    assert key_found is not None
    assert (key_found.id, key_found.name, key_found.role) == (
        f"key:{key.id}",
        "acme-app",
        Role.SELLER,
    )
    assert key_found.seller == "acme"
    used_at = clock.now()
    clock.sleep(30)
    access.find_key(secret, now=clock.now())
    assert access.all_keys()[0].last_used_at == used_at, "written once a minute at most"
    clock.sleep(31)
    access.find_key(secret, now=clock.now())
    assert access.all_keys()[0].last_used_at == clock.now()


def test_a_key_that_is_over_revoked_or_mangled_opens_nothing(
    access: ApiKeys, clock: VirtualClock
) -> None:
    until = clock.now() + MINUTE
    _, brief = access.add_key(
        AccessGrant(name="brief", role=Role.READER, expires_at=until), now=clock.now()
    )
    _, secret = access.add_key(OPS, now=clock.now())
    assert access.find_key(brief, now=until - timedelta(microseconds=1)) is not None
    assert access.find_key(brief, now=until) is None
    flipped = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    for wrong in ("", "hw_", flipped, secret.upper(), secret[:-1], secret + "0", secret[3:], "\0"):
        assert access.find_key(wrong, now=clock.now()) is None
    assert access.find_key("hw_" + "é" * 64, now=clock.now()) is None
    access.revoke_key("ops", now=clock.now())
    assert access.find_key(secret, now=clock.now()) is None


def test_the_database_refuses_a_seller_without_a_seller_and_an_operator_with_one(
    access: ApiKeys, pool: ConnectionPool, clock: VirtualClock
) -> None:
    for role, seller in (("seller", None), ("operator", "acme"), ("seller", ""), ("king", None)):
        with pytest.raises(psycopg.errors.CheckViolation), pool.connection() as connection:
            connection.execute(
                "INSERT INTO access_keys (id, name, prefix, hash, role, user_id, created_at)"
                " VALUES (gen_random_uuid(), 'x', 'x', sha256('x'), %s, %s, now())",
                (role, seller),
            )
    access.add_key(OPS, now=clock.now())
    with pytest.raises(ConflictError, match="a key named ops"):
        access.add_key(OPS, now=clock.now())


def test_a_session_ends_by_itself_by_hand_and_with_its_key(
    access: ApiKeys, sessions: Sessions, clock: VirtualClock
) -> None:
    key, secret = access.add_key(OPS, now=clock.now())
    who = access.find_key(secret, now=clock.now())
    assert who is not None
    until = clock.now() + timedelta(hours=1)
    cookies = [sessions.begin(who, expires_at=until, now=clock.now()) for _ in range(3)]
    session_found = sessions.find(cookies[0], now=clock.now())
    assert session_found is not None
    assert (session_found.name, session_found.role) == ("ops", Role.OPERATOR)
    assert sessions.find(cookies[0], now=until) is None
    sessions.log_out(cookies[1], now=clock.now())
    assert sessions.find(cookies[1], now=clock.now()) is None
    access.revoke_key(key.id, now=clock.now())
    assert sessions.find(cookies[2], now=clock.now()) is None


def test_a_session_of_a_key_that_is_over_is_over_too(
    access: ApiKeys, sessions: Sessions, clock: VirtualClock
) -> None:
    until = clock.now() + MINUTE
    _, secret = access.add_key(
        AccessGrant(name="brief", role=Role.OPERATOR, expires_at=until), now=clock.now()
    )
    who = access.find_key(secret, now=clock.now())
    assert who is not None
    cookie = sessions.begin(who, expires_at=until + MINUTE, now=clock.now())
    assert sessions.find(cookie, now=clock.now()) is not None
    assert sessions.find(cookie, now=until) is None


def test_a_link_works_once_even_for_many_at_once_and_not_too_late(
    access: ApiKeys, clock: VirtualClock
) -> None:
    until = clock.now() + MINUTE
    late = access.add_link(OPS, expires_at=until, now=clock.now())
    assert access.take_link(late, now=until) is None
    link = access.add_link(ACME, expires_at=until, now=clock.now())
    taken: list[AccessGrant | None] = []

    def take() -> None:
        taken.append(access.take_link(link, now=clock.now()))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [session for session in taken if session is not None] == [ACME]


def test_wrong_tries_are_counted_by_address_and_forgotten_in_time_or_by_success(
    access: ApiKeys, clock: VirtualClock
) -> None:
    for _ in range(TRIES_MAX):
        access.count_try("10.0.0.1", now=clock.now())
    clock.sleep(60)
    with pytest.raises(TooManyError, match="try again in 14 minutes") as caught:
        access.count_try("10.0.0.1", now=clock.now())
    assert caught.value.retry_after_s == 14 * 60
    access.count_try("10.0.0.2", now=clock.now())
    clock.sleep(14 * 60)
    access.count_try("10.0.0.1", now=clock.now())
    for _ in range(TRIES_MAX - 1):
        access.count_try("10.0.0.1", now=clock.now())
    access.forgive("10.0.0.1", now=clock.now())
    access.count_try("10.0.0.1", now=clock.now())


def test_every_key_link_and_session_is_an_event_without_a_secret(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    operations = TenantPool(pool, actor="ops")
    access, sessions = ApiKeys(operations), Sessions(pool)
    until = clock.now() + timedelta(hours=1)
    key, secret = access.add_key(ACME, now=clock.now())
    clock.sleep(1)
    link = access.add_link(OPS, expires_at=until, now=clock.now())
    clock.sleep(1)
    grant, shown = access.take_link(link, now=clock.now()), access.find_key(secret, now=clock.now())
    assert grant is not None
    assert shown is not None
    cookies = [sessions.begin(grant, expires_at=until, now=clock.now(), address="10.0.0.1")]
    clock.sleep(1)
    cookies.append(sessions.begin(shown, expires_at=until, now=clock.now(), address="10.0.0.2"))
    clock.sleep(1)
    sessions.log_out(cookies[0], now=clock.now())
    clock.sleep(1)
    access.revoke_key(key.id, now=clock.now())
    rows = events(pool)
    assert [session[:3] for session in rows] == [
        ("key_created", "acme", "ops"),
        ("link_created", "", "ops"),
        ("session_begun", "", "ops"),
        ("session_begun", "acme", "acme-app"),
        ("session_ended", "", "ops"),
        ("key_revoked", "acme", "ops"),
        ("session_ended", "acme", "ops"),
    ]
    details = [session[3] for session in rows]
    assert (details[0]["name"], details[0]["prefix"]) == ("acme-app", key.prefix)
    assert (details[2]["by"], details[2]["address"]) == ("a link", "10.0.0.1")
    assert details[3]["by"] == f"key {key.prefix}"
    assert (details[4]["why"], details[6]["why"]) == ("logged out", "its key was revoked")
    for text in (secret[len(key.prefix) :], link, *cookies):
        assert text not in str(rows)


def test_what_did_not_happen_is_no_event(
    pool: ConnectionPool, access: ApiKeys, sessions: Sessions, clock: VirtualClock
) -> None:
    access.add_key(OPS, now=clock.now())
    with pytest.raises(ConflictError):
        access.add_key(OPS, now=clock.now())
    assert access.revoke_key("nobody", now=clock.now()) is None
    sessions.log_out("0" * 64, now=clock.now())
    assert [event[0] for event in events(pool)] == ["key_created"]


def test_a_word_that_means_several_keys_revokes_none_of_them(
    access: ApiKeys, clock: VirtualClock
) -> None:
    first, _ = access.add_key(OPS, now=clock.now())
    looks_like = AccessGrant(name=first.prefix, role=Role.READER)
    second, _ = access.add_key(looks_like, now=clock.now())
    with pytest.raises(ConflictError, match="means several keys") as caught:
        access.revoke_key(first.prefix, now=clock.now())
    for session in (first, second):
        assert f"{session.name} ({session.prefix}, id {session.id})" in str(caught.value)
    assert [key.revoked_at for key in access.all_keys()] == [None, None]
    named_like_an_id = AccessGrant(name=first.id, role=Role.READER)
    third, _ = access.add_key(named_like_an_id, now=clock.now())
    revoked = access.revoke_key(first.id, now=clock.now())
    assert revoked is not None
    assert revoked.id == first.id, "an id means one key, whatever another is called"
    assert access.revoke_key(first.prefix, now=clock.now()) is not None, "one is left of that name"
    working = [key.id for key in access.all_keys() if key.revoked_at is None]
    assert working == [third.id]
