"""Connector and walks together against the simulated Etsy: the rows read equal its truth."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import Clock, ScaledClock, rng
from headway.core.accounts.jobs import Account, DataKind
from headway.core.accounts.pagination import Cursor, Page, PageRequest
from headway.core.accounts.warehouse import Order, Records
from headway.core.catalog.listings import SellerId
from headway.errors import (
    AppRefusedError,
    ConfigError,
    InvariantError,
    ProviderError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
    UnsentError,
)
from headway.providers.etsy.client import EtsyAccess, EtsyApi, EtsyPlatform, EtsySelf, consent_url
from headway.providers.etsy.pagination import paginator_of
from headway.providers.token_store import token_key
from headway.providers.tokens import store_tokens
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.platforms import ETSY
from headway_lab.simulators.etsy.records import EtsyBuyer
from headway_lab.simulators.etsy.simulator import EtsySimulator
from headway_lab.simulators.faults import FaultPlan, Interval
from headway_lab.simulators.transport import SimTransport, serve
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
ACCESS = EtsyAccess(keystring="sim-keystring", shared_secret="sim-shared-secret")
SHOP = 77
ACCOUNT = Account(id="1", user_id=SellerId("seller"), platform=ETSY, shop=str(SHOP))
RECEIPTS = PageRequest(
    what="receipts",
    values={
        "min_last_modified": 1_700_000_000,
        "sort_on": "updated",
        "sort_order": "asc",
        "limit": 100,
        "offset": 0,
    },
)
PARTS = {"line_items": "line_items", "shipments": "shipments", "refunds": "refunds"}


class Rig:
    """A simulated Etsy with one shop, and a connector in front of it."""

    def __init__(self, pool: ConnectionPool, clock: Clock, **options: Any) -> None:
        self.clock = clock
        self.etsy = EtsySimulator(clock, **{"per_second": 1000, **options})
        self.shop = self.etsy.add_shop(SHOP, name="Mugs")
        self.shelf = Credentials(pool)
        self.url = "http://etsy.test"
        self.transport: SimTransport | None = SimTransport(self.etsy.handle, clock)
        self.stack = contextlib.ExitStack()
        self.tables: dict[str, dict[Any, dict[str, Any]]] = {}
        self.seen_at: dict[str, datetime] = {}
        self.line_of: dict[str, str | None] = {}
        self.calls = 0

    def connect(self) -> None:
        pair = self.etsy.grant(SHOP)
        store_tokens(
            self.shelf,
            VAULT,
            token_key(ETSY, str(SHOP)),
            clock=self.clock,
            access=pair.access,
            refresh=pair.refresh,
        )

    def connector(self, access: EtsyAccess = ACCESS) -> EtsyPlatform:
        connector = EtsyPlatform(
            ACCOUNT,
            url=self.url,
            access=access,
            token_store=self.shelf,
            vault=VAULT,
            clock=self.clock,
            transport=self.transport,
        )
        self.stack.callback(connector.close)
        return connector

    def pull(
        self, kind: DataKind, cursor: Cursor, *, is_backfill: bool = False, **values: Any
    ) -> Cursor:
        """Run a walk to its end as a worker would, without limits; failed calls are repeated."""
        walk = paginator_of(kind, is_backfill=is_backfill)
        connector = self.connector()
        cursor = walk.begin(cursor, self.clock.now(), values.get("wanted", ()))
        while True:
            if connector.needs_token():
                with contextlib.suppress(TransientError):
                    connector.refresh_token()
            try:
                self.calls += 1
                page = connector.read(walk.ask(cursor))
            except ThrottledError as error:
                self.clock.sleep(error.retry_after_s or 1)
                continue
            except (TransientError, UnauthorizedError):
                continue
            self.keep(page.records)
            step = walk.advance(json.loads(json.dumps(cursor)), page, self.clock.now())
            if step.gone_since is not None:
                self.sweep(step.gone_since)
            if step.is_done:
                return step.cursor
            cursor = step.cursor

    def keep(self, records: Records) -> None:
        assert records.unreadable == ()
        for order in records.orders:
            self.keep_order(order)
        for kind in ("listings", "payments", "customers"):
            for record in getattr(records, kind):
                row = asdict(record)
                key = row.pop("external_id")
                rows = self.tables.setdefault(kind, {})
                if kind == "payments":
                    self.line_of[key] = row.pop("line_item_id")
                    row["order_id"] = row["order_id"] or rows.get(key, row)["order_id"]
                old = rows.get(key, {}).get("modified_at")
                if kind != "customers" or old is None or row["modified_at"] >= old:
                    rows[key] = row
                if kind == "listings":
                    self.seen_at[key] = self.clock.now()

        for link in records.payment_orders:
            self.tables["payments"][link.external_id]["order_id"] = link.order_id

    def keep_order(self, order: Order) -> None:
        row = asdict(order)
        key = row.pop("external_id")
        del row["is_open"]
        for table in PARTS:
            rows = self.tables.setdefault(table, {})
            for old in [row for row in rows if row[0] == key]:
                del rows[old]
            rows |= {(key, part.pop("external_id")): part for part in row.pop(table)}
        self.tables.setdefault("orders", {})[key] = row

    def sweep(self, gone_since: datetime) -> None:
        for key in [key for key, at in self.seen_at.items() if at < gone_since]:
            self.tables["listings"].pop(key, None)

    def held(self) -> dict[str, Any]:
        orders = {line: order for order, line in self.tables.get("line_items", {})}
        for key, row in self.tables.get("payments", {}).items():
            row["order_id"] = row["order_id"] or orders.get(self.line_of[key])
        names = ("orders", *PARTS, "customers", "listings", "payments")
        return {name: self.tables.get(name, {}) for name in names}


@pytest.fixture
def rig(pool: ConnectionPool) -> Iterator[Rig]:
    rig = Rig(pool, VirtualClock(START))
    rig.connect()
    with rig.stack:
        yield rig


@pytest.fixture
def socket_rig(pool: ConnectionPool) -> Iterator[Rig]:
    clock = ScaledClock(10, start=START)
    rig = Rig(pool, clock, delay_s=(0, 0))
    rig.connect()
    with serve(rig.etsy.handle, clock) as server, rig.stack:
        rig.url, rig.transport = server.url, None
        yield rig


def live(rig: Rig, generator: Any, events: int, *, pauses_s: tuple[int, ...] = (0, 1, 40)) -> None:
    """Let things happen in the shop, loud and quiet."""
    for _ in range(events):
        rig.clock.sleep(generator.choice(pauses_s))
        happen(rig, generator, generator.randrange(9))


def happen(rig: Rig, generator: Any, what: int) -> None:
    etsy = rig.etsy
    receipts, listings = list(rig.shop.receipts), list(rig.shop.listings)
    if what == 0 or not receipts:
        etsy.place_order(SHOP)
    elif what == 1 or len(listings) < 3:
        etsy.add_listing(SHOP)
    elif what == 2:
        etsy.ship(SHOP, generator.choice(receipts))
    elif what == 3:
        etsy.cancel(SHOP, generator.choice(receipts))
    elif what == 4:
        etsy.refund(SHOP, generator.choice(receipts), amount=5, reason="chipped")
    elif what == 5:
        etsy.deliver(SHOP, generator.choice(receipts))
    elif what == 6:
        etsy.edit_listing(SHOP, generator.choice(listings), price=generator.randrange(1, 9999))
    elif what == 7:
        state = generator.choice(("active", "draft"))
        etsy.edit_listing(SHOP, generator.choice(listings), state=state)
    else:
        etsy.remove_listing(SHOP, generator.choice(listings))


def pull_all(rig: Rig, cursors: dict[DataKind, Cursor]) -> None:
    for kind in (DataKind.ORDERS, DataKind.LISTINGS, DataKind.PAYMENTS):
        cursors[kind] = rig.pull(kind, cursors.get(kind, {}))


@pytest.mark.parametrize("seed", range(4))
def test_after_some_days_the_rows_read_equal_the_shop(pool: ConnectionPool, seed: int) -> None:
    faults = FaultPlan(seed, rates=dict.fromkeys(("error", "html", "truncate", "timeout"), 0.05))
    rig = Rig(pool, VirtualClock(START), seed=seed, faults=faults, lag_s=(0, 300))
    rig.connect()
    generator = rng(seed)
    for number in range(130):
        rig.etsy.place_order(SHOP, at=START - timedelta(days=3 * number + 3))
    for _ in range(230):
        rig.etsy.add_listing(SHOP)
    cursors: dict[DataKind, Cursor] = {}
    with rig.stack:
        rig.pull(DataKind.ORDERS, {}, is_backfill=True)
        rig.pull(DataKind.PAYMENTS, {}, is_backfill=True)
        for _ in range(6):
            pull_all(rig, cursors)
            live(rig, generator, 40)
            rig.clock.sleep(6 * 3600)
        pull_all(rig, cursors)
        rig.clock.sleep(24 * 3600)
        pull_all(rig, cursors)
    truth = rig.etsy.truth(SHOP)
    # Orders older than the daily look goes back are found by the weekly one, which is the engine's.
    for key, row in truth["orders"].items():
        if row["placed_at"] > START - timedelta(days=40):
            assert rig.tables["orders"][key] == row
    for table in ("customers", "listings", "payments"):
        assert rig.held()[table] == truth[table], table


def test_over_sockets_every_table_equals_the_shop(socket_rig: Rig) -> None:
    rig = socket_rig
    live(rig, rng(1), 30, pauses_s=(0,))
    buyer = EtsyBuyer(id=5, name="Zoë \U0001f600", email=None, country="GB")
    receipt = rig.etsy.place_order(SHOP, buyer=buyer, is_paid=False)
    rig.pull(DataKind.ORDERS, {}, is_backfill=True)
    rig.pull(DataKind.LISTINGS, {})
    now_s = int(rig.clock.now().timestamp())
    window = {"min_created": now_s - 600, "max_created": now_s, "limit": 100, "offset": 0}
    page = rig.connector().read(PageRequest(what="ledger", values=window))
    rig.keep(page.records)
    links = PageRequest(what="payments", values={"links": page.links})
    rig.keep(rig.connector().read(links).records)
    assert rig.held() == rig.etsy.truth(SHOP)
    page = rig.connector().read(PageRequest(what="receipt", values={"receipt_id": str(receipt)}))
    assert page.ids == (str(receipt),)
    assert page.records.customers[0].name == "Zoë \U0001f600"


def test_the_first_runs_of_a_shop_with_130_orders_take_half_the_calls_of_a_fixed_history(
    rig: Rig,
) -> None:
    """All calls are taken from the day that all sellers share; a history of two years took 39."""
    for _ in range(130):
        rig.clock.sleep(7200)
        rig.etsy.place_order(SHOP)
    rig.clock.sleep(3600)
    for kind in (DataKind.ORDERS, DataKind.PAYMENTS):
        rig.pull(kind, {}, is_backfill=True)
    for kind in (DataKind.ORDERS, DataKind.LISTINGS, DataKind.PAYMENTS):
        rig.pull(kind, {})
    assert rig.calls <= 19
    assert len(rig.tables["orders"]) == 130
    assert rig.held()["payments"] == rig.etsy.truth(SHOP)["payments"]


def test_a_wanted_receipt_that_is_not_there_is_missing(rig: Rig) -> None:
    connector = rig.connector()
    for wrong in ("999", "../../shops", "", "0"):
        ask = PageRequest(what="receipt", values={"receipt_id": wrong})
        assert connector.read(ask) == Page(missing=(wrong,))
    assert rig.etsy.log.endpoints == {"receipt": 1}


def test_every_reply_teaches_the_limits(rig: Rig) -> None:
    connector = rig.connector()
    rig.etsy.meter.per_day, rig.etsy.meter.per_second = 5000, 20
    connector.read(RECEIPTS)
    day, second = (
        connector.observations["etsy:sim-keystring"],
        connector.observations["etsy:sim-keystring:second"],
    )
    assert (day.used, day.capacity, day.restore_per_s) == (1, 5000, None)
    assert (second.used, second.capacity, second.restore_per_s) == (1, 2, 17)
    assert connector.keys == ("etsy:sim-keystring:second",)
    assert connector.day_key == "etsy:sim-keystring"
    assert (connector.cost, connector.price(RECEIPTS)) == (None, 1)


def test_over_its_day_etsy_says_how_long_to_wait_and_over_a_second_it_does_not(rig: Rig) -> None:
    connector = rig.connector()
    rig.etsy.meter.per_day = 1
    connector.read(RECEIPTS)
    with pytest.raises(ThrottledError, match="Exceeded daily") as caught:
        connector.read(RECEIPTS)
    assert caught.value.retry_after_s == 86_400
    assert connector.observations["etsy:sim-keystring"].used == 1
    rig.etsy.meter.per_day, rig.etsy.meter.per_second = 100, 1
    rig.transport = SimTransport(rig.etsy.handle, rig.clock, network_s=(0, 0))
    rig.etsy._delay_s = (0.0, 0.0)
    connector = rig.connector()
    rig.clock.sleep(2)
    connector.read(RECEIPTS)
    with pytest.raises(ThrottledError, match="per second") as caught:
        connector.read(RECEIPTS)
    assert caught.value.retry_after_s is None


def test_a_pair_is_refreshed_in_time_and_the_new_one_is_kept(rig: Rig) -> None:
    connector = rig.connector()
    assert not connector.needs_token()
    rig.clock.sleep(3500)
    assert connector.needs_token()
    assert connector.refresh_token()
    assert not connector.needs_token()
    connector.read(RECEIPTS)
    rig.clock.sleep(3500)
    assert rig.connector().refresh_token()
    assert not connector.needs_token()
    assert not connector.refresh_token()
    assert not rig.connector().refresh_token(send_by_s=-1)
    assert rig.etsy.log.endpoints["token"] == 2


def test_a_refused_token_is_dead_for_all_and_another_is_fetched(rig: Rig) -> None:
    connector = rig.connector()
    rig.etsy.tokens.expire(rig.shop.owner.user_id)
    with pytest.raises(UnauthorizedError, match="another is fetched"):
        connector.read(RECEIPTS)
    assert rig.connector().needs_token()
    assert connector.refresh_token()
    connector.read(RECEIPTS)


def test_a_revoked_grant_needs_the_seller(rig: Rig) -> None:
    connector = rig.connector()
    rig.etsy.tokens.revoke(rig.shop.owner.user_id)
    with pytest.raises(UnauthorizedError):
        connector.read(RECEIPTS)
    with pytest.raises(UnauthorizedError, match="must connect the shop again"):
        connector.refresh_token()
    assert connector.needs_token(), "the refresh token is kept: the refusal may be a mistake"
    with pytest.raises(UnauthorizedError, match="no usable access token"):
        connector.read(RECEIPTS)


@pytest.mark.parametrize("secret", ("wrong", ""))
def test_a_wrong_secret_of_the_app_disconnects_nobody(rig: Rig, secret: str) -> None:
    access = EtsyAccess(keystring="sim-keystring", shared_secret=secret)
    connector = rig.connector(access)
    with pytest.raises(AppRefusedError, match="HEADWAY_ETSY_SHARED_SECRET"):
        connector.read(RECEIPTS)
    rig.clock.sleep(3600)
    with pytest.raises(AppRefusedError, match="HEADWAY_ETSY_SHARED_SECRET"):
        connector.refresh_token()
    assert rig.connector().refresh_token()
    rig.connector().read(RECEIPTS)


def test_a_scope_that_was_not_granted_needs_the_seller(rig: Rig) -> None:
    rig.etsy.grant(SHOP, scopes=["listings_r"])
    connector = rig.connector()
    with pytest.raises(UnauthorizedError, match="it is checked"):
        connector.read(RECEIPTS)
    assert connector.needs_token()
    with pytest.raises(UnauthorizedError, match="did not grant transactions_r"):
        connector.refresh_token()
    assert not connector.needs_token()


def test_a_scope_that_is_called_missing_and_is_not_is_an_outage(rig: Rig) -> None:
    rig.etsy.denies_scopes = True
    connector = rig.connector()
    with pytest.raises(UnauthorizedError, match="it is checked"):
        connector.read(RECEIPTS)
    assert connector.refresh_token()
    for _ in range(2):
        with pytest.raises(TransientError, match="insufficient_scope"):
            connector.read(RECEIPTS)
        assert not connector.needs_token()
    rig.etsy.denies_scopes = False
    connector.read(RECEIPTS)


def test_another_sellers_shop_is_forbidden_and_disconnects_nobody(rig: Rig) -> None:
    other = rig.etsy.add_shop()
    pair = rig.etsy.grant(other.owner.shop_id)
    limit_key = token_key(ETSY, str(SHOP))
    store_tokens(rig.shelf, VAULT, limit_key, clock=rig.clock, access=pair.access)
    with pytest.raises(TransientError, match="forbids this for the shop 77"):
        rig.connector().read(RECEIPTS)


def test_network_failures_raise_different_errors(pool: ConnectionPool) -> None:
    expected: dict[str, type[ProviderError]] = {
        "error": TransientError,
        "html": UnreadableError,
        "truncate": UnreadableError,
        "timeout": TimedOutError,
        "drop": TimedOutError,
    }
    for fault, error in expected.items():
        faults = FaultPlan(1, rates={fault: 1.0})
        rig = Rig(pool, VirtualClock(START), faults=faults)
        rig.connect()
        with rig.stack, pytest.raises(error):
            rig.connector().read(RECEIPTS)
    rig = Rig(pool, VirtualClock(START), faults=FaultPlan(outage=[Interval(start_s=0, end_s=9)]))
    rig.connect()
    with rig.stack:
        for error in (UnsentError, TimedOutError):
            with pytest.raises(error):
                rig.connector().read(RECEIPTS)


def test_a_seller_who_agrees_is_found_with_the_shop(rig: Rig) -> None:
    endpoint = EtsyApi(ACCESS, url=rig.url, clock=rig.clock, transport=rig.transport)
    rig.stack.callback(endpoint.close)
    page = f"{rig.url}/oauth/connect"
    url = consent_url("sim-keystring", "http://here/back", "st8", "challenge", page=page)
    assert url.startswith(f"{page}?response_type=code&client_id=sim-keystring")
    assert "code_challenge_method=S256" in url
    assert "scope=transactions_r+listings_r+shops_r" in url
    user_id = rig.shop.owner.user_id
    # S256 of "verifier".
    challenge = "iMnq5o6zALKXGivsnlom_0F5_WYda32GHkxlV7mq7hQ"
    code = rig.etsy.tokens.consent(
        user_id, rig.etsy.elapsed_s(), redirect="http://here/back", challenge=challenge
    )
    grant = endpoint.exchange_code(code, redirect_uri="http://here/back", verifier="verifier")
    assert grant.refresh is not None
    assert grant.access_until - rig.clock.now() <= timedelta(hours=1)
    assert endpoint.find_self(grant.access) == EtsySelf(user_id=str(user_id), shop_id=str(SHOP))
    assert endpoint.find_title(str(SHOP), grant.access) == "Mugs"
    assert set(endpoint.observations) == {"etsy:sim-keystring", "etsy:sim-keystring:second"}
    with pytest.raises(UnauthorizedError):
        endpoint.exchange_code(code, redirect_uri="http://here/back", verifier="verifier")


def test_what_is_no_shop_and_no_ask_is_refused(rig: Rig) -> None:
    account = Account(id="1", user_id=SellerId("s"), platform=ETSY, shop="../x")
    with pytest.raises(ConfigError, match="no Etsy shop"):
        EtsyPlatform(account, access=ACCESS, token_store=rig.shelf, vault=VAULT, clock=rig.clock)
    with pytest.raises(InvariantError, match="etsy has no carts"):
        rig.connector().read(PageRequest(what="carts"))


def test_no_secret_shows_in_a_repr(rig: Rig) -> None:
    connector = rig.connector()
    shown = f"{connector!r} {connector._api!r} {ACCESS!r}"
    assert "sim-shared-secret" not in shown
