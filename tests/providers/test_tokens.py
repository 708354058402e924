"""A shop's tokens: who fetches the next one, what is kept first, and when a person is needed."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from urllib.parse import parse_qs

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import SellerId
from headway.core.catalog.storefront import Shop
from headway.errors import (
    AppRefusedError,
    ConfigError,
    ConflictError,
    InvalidError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
)
from headway.providers.shopify.storefront import (
    ShopAccess,
    ShopifyStorefront,
    shop_limit_key,
    store_tokens,
)
from headway.providers.tokens import read_grant
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
SHOP = Shop(id="1", user_id=SellerId("seller"), domain="one.myshopify.com")
ACCESS = ShopAccess(client_id="app-1", client_secret="hush-app-secret")
SCOPE = shop_limit_key("app-1", SHOP.domain)
NOTHING = {"data": {"locations": {"nodes": [], "pageInfo": {"hasNextPage": False}}}}


class TokenServer:
    """A shop that accepts the newest token only, and returns a new pair for the old one."""

    def __init__(self, clock: VirtualClock, shelf: Credentials) -> None:
        self.clock = clock
        self.shelf = shelf
        self.access, self.refresh = "access-0000", "refresh-0000"
        self.refreshes = 0
        self.forms: list[dict[str, list[str]]] = []
        self.spoil: SimReply | None = None

    def handle(self, _: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        if path.endswith("graphql.json"):
            lowered = {name.lower(): value for name, value in headers.items()}
            is_good = lowered["x-shopify-access-token"] == self.access
            version = {"X-Shopify-API-Version": "2026-04"}
            return json_reply(NOTHING, status=200 if is_good else 401, headers=version)
        self.forms.append(parse_qs(body.decode()))
        if self.spoil is not None:
            return self.spoil
        if self.forms[-1]["refresh_token"] != [self.refresh]:
            return json_reply({"error": "invalid_grant"}, status=400)
        self.refreshes += 1
        self.access = f"access-{self.refreshes:04}"
        self.refresh = f"refresh-{self.refreshes:04}"
        pair = {"access_token": self.access, "refresh_token": self.refresh, "expires_in": 3600}
        return json_reply(pair)

    def worker(self, access: ShopAccess = ACCESS) -> ShopifyStorefront:
        transport = SimTransport(self.handle, self.clock)
        return ShopifyStorefront(
            SHOP,
            access=access,
            token_store=self.shelf,
            vault=VAULT,
            clock=self.clock,
            transport=transport,
        )

    def connect(self, *, lasts: timedelta | None = timedelta(hours=1)) -> None:
        until = None if lasts is None else self.clock.now() + lasts
        store_tokens(
            self.shelf,
            VAULT,
            SCOPE,
            clock=self.clock,
            access=self.access,
            expires_at=until,
            refresh=None if lasts is None else self.refresh,
        )

    def stored(self) -> dict[str, str]:
        return {row.name: VAULT.decrypt(row.secret) for row in self.shelf.load(SCOPE)}


@pytest.fixture
def endpoint(clock: VirtualClock, pool: ConnectionPool) -> TokenServer:
    return TokenServer(clock, Credentials(pool))


@pytest.fixture
def worker(endpoint: TokenServer) -> Iterator[ShopifyStorefront]:
    with contextlib.closing(endpoint.worker()) as made:
        yield made


def test_without_tokens_a_person_must_connect_the_shop(worker: ShopifyStorefront) -> None:
    assert not worker.needs_token()
    with pytest.raises(UnauthorizedError, match="headway connect"):
        worker.details()


def test_the_token_of_a_custom_app_never_dies(
    endpoint: TokenServer, worker: ShopifyStorefront
) -> None:
    endpoint.connect(lasts=None)
    endpoint.clock.sleep(400 * 86_400)
    assert not worker.needs_token()
    assert worker.details().locations == {}


def test_a_custom_token_that_is_refused_is_kept_and_tried_again(
    endpoint: TokenServer, worker: ShopifyStorefront
) -> None:
    endpoint.connect(lasts=None)
    endpoint.access = "revoked-and-replaced"
    with pytest.raises(UnauthorizedError, match="headway connect") as raised:
        worker.details()
    assert "access-0000" not in str(raised.value)
    with contextlib.closing(endpoint.worker()) as other:
        assert not other.needs_token()
        with pytest.raises(UnauthorizedError, match="refuses the access token"):
            other.details()
        endpoint.access = "access-0000"
        assert other.details().locations == {}


def test_a_token_is_refreshed_shortly_before_it_dies(
    endpoint: TokenServer, worker: ShopifyStorefront
) -> None:
    endpoint.connect()
    endpoint.clock.sleep(3600 - 121)
    assert not worker.needs_token()
    endpoint.clock.sleep(2)
    assert worker.needs_token()
    assert worker.details().locations == {}, "until then it still serves"
    assert worker.refresh_token(send_by_s=endpoint.clock.monotonic() + 60)
    assert not worker.needs_token()
    assert worker.details().locations == {}
    assert endpoint.forms == [
        {
            "client_id": ["app-1"],
            "client_secret": ["hush-app-secret"],
            "grant_type": ["refresh_token"],
            "refresh_token": ["refresh-0000"],
        }
    ]
    assert endpoint.stored() == {"access": "access-0001", "refresh": "refresh-0001"}


def test_a_refused_token_is_fetched_again_once_for_all_workers(endpoint: TokenServer) -> None:
    endpoint.connect()
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(contextlib.closing(endpoint.worker())) for _ in range(4)]
        for client in workers:
            client.details()
        endpoint.access = "revoked-and-replaced"
        for client in workers[:3]:
            with pytest.raises(UnauthorizedError, match="another is fetched"):
                client.details()
        assert workers[1].needs_token()
        assert workers[1].refresh_token()
        # A latecomer still sends the dead one, and must not kill the new one by that; nor is it
        # refused for good, which would disconnect the seller's shop.
        with pytest.raises(TransientError, match="just replaced"):
            workers[3].details()
        for client in workers:
            assert not client.needs_token()
            assert not client.refresh_token()
            assert client.details().locations == {}
    assert endpoint.refreshes == 1


def test_nobody_refreshes_while_another_does_nor_too_late(
    endpoint: TokenServer, worker: ShopifyStorefront
) -> None:
    endpoint.connect(lasts=timedelta(0))
    now = endpoint.clock.now()
    assert not worker.refresh_token(send_by_s=endpoint.clock.monotonic() - 1)
    until = now + timedelta(minutes=1)
    assert endpoint.shelf.begin_refresh(SCOPE, owner="another", now=now, lease_until=until)
    assert not worker.refresh_token()
    assert not endpoint.forms
    endpoint.clock.sleep(61)
    assert worker.refresh_token()


def test_the_new_refresh_token_is_kept_before_the_new_access_token(
    endpoint: TokenServer, worker: ShopifyStorefront
) -> None:
    endpoint.connect(lasts=timedelta(0))
    saved = []

    class Shelf(Credentials):
        def save(self, limit_key: str, name: str, **values: object) -> int | None:
            saved.append(name)
            if name == "access":
                raise RuntimeError("the worker dies here")
            return super().save(limit_key, name, **values)  # type: ignore[arg-type]

    worker._api._tokens._token_store = Shelf(endpoint.shelf._pool)
    with pytest.raises(RuntimeError):
        worker.refresh_token()
    assert saved == ["refresh", "access"]
    with contextlib.closing(endpoint.worker()) as other:
        assert other.refresh_token()
        assert other.details().locations == {}


def test_a_lost_reply_is_asked_for_again_with_the_same_token(
    endpoint: TokenServer, worker: ShopifyStorefront
) -> None:
    endpoint.connect(lasts=timedelta(0))
    for spoil, error in (
        (SimReply(outcome="drop"), TimedOutError),
        (SimReply(status=503), TransientError),
        (SimReply(status=429, headers={"Retry-After": "5"}), ThrottledError),
        (SimReply(body=b"<html>"), UnreadableError),
        (json_reply({"access_token": "has spaces in it"}), UnreadableError),
        (json_reply({"access_token": "fine", "refresh_token": 5}), UnreadableError),
    ):
        endpoint.spoil = spoil
        with pytest.raises(error) as raised:
            worker.refresh_token()
        assert "hush" not in str(raised.value)
        assert worker.needs_token()
    endpoint.spoil = None
    assert worker.refresh_token()


@pytest.mark.parametrize("status", (400, 401))
def test_a_refused_refresh_is_tried_again_until_the_connection_ends(
    endpoint: TokenServer, worker: ShopifyStorefront, status: int
) -> None:
    endpoint.connect(lasts=timedelta(0))
    endpoint.spoil = json_reply({"error": "invalid_grant"}, status=status)
    with pytest.raises(UnauthorizedError, match="headway connect"):
        worker.refresh_token()
    assert worker.needs_token(), "one refusal may be a mistake"
    endpoint.spoil = None
    assert worker.refresh_token()
    assert worker.details().locations == {}


@pytest.mark.parametrize("error", ("invalid_request", "application_cannot_be_found"))
def test_a_wrong_app_secret_is_ours_to_mend_and_costs_no_grant(
    endpoint: TokenServer, worker: ShopifyStorefront, error: str
) -> None:
    endpoint.connect(lasts=timedelta(0))
    endpoint.spoil = json_reply({"error": error}, status=400)
    with pytest.raises(AppRefusedError, match="HEADWAY_SHOPIFY_CLIENT_ID"):
        worker.refresh_token()
    endpoint.spoil = None
    assert worker.refresh_token()


def test_without_an_app_no_refresh_is_sent(endpoint: TokenServer) -> None:
    endpoint.connect(lasts=timedelta(0))
    nameless = ShopAccess(client_id="app-1")
    refused = pytest.raises(AppRefusedError, match="HEADWAY_SHOPIFY_CLIENT_SECRET")
    with contextlib.closing(endpoint.worker(nameless)) as worker, refused:
        worker.refresh_token()
    assert not endpoint.forms


def test_connecting_with_a_token_that_stays_forgets_the_old_refresh_token(
    endpoint: TokenServer, worker: ShopifyStorefront
) -> None:
    endpoint.connect()
    endpoint.connect(lasts=None)
    endpoint.access = "revoked"
    with pytest.raises(UnauthorizedError, match="headway connect"):
        worker.details()
    assert not worker.needs_token()


def test_an_access_token_that_can_be_refreshed_lives_an_hour_unless_it_says_otherwise(
    endpoint: TokenServer, worker: ShopifyStorefront
) -> None:
    store_tokens(
        endpoint.shelf,
        VAULT,
        SCOPE,
        clock=endpoint.clock,
        access=endpoint.access,
        refresh=endpoint.refresh,
    )
    endpoint.clock.sleep(3700)
    assert worker.needs_token()


def test_tokens_are_stored_encrypted_and_what_no_header_carries_is_refused(
    endpoint: TokenServer,
) -> None:
    endpoint.connect()
    for row in endpoint.shelf.load(SCOPE):
        assert b"access-0000" not in row.secret
        assert b"refresh-0000" not in row.secret
    for bad in ("", " padded", "new\nline", "nul\0", "schlüssel"):
        with pytest.raises(InvalidError, match="access token") as raised:
            store_tokens(endpoint.shelf, VAULT, SCOPE, clock=endpoint.clock, access=bad)
        assert not bad or bad not in str(raised.value)
    now = endpoint.clock.now()
    until = now + timedelta(minutes=1)
    assert endpoint.shelf.begin_refresh(SCOPE, owner="another", now=now, lease_until=until)
    with pytest.raises(ConflictError, match="try again"):
        endpoint.connect()


def test_a_life_that_is_absurd_or_absent_is_brought_to_reason(clock: VirtualClock) -> None:
    now = clock.now()

    def life(lifetime: object) -> timedelta:
        body = {"access_token": "a", "expires_in": lifetime}
        return read_grant(json.dumps(body).encode(), now, provider="shopify").access_until - now

    assert life(3600) == timedelta(hours=1)
    assert life(1) == timedelta(minutes=5)
    assert life(10**30) == timedelta(days=366)
    for nonsense in (None, "soon", True, -1, 0, [], float("nan")):
        assert life(nonsense) == timedelta(hours=1)


@pytest.mark.parametrize("domain", ("", "a/b", "a b", "a?b", "x@y", "évil.example", "a\n"))
def test_a_name_that_is_no_shop_is_refused(domain: str) -> None:
    odd = Shop(id="1", user_id=SellerId("s"), domain=domain)
    with pytest.raises(ConfigError, match="no shop"):
        ShopifyStorefront(odd, access=ShopAccess(), token_store=None, vault=None, clock=None)


@pytest.mark.parametrize("url", ("", "shop", "ftp://{shop}", "http://", "http://["))
def test_a_bad_address_is_explained_in_one_line(url: str) -> None:
    with pytest.raises(ConfigError, match="HEADWAY_SHOPIFY_URL"):
        ShopifyStorefront(
            SHOP, url=url, access=ShopAccess(), token_store=None, vault=None, clock=None
        )
