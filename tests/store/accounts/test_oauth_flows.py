"""A visit's steps: each works once, in time, for the platform it was opened for."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId
from headway.store.accounts.oauth_flows import OAuthFlow, OAuthFlows

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
SOON = NOW + timedelta(minutes=10)
ETSY, SHOPIFY = PlatformName.ETSY, PlatformName.SHOPIFY
VISIT = OAuthFlow(platform=ETSY, user_id=SellerId("acme"), shop="", verifier=b"sealed")


@pytest.fixture
def visits(pool: ConnectionPool) -> OAuthFlows:
    made = OAuthFlows(pool)
    made.open(VISIT, ticket="t", expires_at=SOON)
    return made


def begin(
    visits: OAuthFlows, ticket: str = "t", *, state: str = "s", at: datetime = NOW
) -> OAuthFlow | None:
    until = at + timedelta(minutes=10)
    return visits.begin(ETSY, ticket=ticket, state=state, expires_at=until, now=at)


def test_a_ticket_becomes_a_state_once_and_a_state_ends_once(visits: OAuthFlows) -> None:
    assert begin(visits) == VISIT
    assert begin(visits, state="another") is None
    assert visits.end(SHOPIFY, "s", now=NOW) is None
    assert visits.end(ETSY, "s", now=NOW) == VISIT
    assert visits.end(ETSY, "s", now=NOW) is None
    assert "sealed" not in repr(VISIT)


def test_nothing_works_too_late(visits: OAuthFlows) -> None:
    assert begin(visits, at=SOON) is None
    assert begin(visits) == VISIT
    assert visits.end(ETSY, "s", now=SOON) is None
    assert visits.forget(SOON + timedelta(seconds=1)) == 1
    assert visits.secrets() == []


def test_what_the_table_holds_is_no_ticket_and_no_ticket_is_a_state(
    visits: OAuthFlows, pool: ConnectionPool
) -> None:
    with pool.connection() as connection:
        ((stored,),) = connection.execute("SELECT state FROM oauth_visits").fetchall()
    assert begin(visits, ticket=stored) is None
    assert visits.end(ETSY, stored, now=NOW) is None
    assert begin(visits) == VISIT


def test_of_ten_who_show_the_same_ticket_one_gets_in(visits: OAuthFlows) -> None:
    seen: list[OAuthFlow | None] = []
    threads = [
        threading.Thread(target=lambda at=at: seen.append(begin(visits, state=f"s{at}")))
        for at in range(10)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each for each in seen if each is not None] == [VISIT]


def test_verifiers_are_encrypted_anew_too(visits: OAuthFlows) -> None:
    assert visits.reencrypt(lambda _: None) == 0
    assert visits.reencrypt(bytes.upper) == 1
    assert visits.secrets() == [b"SEALED"]
