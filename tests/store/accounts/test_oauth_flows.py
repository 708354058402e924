"""A visit's steps: each works once, in time, for the platform it was opened for."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import SellerId
from headway.store.accounts.oauth_flows import OAuthFlow, OAuthFlows
from headway_lab.platforms import ETSY, SHOPIFY

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
SOON = NOW + timedelta(minutes=10)
FLOW = OAuthFlow(platform=ETSY, user_id=SellerId("acme"), shop="", verifier=b"sealed")


@pytest.fixture
def flows(pool: ConnectionPool) -> OAuthFlows:
    made = OAuthFlows(pool)
    made.open(FLOW, link_code="t", expires_at=SOON)
    return made


def begin(
    flows: OAuthFlows, link_code: str = "t", *, state: str = "s", at: datetime = NOW
) -> OAuthFlow | None:
    until = at + timedelta(minutes=10)
    return flows.begin(ETSY, link_code=link_code, state=state, expires_at=until, now=at)


def test_a_link_code_becomes_a_state_once_and_a_state_ends_once(flows: OAuthFlows) -> None:
    assert begin(flows) == FLOW
    assert begin(flows, state="another") is None
    assert flows.end(SHOPIFY, "s", now=NOW) is None
    assert flows.end(ETSY, "s", now=NOW) == FLOW
    assert flows.end(ETSY, "s", now=NOW) is None
    assert "sealed" not in repr(FLOW)


def test_nothing_works_too_late(flows: OAuthFlows) -> None:
    assert begin(flows, at=SOON) is None
    assert begin(flows) == FLOW
    assert flows.end(ETSY, "s", now=SOON) is None
    assert flows.forget(SOON + timedelta(seconds=1)) == 1
    assert flows.secrets() == []


def test_what_the_table_holds_is_no_link_code_and_no_link_code_is_a_state(
    flows: OAuthFlows, pool: ConnectionPool
) -> None:
    with pool.connection() as connection:
        ((stored,),) = connection.execute("SELECT state FROM oauth_flows").fetchall()
    assert begin(flows, link_code=stored) is None
    assert flows.end(ETSY, stored, now=NOW) is None
    assert begin(flows) == FLOW


def test_of_ten_browsers_with_the_same_link_code_one_gets_in(flows: OAuthFlows) -> None:
    flows_taken: list[OAuthFlow | None] = []
    threads = [
        threading.Thread(target=lambda at=at: flows_taken.append(begin(flows, state=f"s{at}")))
        for at in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [item for item in flows_taken if item is not None] == [FLOW]


def test_verifiers_are_encrypted_again_too(flows: OAuthFlows) -> None:
    assert flows.reencrypt(lambda _: None) == 0
    assert flows.reencrypt(bytes.upper) == 1
    assert flows.secrets() == [b"SEALED"]
