"""Etsy's connector over real HTTP, against answers that were written beforehand."""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import ScaledClock
from headway.core.accounts.jobs import Account
from headway.core.accounts.pagination import PageRequest
from headway.core.catalog.listings import SellerId
from headway.errors import (
    AppRefusedError,
    PermanentError,
    ProviderError,
    ThrottledError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
)
from headway.providers.etsy.client import EtsyAccess, EtsyPlatform
from headway.providers.token_store import token_key
from headway.providers.tokens import REFRESH, AccountTokens, store_tokens
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.platforms import ETSY
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.transport import serve

VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
ACCESS = EtsyAccess(keystring="the-keystring", shared_secret="hush-shared-secret")
SCOPE = token_key(ETSY, "77")
SECRETS = ("hush-shared-secret", "77.hush-access-token", "77.hush-refresh-token", "77.hush-new")
LISTINGS = PageRequest(what="listings", values={"state": "active", "limit": 100, "offset": 90})
EMPTY = {"count": 0, "results": []}


class ScriptedEtsy:
    """An Etsy with scripted answers; it records the requests."""

    def __init__(self, pool: ConnectionPool, clock: ScaledClock) -> None:
        self.token_store = Credentials(pool)
        self.clock = clock
        self.answers: list[SimReply] = []
        self.requests: list[tuple[str, str, Mapping[str, str], bytes]] = []
        self.url = ""

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        self.requests.append((method, path, {k.lower(): v for k, v in headers.items()}, body))
        return self.answers.pop(0)

    def answer(self, body: object, status: int = 200, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append(json_reply(body, status=status, headers=named))


@pytest.fixture
def script(pool: ConnectionPool) -> Iterator[ScriptedEtsy]:
    clock = ScaledClock(10, start=datetime(2026, 1, 1, tzinfo=UTC))
    script = ScriptedEtsy(pool, clock)
    store_tokens(
        script.token_store, VAULT, SCOPE, clock=clock, access=SECRETS[1], refresh=SECRETS[2]
    )
    with serve(script.handle, clock) as server:
        script.url = server.url
        yield script


@pytest.fixture
def etsy(script: ScriptedEtsy) -> Iterator[EtsyPlatform]:
    account = Account(id="1", user_id=SellerId("s"), platform=ETSY, shop="77")
    connector = EtsyPlatform(
        account,
        url=script.url,
        access=ACCESS,
        token_store=script.token_store,
        vault=VAULT,
        clock=script.clock,
    )
    with contextlib.closing(connector):
        yield connector


def test_a_request_carries_the_apps_key_and_the_sellers_token(
    script: ScriptedEtsy, etsy: EtsyPlatform
) -> None:
    script.answer(EMPTY, x_limit_per_day="500", x_remaining_today="480")
    assert etsy.read(LISTINGS).ids == ()
    (method, path, headers, body) = script.requests[0]
    assert (method, body) == ("GET", b"")
    assert path == "/v3/application/shops/77/listings?state=active&limit=100&offset=90"
    assert headers["x-api-key"] == "the-keystring:hush-shared-secret"
    assert headers["authorization"] == "Bearer 77.hush-access-token"
    assert etsy.observations["etsy:the-keystring"].used == 20
    assert set(etsy.observations) == {"etsy:the-keystring"}


def test_a_refresh_asks_once_and_keeps_the_new_pair(
    script: ScriptedEtsy, etsy: EtsyPlatform
) -> None:
    tokens = AccountTokens(SCOPE, token_store=script.token_store, vault=VAULT, clock=script.clock)
    access = tokens.find("access")
    assert access is not None
    tokens.refuse(access)
    pair = {"access_token": SECRETS[3], "refresh_token": "77.next", "expires_in": 3600}
    script.answer(
        {**pair, "token_type": "Bearer"}, x_limit_per_second="10", x_remaining_this_second="4"
    )
    assert etsy.refresh_token()
    (method, path, headers, body) = script.requests[0]
    assert (method, path) == ("POST", "/v3/public/oauth/token")
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert body.decode() == (
        "grant_type=refresh_token&refresh_token=77.hush-refresh-token&client_id=the-keystring"
    )
    assert etsy.observations["etsy:the-keystring:second"].used == 6
    kept = AccountTokens(
        SCOPE, token_store=script.token_store, vault=VAULT, clock=script.clock
    ).find(REFRESH)
    assert kept is not None
    assert kept.text == "77.next"
    script.answer(EMPTY)
    etsy.read(LISTINGS)
    assert script.requests[1][2]["authorization"] == f"Bearer {SECRETS[3]}"


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    (
        ({"Retry_After": "86400"}, 86_400),
        ({"Retry_After": "1.5"}, 1.5),
        (
            {
                "Retry_After": "Thu, 01 Jan 2026 00:01:00 GMT",
                "Date": "Thu, 01 Jan 2026 00:00:00 GMT",
            },
            60,
        ),
        ({"Retry_After": "soon"}, None),
        ({}, None),
    ),
)
def test_a_throttled_call_carries_the_time_to_wait(
    script: ScriptedEtsy, etsy: EtsyPlatform, headers: dict[str, str], wait_s: float | None
) -> None:
    script.answer({"error": "Exceeded daily rate limit"}, 429, **headers)
    with pytest.raises(ThrottledError, match="Exceeded daily rate limit") as caught:
        etsy.read(LISTINGS)
    assert caught.value.retry_after_s == wait_s


