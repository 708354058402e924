"""The command key; a key is shown once and never stored in clear text."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.core.access import Role
from headway.store.access.keys import ApiKeys

Headway = Callable[..., Any]
CLOCK = SystemClock()


def dump(pool: ConnectionPool) -> str:
    """Return everything that the database holds of keys, links and sessions, as text."""
    tables = ("access_keys", "login_links", "sessions", "sync_audit_log")
    with pool.connection() as connection:
        rows = [
            connection.execute(f"SELECT t::text FROM {table} AS t").fetchall() for table in tables
        ]
    return str(rows)


def test_a_key_is_made_used_listed_and_revoked(on_database: Headway, pool: ConnectionPool) -> None:
    output = on_database("key", "create", "ci", "--role", "operator", "--expires", "90d").out
    secret, message = output.splitlines()
    assert secret.startswith("hw_")
    assert len(secret) == 67
    assert "not shown again" in message
    now = CLOCK.now()
    principal = ApiKeys(pool).find_key(secret, now=now)
    assert principal is not None
    assert (principal.name, principal.role, principal.seller) == ("ci", Role.OPERATOR, None)
    assert ApiKeys(pool).find_key(secret, now=now + timedelta(days=91)) is None

    listed = on_database("key", "list").out
    assert "ci" in listed
    assert secret[:11] in listed
    (stored,) = on_database("key", "list", "--json").object()
    assert stored["last_used_at"] is not None
    for text in (listed, str(stored), dump(pool)):
        assert secret not in text
        assert secret[3:] not in text

    assert "no longer works" in on_database("key", "revoke", "ci").out
    assert ApiKeys(pool).find_key(secret, now=now) is None
    assert "revoked" in on_database("key", "list").out
    assert "no working key" in on_database("key", "revoke", "ci").error(2)


def test_a_name_is_taken_until_its_key_is_revoked(on_database: Headway) -> None:
    create = ("key", "create", "app", "--role", "seller", "--seller", "acme", "--json")
    first = on_database(*create).object()
    assert (first["role"], first["seller"], first["prefix"]) == (
        "seller",
        "acme",
        first["key"][:11],
    )
    assert "there is a key named app" in on_database(*create[:-1]).error(2)
    assert on_database("key", "revoke", first["prefix"], "--json").object()["id"] == first["id"]
    assert on_database(*create).object()["id"] != first["id"]


def test_created_and_revoked_keys_are_in_the_audit_log(on_database: Headway) -> None:
    made = on_database("key", "create", "ci", "--role", "operator", "--json").object()
    on_database("key", "revoke", "ci")
    audit = on_database("audit", "--json")
    first, last = (json.loads(line) for line in audit.out.splitlines())
    assert [first["kind"], last["kind"]] == ["key_created", "key_revoked"]
    for event in (first, last):
        assert (event["actor"], event["seller"]) == ("cli", "")
        assert (event["new"]["name"], event["new"]["prefix"]) == ("ci", made["prefix"])
    assert made["key"][len(made["prefix"]) :] not in audit.out


def test_a_login_link_is_created(on_database: Headway, pool: ConnectionPool) -> None:
    output = on_database("key", "link", HEADWAY_PUBLIC_URL="https://headway.example").out
    url = output.splitlines()[0]
    start = "https://headway.example/login/"
    assert url.startswith(start)
    secret = url.removeprefix(start)
    assert secret not in dump(pool)
    grant = ApiKeys(pool).take_link(secret, now=CLOCK.now())
    assert grant is not None
    assert grant.role is Role.OPERATOR
    assert ApiKeys(pool).take_link(secret, now=CLOCK.now()) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        (("create", "x", "--role", "seller"), "the role seller needs one"),
        (
            ("create", "x", "--role", "operator", "--seller", "acme"),
            "the role operator belongs to no seller",
        ),
        (("create", "x", "--role", "permits", "--seller", "acme"), "permits belongs to no seller"),
        (("link", "--role", "permits"), "it has no login link"),
        (("create", "x", "--role", "king"), "'king' is not one of"),
        (("create", " ", "--role", "reader"), "a name that a person can read"),
        (("create", "x", "--role", "reader", "--expires", "soon"), "write 90d, 12h or 30m"),
        (("create", "x", "--role", "reader", "--expires", "0d"), "write 90d, 12h or 30m"),
        (("revoke", "nobody"), "see: headway key list"),
    ),
)
def test_invalid_arguments_are_refused(
    on_database: Headway, arguments: tuple[str, ...], message: str
) -> None:
    assert message in on_database("key", *arguments).error(2)
