"""A shop's own app: its id and secret return access tokens, each for about a day."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlencode

import pytest

from headway.core.catalog.listings import SellerId
from headway.core.catalog.storefront import Shop
from headway.errors import InvalidError, UnauthorizedError
from headway.providers.shopify.storefront import ShopAccess, ShopifyStorefront, shop_limit_key
from headway.providers.tokens import ACCESS, CLIENT, AppClient, store_client, store_tokens
from headway.providers.vault import Vault
from headway_lab.conformance.token_store import MemoryTokenStore
from headway_lab.simulators.shopify.apps import OwnApp
from headway_lab.simulators.shopify.shop import SCOPES, ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

Ask = Callable[..., tuple[int, bytes]]
DOMAIN = "one.myshopify.com"
KEY = shop_limit_key("", DOMAIN)
VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
APP = OwnApp(client_secret="hush-own-secret")
CREDENTIALS = AppClient(client_id=APP.client_id, client_secret=APP.client_secret)
DAY = timedelta(seconds=APP.life_s)


class OwnAppShop:
    """A simulated shop with an app of its own, and workers that share a token store."""

    def __init__(self, clock: VirtualClock, app: OwnApp = APP) -> None:
        self.clock, self.token_store = clock, MemoryTokenStore()
        setup = ShopSetup(domain=DOMAIN, own_app=app, access_token="")
        self.shops = ShopifySimulator(clock, shops=[setup], delay_s=(0, 0))

    def connect(self, client: AppClient = CREDENTIALS) -> None:
        store_client(self.token_store, VAULT, KEY, client, clock=self.clock)

    def worker(self) -> ShopifyStorefront:
        return ShopifyStorefront(
            Shop(id="1", user_id=SellerId("acme"), domain=DOMAIN),
            url="https://shop.test/{shop}",
            access=ShopAccess(),
            token_store=self.token_store,
            vault=VAULT,
            clock=self.clock,
            transport=SimTransport(self.shops.handle, self.clock),
        )

    def stored(self) -> dict[str, str]:
        tokens = self.token_store.load(KEY)
        return {token.name: VAULT.decrypt(token.secret) for token in tokens}


@pytest.fixture
def own(clock: VirtualClock) -> OwnAppShop:
    return OwnAppShop(clock)


@pytest.fixture
def worker(own: OwnAppShop) -> Iterator[ShopifyStorefront]:
    own.connect()
    with contextlib.closing(own.worker()) as made:
        yield made


def test_a_token_is_fetched_with_client_id_and_secret(
    own: OwnAppShop, worker: ShopifyStorefront
) -> None:
    assert worker.needs_token()
    assert worker.refresh_token()
    assert worker.details().scopes == tuple(sorted(SCOPES))
    assert own.stored()[CLIENT] == f"{APP.client_id}:{APP.client_secret}"
    assert own.stored()[ACCESS].startswith("shpat_")


def test_the_token_is_renewed_before_its_day_is_over(
    clock: VirtualClock, own: OwnAppShop, worker: ShopifyStorefront
) -> None:
    worker.refresh_token()
    first = own.stored()[ACCESS]
    clock.sleep((DAY - timedelta(minutes=5)).total_seconds())
    assert not worker.needs_token()
    clock.sleep(timedelta(minutes=4).total_seconds())
    assert worker.needs_token()
    assert worker.details().locations, "until then the old one still works"
    assert worker.refresh_token()
    assert own.stored()[ACCESS] != first
    clock.sleep(timedelta(minutes=10).total_seconds())
    assert worker.details().locations


def test_one_worker_fetches_the_token_for_all(own: OwnAppShop) -> None:
    own.connect()
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(contextlib.closing(own.worker())) for _ in range(4)]
        assert all(worker.needs_token() for worker in workers)
        assert [worker.refresh_token() for worker in workers] == [True, False, False, False]
        assert not any(worker.needs_token() for worker in workers)
    assert own.shops.requests == 1


def test_a_token_that_is_revoked_is_replaced(own: OwnAppShop, worker: ShopifyStorefront) -> None:
    worker.refresh_token()
    own.shops.tokens(DOMAIN).revoke()
    with pytest.raises(UnauthorizedError, match="another is fetched"):
        worker.details()
    assert worker.refresh_token()
    assert worker.details().locations


@pytest.mark.parametrize(
    ("app", "client", "words"),
    (
        (APP, replace(CREDENTIALS, client_secret="hush-wrong"), "client id or secret; copy both"),
        (APP, replace(CREDENTIALS, client_id="nobody"), "client id or secret; copy both"),
        (replace(APP, is_installed=False), CREDENTIALS, "not installed in this shop; install it"),
        (replace(APP, is_in_organization=False), CREDENTIALS, "different organizations"),
    ),
)
def test_a_refused_app_is_explained_without_its_secret(
    clock: VirtualClock, app: OwnApp, client: AppClient, words: str
) -> None:
    own = OwnAppShop(clock, app)
    own.connect(client)
    with (
        contextlib.closing(own.worker()) as worker,
        pytest.raises(UnauthorizedError, match=words) as raised,
    ):
        worker.refresh_token()
    assert "hush" not in str(raised.value) + repr(client) + repr(worker)
    assert own.stored()[CLIENT] == client.text, "a wrong answer costs nobody the app"


def test_an_entered_token_that_ends_after_a_day_says_how_to_go_on(
    clock: VirtualClock, own: OwnAppShop, worker: ShopifyStorefront
) -> None:
    worker.refresh_token()
    token = own.stored()[ACCESS]
    store_tokens(own.token_store, VAULT, KEY, clock=clock, access=token)
    assert APP.client_secret not in "".join(own.stored().values()), "the app is forgotten"
    with contextlib.closing(own.worker()) as entered:
        assert entered.details().locations
        clock.sleep(DAY.total_seconds())
        expected = "this token has expired or was revoked; connect with client id and secret"
        with pytest.raises(UnauthorizedError, match=expected):
            entered.details()
        assert not entered.needs_token()


def test_the_app_replaces_a_token_that_was_entered(own: OwnAppShop) -> None:
    store_tokens(own.token_store, VAULT, KEY, clock=own.clock, access="old", refresh="older")
    own.connect()
    assert not {"old", "older"} & set(own.stored().values())
    with contextlib.closing(own.worker()) as worker:
        assert worker.refresh_token()
        assert worker.details().locations


@pytest.mark.parametrize(
    "client",
    (
        AppClient(client_id="a b", client_secret="x"),
        AppClient(client_id="a:b", client_secret="x"),
        AppClient(client_id="a", client_secret=""),
    ),
)
def test_an_unusable_id_or_secret_is_refused(own: OwnAppShop, client: AppClient) -> None:
    with pytest.raises(InvalidError, match="client_id"):
        own.connect(client)
    assert own.stored() == {}


@pytest.fixture
def ask(own: OwnAppShop) -> Ask:
    """Send a token request as any HTTP client would."""

    def send(*, accept: str = "*/*", **form: str) -> tuple[int, bytes]:
        sent = {
            "grant_type": "client_credentials",
            "client_id": APP.client_id,
            "client_secret": APP.client_secret,
            **form,
        }
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": accept}
        path = f"/{DOMAIN}/admin/oauth/access_token"
        reply = own.shops.handle("POST", path, headers, urlencode(sent).encode())
        return reply.status, reply.body

    return send


def test_the_simulated_shopify_issues_a_token_for_a_day(
    ask: Callable[..., tuple[int, bytes]],
) -> None:
    status, body = ask()
    reply = json.loads(body)
    assert (status, reply["expires_in"], reply["scope"]) == (200, 86_399, ",".join(SCOPES))
    assert set(reply) == {"access_token", "expires_in", "scope"}


@pytest.mark.parametrize(
    ("form", "error"),
    (
        ({"client_secret": "wrong"}, "invalid_request"),
        ({"client_id": "wrong"}, "application_cannot_be_found"),
        ({"client_id": "sim-app", "client_secret": "sim-app-secret"}, "shop_not_permitted"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
    ),
)
def test_the_simulated_shopify_answers_errors_as_pages_unless_json_is_accepted(
    ask: Ask, form: dict[str, str], error: str
) -> None:
    status, page = ask(**form)
    assert (status, page.startswith(b"<!DOCTYPE html>"), error.encode() in page) == (
        400,
        True,
        True,
    )
    status, body = ask(accept="application/json", **form)
    assert (status, json.loads(body)["error"]) == (400, error)
