"""The command vault; neither a key nor a secret is ever shown."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.core.catalog.listings import LimitKey, SellerId
from headway.providers.tokens import store_tokens
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway.store.accounts.oauth_flows import OAuthFlow, OAuthFlows
from headway_lab.platforms import ETSY

Headway = Callable[..., Any]
OLD = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
NEW = "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY="
STRANGE = "enl4d3Z1dHNycXBvbm1sa2ppaGdmZWRjYmF6eXh3dnU="
BOTH = {"HEADWAY_SECRET_KEY": f"{NEW},{OLD}"}
CLOCK = SystemClock()


@pytest.fixture
def fill(pool: ConnectionPool) -> Callable[[str], None]:
    """Store three secrets under a key: two tokens and a verifier."""

    def put(key: str) -> None:
        vault = Vault([key])
        limit_key = LimitKey(f"etsy:{key[:4]}")
        credentials = Credentials(pool)
        store_tokens(
            credentials, vault, limit_key, clock=CLOCK, access="hush-access", refresh="hush-more"
        )
        flow = OAuthFlow(
            platform=ETSY,
            user_id=SellerId("acme"),
            shop="",
            verifier=vault.encrypt("hush-verifier"),
        )
        OAuthFlows(pool).open(flow, link_code=key, expires_at=CLOCK.now() + timedelta(hours=1))

    return put


def test_after_rotation_no_secret_needs_an_old_key(
    on_database: Headway, fill: Callable[[str], None], pool: ConnectionPool
) -> None:
    fill(OLD)
    fill(NEW)
    before = on_database("vault", "status", "--json", **BOTH).object()
    assert before == {
        "source": "HEADWAY_SECRET_KEY",
        "secrets_by_key": [3, 3],
        "secrets_without_key": 0,
        "keys_that_may_go": [],
    }
    assert "still needed; run: headway vault rotate" in on_database("vault", "status", **BOTH).out
    result = on_database("vault", "rotate", **BOTH)
    assert "3 of 6 secrets were encrypted again" in result.out
    assert "all keys but the first can be removed from HEADWAY_SECRET_KEY" in result.out
    again = on_database("vault", "rotate", "--json", **BOTH).object()
    assert (again["written"], again["keys_that_may_go"]) == (0, [2])
    stored = Credentials(pool).secrets() + OAuthFlows(pool).secrets()
    decrypted = {Vault([NEW]).decrypt(secret) for secret in stored}
    assert decrypted == {"hush-access", "hush-more", "hush-verifier"}


def test_a_missing_key_is_reported_and_the_other_secrets_are_rotated(
    on_database: Headway, fill: Callable[[str], None]
) -> None:
    fill(OLD)
    fill(STRANGE)
    result = on_database("vault", "rotate", **BOTH)
    message = result.error(2)
    assert "3 secrets were encrypted again, but 3 stored secrets cannot be decrypted" in message
    assert "HEADWAY_SECRET_KEY" in message
    status = on_database("vault", "status", "--json", **BOTH).object()
    assert (status["secrets_by_key"], status["secrets_without_key"]) == ([3, 0], 3)
    output = result.out + result.err + on_database("vault", "status", **BOTH).out
    for secret in (OLD, NEW, STRANGE, "hush"):
        assert secret not in output


def test_an_empty_vault_is_reported_and_a_single_key_is_not_removable(on_database: Headway) -> None:
    result = on_database("vault", "rotate", HEADWAY_SECRET_KEY=NEW)
    assert result.out == "0 of 0 secrets were encrypted again with the newest key\n"
    table = on_database("vault", "status", HEADWAY_SECRET_KEY=NEW).out
    assert "1 (newest)" in table
    assert "removed" not in table
