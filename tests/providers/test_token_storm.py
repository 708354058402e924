"""Eight workers, one account, a platform that refuses them all at once: one refresh is made.

Over real HTTP against the simulated shop, with real threads. Nothing that is written anywhere, in a
log or in an error, holds a token.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.core.catalog.listings import SellerId
from headway.core.catalog.storefront import Shop
from headway.errors import ProviderError, TransientError, UnauthorizedError
from headway.providers.shopify.storefront import (
    ShopAccess,
    ShopifyStorefront,
    shop_limit_key,
    store_tokens,
)
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.shopify.apps import AppSecret
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import serve

WORKERS = 8
KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
VAULT, CLOCK = Vault([KEY]), SystemClock()
APP = AppSecret()
SETUP = ShopSetup(domain="one.myshopify.com", access_token="shpat_static-secret-token")
SHOP = Shop(id="1", user_id=SellerId("acme"), domain=SETUP.domain)
SCOPE = shop_limit_key(APP.client_id, SETUP.domain)


@dataclass
class Platform:
    """The simulated shop over HTTP; what it was asked, and the replies that get lost."""

    shelf: Credentials
    simulator: ShopifySimulator
    url: str = ""
    refreshes: int = 0
    losses: int = 0
    secrets: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        is_refresh = path.endswith("/access_token")
        with self.lock:
            self.refreshes += is_refresh
            if is_refresh and self.losses:
                self.losses -= 1
                return SimReply(outcome="drop")
        return self.simulator.handle(method, path, headers, body)

    def connect(self, access: str, *, lasts: timedelta) -> None:
        store_tokens(
            self.shelf,
            VAULT,
            SCOPE,
            clock=CLOCK,
            access=access,
            expires_at=CLOCK.now() + lasts,
            refresh=SETUP.refresh_token,
        )
        self.secrets |= {access, SETUP.refresh_token}

    def worker(self) -> ShopifyStorefront:
        access = ShopAccess(client_id=APP.client_id, client_secret=APP.client_secret)
        return ShopifyStorefront(
            SHOP, url=self.url, access=access, token_store=self.shelf, vault=VAULT, clock=CLOCK
        )

    def stored(self) -> dict[str, str]:
        return {row.name: VAULT.decrypt(row.secret) for row in self.shelf.load(SCOPE)}


@pytest.fixture
def platform(pool: ConnectionPool) -> Iterator[Platform]:
    simulator = ShopifySimulator(CLOCK, shops=[SETUP], app=APP, delay_s=(0, 0.005))
    made = Platform(Credentials(pool), simulator)
    with serve(made.handle, CLOCK) as server:
        made.url = f"{server.url}/{{shop}}"
        yield made


def storm(platform: Platform, messages: list[str]) -> int:
    """Let all workers start at once, each until the shop let it in; return how many it did."""
    start = threading.Barrier(WORKERS)

    def work() -> bool:
        with contextlib.closing(platform.worker()) as worker:
            start.wait()
            return _enter(worker, messages)

    with ThreadPoolExecutor(WORKERS) as threads:
        return sum(future.result() for future in [threads.submit(work) for _ in range(WORKERS)])


def _enter(worker: ShopifyStorefront, messages: list[str]) -> bool:
    """Do as the engine does: a refresh first if one is needed, else the call."""
    while True:
        try:
            if worker.needs_token():
                worker.refresh_token()
            else:
                worker.details()
                return True
        except ProviderError as error:
            messages.append(f"{error} {error!r}")
            if isinstance(error, UnauthorizedError) and "headway connect" in str(error):
                return False


@pytest.fixture
def spoken(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    with caplog.at_level(logging.DEBUG):
        yield lambda: caplog.text


def assert_silent(platform: Platform, *texts: str) -> None:
    secrets = platform.secrets | set(platform.stored().values()) | {APP.client_secret, KEY}
    for text in texts:
        for secret in secrets - {""}:
            assert secret not in text


def test_a_storm_of_refusals_makes_one_refresh(
    platform: Platform, spoken: Callable[[], str]
) -> None:
    platform.connect("shpat_was-alive-until-now", lasts=timedelta(hours=1))
    messages: list[str] = []
    assert storm(platform, messages) == WORKERS
    assert platform.refreshes == 1
    assert any("another is fetched" in message for message in messages), "they were refused"
    assert_silent(platform, spoken(), *messages)


def test_a_token_that_has_died_is_refreshed_once(platform: Platform) -> None:
    platform.connect("shpat_died-by-itself", lasts=timedelta(0))
    assert storm(platform, []) == WORKERS
    assert platform.refreshes == 1
    assert SETUP.refresh_token not in platform.stored().values()


def test_a_refresh_that_never_came_back_is_made_again(
    platform: Platform, spoken: Callable[[], str]
) -> None:
    platform.connect("shpat_died-by-itself", lasts=timedelta(0))
    platform.losses = 1
    messages: list[str] = []
    assert storm(platform, messages) == WORKERS
    assert platform.refreshes == 2
    assert_silent(platform, spoken(), *messages)


def test_a_revoked_grant_refuses_every_worker_and_is_kept(
    platform: Platform, spoken: Callable[[], str]
) -> None:
    platform.connect("shpat_died-by-itself", lasts=timedelta(0))
    platform.simulator.tokens(SETUP.domain)._refresh.clear()
    messages: list[str] = []
    assert storm(platform, messages) == 0
    assert platform.refreshes == WORKERS == len(messages), "one request each"
    assert SETUP.refresh_token in platform.stored().values(), "the refusal may be a mistake"
    assert_silent(platform, spoken(), *messages)


def test_the_platform_failing_is_not_the_grants_end(platform: Platform) -> None:
    platform.connect("shpat_died-by-itself", lasts=timedelta(0))
    platform.losses = 3
    with contextlib.closing(platform.worker()) as worker:
        for _ in range(3):
            with pytest.raises(TransientError):
                worker.refresh_token()
            assert worker.needs_token()
        assert worker.refresh_token()
