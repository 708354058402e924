"""The demo's world in virtual time: its simulated past, and the people in its shops."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from pydantic import SecretStr
from tests.conftest import START, fresh_database
from tests.engine.rehearsal_setup import foretold, written

from headway.app import App, build
from headway.app.rules import LEASE_MARGIN
from headway.cli.speed import at_speed, dispatch_at_speed
from headway.config import Settings
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId, Sku, Wait
from headway.core.catalog.rehearsal import RehearsedOutcome
from headway.engine.dispatch import DispatchRule
from headway.operations.callers import operator
from headway.operations.rehearsals import StartBody, rehearsal, start
from headway.operations.status import look
from headway.providers.registry import platform_role
from headway.runners.embedded import Step
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.demo.accounts import ACCOUNT_SETTINGS, ETSY_DAY, TIERS, platform_transport
from headway_lab.demo.shops import SELLERS, DemoPeople, domain_of
from headway_lab.demo.world import (
    NEWCOMERS,
    PUBLISHED_BEFORE,
    DemoWorld,
    open_world,
    past_settings,
    simulate_past,
)
from headway_lab.platforms import ETSY, PLATFORMS, PRINTIFY, SHOPIFY
from headway_lab.simulators.boeing import SignIn
from headway_lab.simulators.shopify.shop import ShopScreen
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

PRODUCTS = 60
SIGN_IN = SignIn()
SECRETS = {
    SHOPIFY: "shopify_client_secret",
    ETSY: "etsy_webhook_secret",
    PRINTIFY: "printify_webhook_secret",
}
OUTCOMES = {
    RehearsedOutcome.WRITE,
    RehearsedOutcome.CREATE,
    RehearsedOutcome.SAME,
    RehearsedOutcome.HELD,
}
CARRIED = {"weight", "origin", "tariff_code", "tags"}
FIELDS = {"create", "price", "cost", "stock", "publish"} | CARRIED
STATES = """
SELECT user_id, sku, desired, applied, proposed ->> 'price' FROM listing_state
WHERE applied IS NOT NULL
"""


@dataclass
class DemoRun:
    app: App
    demo_world: DemoWorld
    clock: VirtualClock
    shares: list[float]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.app.pool.connection() as connection:
            return connection.execute(sql).fetchall()

    def step(self, step: Step, span: timedelta) -> None:
        """Do steps of the engine for a time."""
        until = self.clock.now() + span
        while self.clock.now() < until:
            result = step()
            if isinstance(result, Wait):
                self.clock.sleep(max(0.0, (result.until - self.clock.now()).total_seconds()))

    def shown(self, seller: SellerId, sku: Sku) -> ShopScreen:
        view = self.demo_world.demo_shops.shops.shown(domain_of(seller), sku)
        assert view is not None
        return view


def opened(
    pool: ConnectionPool, clock: VirtualClock, folder: Path, *, rehearses: bool = False
) -> DemoRun:
    """Open the world, which has no past yet."""
    settings = Settings(
        data_dir=folder,
        boeing_url="http://supplier.test",
        boeing_client_id=SIGN_IN.client_id,
        boeing_client_secret=SecretStr(SIGN_IN.client_secret),
        boeing_username=SIGN_IN.username,
        boeing_password=SecretStr(SIGN_IN.password),
        shopify_url="http://shop.test/{shop}",
        drift_check_h=1,
    ).model_copy(update=ACCOUNT_SETTINGS)
    demo_world = open_world(
        clock,
        settings,
        products=PRODUCTS,
        seed=1,
        sign_in=SIGN_IN,
        speed=60,
        rehearses=rehearses,
    )
    app = build(
        past_settings(settings, products=PRODUCTS),
        clock,
        pool,
        transport=SimTransport(demo_world.supplier.handle, clock),
        shop_transport=SimTransport(demo_world.demo_shops.shops.handle, clock),
        platform_transport=platform_transport(demo_world.market, clock, seed=1),
    )
    return DemoRun(app=app, demo_world=demo_world, clock=clock, shares=[])


def simulated_past(pool: ConnectionPool, clock: VirtualClock, folder: Path) -> DemoRun:
    """Open the world and simulate its past."""
    demo_run = opened(pool, clock, folder)
    simulate_past(demo_run.demo_world, clock, demo_run.app, progress=demo_run.shares.append)
    return demo_run


@pytest.fixture(scope="module")
def past(postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoRun]:
    """Yield a past for tests that only read it: simulating one takes long."""
    with fresh_database(postgres) as dsn, open_pool(dsn) as pool:
        yield simulated_past(pool, VirtualClock(START), tmp_path_factory.mktemp("past"))


@pytest.fixture(scope="module")
def demo_run(
    postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DemoRun]:
    """Yield another past, from which each test continues, in any order."""
    with fresh_database(postgres) as dsn, open_pool(dsn) as pool:
        yield simulated_past(pool, VirtualClock(START), tmp_path_factory.mktemp("play"))


def test_the_past_leaves_every_shop_as_it_should_be_and_no_limit_was_exceeded(
    past: DemoRun,
) -> None:
    shops = past.demo_world.demo_shops.shops
    states = past.rows(STATES)
    assert len(states) > PRODUCTS
    for user_id, sku, desired, applied, proposed in states:
        shown = past.shown(user_id, sku)
        assert desired == applied
        assert shown.price == Decimal(desired["price"]) != Decimal(proposed or 0)
        assert shown.quantities == desired["quantities"]
    assert shops.double_writes() == []
    assert (shops.refusals, past.demo_world.supplier.refusals) == (0, 0)
    assert past.shares == sorted(past.shares)


def test_in_the_past_parts_were_published_and_a_wrong_price_was_held(past: DemoRun) -> None:
    staged = dict(past.rows("SELECT status, count(*) FROM product_staging GROUP BY 1"))
    assert staged.keys() <= {"published", "blocked"}
    assert sum(staged.values()) == PUBLISHED_BEFORE
    assert staged["published"] > 0
    held = past.rows("SELECT held_reason FROM listing_state WHERE proposed IS NOT NULL")
    assert any("the price would fall by 95.0 %" in reason for (reason,) in held)


def test_in_the_past_a_change_was_in_the_shop_seconds_after_it_was_seen(past: DemoRun) -> None:
    written = look(past.app).storefront.written
    assert written.count > 0
    assert written.p95_s is not None
    assert written.p95_s < 10


def test_the_past_of_an_eager_policy_costs_a_tenth_of_its_calls(past: DemoRun) -> None:
    assert past.app.policy.is_eager
    ((calls,),) = past.rows("SELECT count(*) FROM call_ledger WHERE seats_paid > 0")
    assert 300 < calls < 450, "thirty hours are 3,600 permits"


@pytest.mark.parametrize(
    ("products", "allowed", "share"),
    ((500, 1.0, 0.1), (500, 0.05, 0.05), (9600, 1.0, 0.5), (28_800, 1.0, 1.0)),
)
def test_in_the_past_every_part_is_read_within_a_day_and_the_budget_share_is_kept(
    products: int, allowed: float, share: float
) -> None:
    past = past_settings(Settings(budget_share=allowed), products=products)
    assert past.budget_share == pytest.approx(share)


def test_edits_of_people_in_the_shops_are_noticed_and_repaired(demo_run: DemoRun) -> None:
    demo_shops, app = (
        demo_run.demo_world.demo_shops,
        replace(demo_run.app, shop_restore_per_s=1000 / 60),
    )
    people, push = DemoPeople(app, demo_shops, seed=1), app.push("test")
    until = demo_run.clock.now() + timedelta(hours=2)
    while demo_run.clock.now() < until:
        wait = people.step()
        demo_run.clock.sleep((wait.until - demo_run.clock.now()).total_seconds())
    assert any(
        demo_run.shown(user_id, sku).quantities != applied["quantities"]
        for user_id, sku, _, applied, _ in demo_run.rows(STATES)
    ), "customers bought"
    staged = demo_run.rows("SELECT count(*) FROM product_staging")[0][0]
    assert staged == NEWCOMERS - len(demo_shops.newcomers) > PUBLISHED_BEFORE
    demo_run.step(push.step, timedelta(hours=2))
    assert demo_run.rows("SELECT FROM sync_audit_log WHERE event_type = 'drift_found'")
    for user_id, sku, desired, _, _ in demo_run.rows(STATES):
        assert demo_run.shown(user_id, sku).price == Decimal(desired["price"])


def test_in_the_demos_rehearsal_the_report_is_what_is_written_then_listing_by_listing(
    pool: ConnectionPool, tmp_path: Path
) -> None:
    demo_run = opened(pool, VirtualClock(START), tmp_path, rehearses=True)
    demo_shops, app = demo_run.demo_world.demo_shops, demo_run.app
    caller, shops = operator(app, "ann"), demo_shops.shops
    demo_shops.set_up(app)
    demo_shops.publish(app, PUBLISHED_BEFORE)
    demo_run.step(app.fetch("test").step, timedelta(hours=2))
    demo_run.step(app.push("test").step, timedelta(minutes=5))
    assert shops.effects == []
    reports = [rehearsal(caller, seller, limit=PRODUCTS) for seller in SELLERS]
    for report in reports:
        assert report.blocks == ()
        start(caller, report.seller, StartBody(version=report.version, reason="checked"))
    demo_run.step(app.push("test").step, timedelta(minutes=5))
    for report in reports:
        assert Counter(written(shops, report.shop)) == Counter(foretold(report))
    assert {row.outcome for report in reports for row in report.items} == OUTCOMES
    assert {field for report in reports for field in report.summary.fields} == FIELDS
    assert shops.double_writes() == []


def test_at_speed_real_work_gets_real_time(past: DemoRun) -> None:
    app = at_speed(past.app, 60)
    assert app.shop_restore_per_s == past.demo_world.demo_shops.restore_per_s
    assert app.push_rule.lease == past.app.push_rule.lease + 59 * LEASE_MARGIN
    assert app.push_rule.poll == timedelta(seconds=15)
    slow = at_speed(past.app, 0.5)
    assert slow.push_rule == past.app.push_rule
    assert dispatch_at_speed(DispatchRule(), 60).life == timedelta(minutes=15)


def test_every_seller_has_a_share_of_the_parts(past: DemoRun) -> None:
    owners = [seller for seller, _, _ in past.demo_world.demo_shops.sold]
    assert {owners.count(seller) for seller in SELLERS} == {PRODUCTS // 3}


def test_in_the_past_etsy_was_pulled_within_its_day_and_nothing_is_missing(past: DemoRun) -> None:
    market = past.demo_world.market
    assert market.etsy.log.refusals == {}
    assert 50 < market.etsy.log.calls_max_day <= ETSY_DAY
    (budget,) = look(past.app).accounts.budgets
    assert budget.used == market.etsy.log.calls
    for seller in SELLERS:
        number = market.names[seller, ETSY]
        truth = market.etsy.truth(int(number))["orders"]
        rows = past.rows(
            "SELECT count(*) FROM orders JOIN connected_accounts AS account"
            f" ON account.id = account_id WHERE shop = '{number}'"
        )
        # Sales since the last poll are still to come.
        assert 0 <= len(truth) - rows[0][0] <= 5


def test_three_sellers_of_three_tiers_have_shops_on_all_platforms(past: DemoRun) -> None:
    lane = look(past.app).accounts
    assert {account.seller: account.tier for account in lane.accounts} == TIERS
    assert len(lane.accounts) == 9
    assert all(account.is_connected for account in lane.accounts)
    assert lane.dead == ()


def test_platforms_send_webhooks_for_orders_and_each_delivery_is_taken_once(
    demo_run: DemoRun,
) -> None:
    outcomes = []

    def send(platform: PlatformName, headers: Mapping[str, str], body: bytes) -> None:
        lowered, now = (
            {name.lower(): value for name, value in headers.items()},
            demo_run.clock.now(),
        )
        secret = ACCOUNT_SETTINGS[SECRETS[platform]]
        assert isinstance(secret, SecretStr)
        role = platform_role(platform).webhooks
        assert role is not None
        assert role.verify(secret.get_secret_value(), lowered, body, now)
        outcomes.append(
            (platform, demo_run.app.webhooks.take(role.read(platform, lowered, body), now=now))
        )

    demo_run.demo_world.trade.send_webhooks_with(send, demo_run.clock)
    before = len(demo_run.rows("SELECT FROM webhook_deliveries"))
    demo_run.clock.run(demo_run.clock.monotonic() + 6 * 3600)
    assert {platform for platform, _ in outcomes} == set(PLATFORMS)
    assert len(demo_run.rows("SELECT FROM webhook_deliveries")) - before == len(outcomes)


def test_a_demo_of_accounts_alone_has_a_past_without_a_supplier(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    run = opened(pool, clock, tmp_path)
    settings = run.app.settings.model_copy(update={"boeing_client_id": "", "boeing_username": ""})
    for name in ("boeing_client_secret", "boeing_password"):
        settings = settings.model_copy(update={name: SecretStr("")})
    app = replace(run.app, settings=settings)
    simulate_past(run.demo_world, clock, app, progress=run.shares.append, lanes=("account",))
    overview = look(app)
    assert overview.is_accounts_only
    assert overview.accounts.accounts_count == 3 * len(SELLERS)
    with pool.connection() as connection:
        ((orders, listed),) = connection.execute(
            "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM product)"
        ).fetchall()
    assert orders > 0
    assert listed == 0
    assert run.demo_world.supplier.refusals == 0