@pytest.mark.parametrize(
    ("status", "body", "error", "text"),
    (
        (403, {"error": "Shared secret is required in x-api-key header."}, AppRefusedError, "key"),
        (
            403,
            {"error": "Invalid API key: should be in the format 'keystring:shared_secret'."},
            AppRefusedError,
            "key",
        ),
        (401, {"error": "Missing API key or invalid API key"}, AppRefusedError, "HEADWAY_ETSY_"),
        (403, {"error": "insufficient_scope"}, UnauthorizedError, "it is checked"),
        (403, {"error": "Go away"}, TransientError, "Go away"),
        (403, "a firewall", TransientError, "without a reason"),
        (401, "a firewall", TransientError, "without a reason"),
        (401, {"error": "Who are you?"}, TransientError, "Who are you"),
        (401, {"error": "invalid_token"}, UnauthorizedError, "another is fetched"),
        (404, {"error": "No such shop"}, PermanentError, "No such shop"),
        (400, {"error": "Invalid offset"}, PermanentError, "Invalid offset"),
        (500, {"error": "Server Error"}, TransientError, "500"),
        (302, {}, UnreadableError, "302"),
        (200, {"error": "Server Error"}, UnreadableError, "no results"),
    ),
)
def test_a_refusal_is_laid_at_the_right_door(
    *,
    script: ScriptedEtsy,
    etsy: EtsyPlatform,
    status: int,
    body: Any,
    error: type[ProviderError],
    text: str,
) -> None:
    script.answer(body, status)
    with pytest.raises(ProviderError, match=text) as caught:
        etsy.read(LISTINGS)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("status", "body", "error"),
    (
        (400, {"error": "invalid_grant"}, UnauthorizedError),
        (401, {"error": "invalid_token"}, TransientError),
        (400, {"error": "Server Error"}, TransientError),
        (401, {"error": "invalid_client"}, AppRefusedError),
        (400, {"error": "invalid_request"}, AppRefusedError),
        (403, {"error": "Shared secret is required in x-api-key header."}, AppRefusedError),
        (403, "a firewall", TransientError),
        (400, "a firewall", TransientError),
        (429, {"error": "Exceeded per second rate limit"}, ThrottledError),
        (503, {}, TransientError),
        (200, {"access_token": "has spaces in it"}, UnreadableError),
    ),
)
def test_only_a_dead_grant_refuses_the_refresh_token_and_none_destroys_it(
    script: ScriptedEtsy, etsy: EtsyPlatform, status: int, body: Any, error: type[ProviderError]
) -> None:
    tokens = AccountTokens(SCOPE, token_store=script.token_store, vault=VAULT, clock=script.clock)
    access = tokens.find("access")
    assert access is not None
    tokens.refuse(access)
    script.answer(body, status)
    with pytest.raises(error) as caught:
        etsy.refresh_token()
    assert type(caught.value) is error
    assert etsy.needs_token(), "the same refresh token is tried again"


def test_no_secret_is_ever_shown(
    script: ScriptedEtsy, etsy: EtsyPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"error": " ".join(SECRETS), "access_token": SECRETS[3], "refresh_token": "a b"}
    texts = []
    for status in (200, 400, 403, 429, 500, 401):
        script.answer(echo, status)
        with pytest.raises(ProviderError) as caught:
            etsy.read(LISTINGS)
        texts.append(f"{caught.value!r} {caught.value.__cause__!r}")
    script.answer({"error": "invalid_token"}, 401)
    with pytest.raises(UnauthorizedError):
        etsy.read(LISTINGS)
    for status in (200, 429, 500, 400):
        script.answer(echo, status)
        with pytest.raises(ProviderError) as caught:
            etsy.refresh_token()
        texts.append(f"{caught.value!r} {caught.value.__cause__!r}")
    shown = json.dumps([*texts, caplog.text, repr(etsy), repr(ACCESS)])
    for secret in (SECRETS[0], SECRETS[1]):
        assert secret not in shown
    for text in texts[6:]:
        assert not any(secret in text for secret in SECRETS)
