"""A pull over the real connectors and simulators, with rows that make every reply fail."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg_pool import ConnectionPool
from tests.engine.pull_setup import Pulls, make_pulls
from tests.store.accounts.job_fixtures import MINUTE, RULE

from headway.core.accounts.jobs import Account, Job, JobType
from headway.core.accounts.pagination import Paginator
from headway.core.catalog.listings import Wait
from headway.core.limits.transitions import Bucket, Quota, Resource
from headway.engine.ports import Platform
from headway.engine.pull import Pull
from headway.engine.rules import PullRule
from headway.providers.etsy import pagination as etsy_pagination
from headway.providers.etsy.client import EtsyAccess, EtsyPlatform
from headway.providers.printify import pagination as printify_pagination
from headway.providers.printify.client import PrintifyPlatform
from headway.providers.shopify import pagination as shopify_pagination
from headway.providers.shopify.api import ShopAccess
from headway.providers.shopify.limits import shop_limit_key
from headway.providers.shopify.platform import ShopifyPlatform
from headway.providers.token_store import token_key
from headway.providers.tokens import store_tokens
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway.store.accounts.troubles import AccountTroubles
from headway.store.limits.error_share import ErrorShare
from headway_lab.platforms import ETSY, PRINTIFY, SHOPIFY
from headway_lab.simulators.etsy.simulator import EtsySimulator
from headway_lab.simulators.poison import PoisonedServer
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport

VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
PAGINATORS = {
    ETSY: etsy_pagination.paginator_of,
    PRINTIFY: printify_pagination.paginator_of,
    SHOPIFY: shopify_pagination.paginator_of,
}
DOMAIN = "one.myshopify.com"


@dataclass
class Shop:
    """One seller's shop on a simulated platform, its poison, and the worker that reads it."""

    pulls: Pulls
    account_id: str
    simulator: Any
    number: Any
    server: PoisonedServer

    def add_job(self, kind: str, job_type: str = "incremental") -> str:
        return self.pulls.rows.job(self.account_id, kind=kind, job_type=job_type)

    def run(self, hours: float) -> None:
        clock = self.pulls.rows.clock
        until = clock.now() + timedelta(hours=hours)
        while clock.now() < until:
            result = self.pulls.pull.step()
            if isinstance(result, Wait):
                clock.sleep((result.until - clock.now()).total_seconds())

    def job(self, job_id: str, columns: str) -> Any:
        return self.pulls.rows.one(f"SELECT {columns} FROM sync_jobs WHERE id = %s", job_id)

    def ids(self, table: str) -> set[str]:
        return {id_ for (id_,) in self.pulls.rows.ask(f"SELECT external_id FROM {table}")}

    def unreadable(self) -> list[tuple[str, str]]:
        return self.pulls.rows.ask("SELECT external_id, reason FROM unreadable_records")


def make_shop(pool: ConnectionPool, platform: str) -> Shop:
    pulls = make_pulls(pool, rule=RULE)
    clock, tokens = pulls.rows.clock, Credentials(pool)
    account_id = pulls.rows.account("a", platform, "pro")
    simulator: Any
    number: int | str
    if platform == SHOPIFY:
        simulator = ShopifySimulator(clock, shops=[ShopSetup(domain=DOMAIN)], index_lag_s=0)
        number, access, refresh = DOMAIN, "sim-static-token", None
    elif platform == ETSY:
        simulator = EtsySimulator(clock, per_second=1000, lag_s=(0, 0))
        number = simulator.add_shop().owner.shop_id
        pair = simulator.grant(number)
        access, refresh = pair.access, pair.refresh
    else:
        simulator = PrintifySimulator(clock)
        number = simulator.add_shop()
        access, refresh = simulator.personal_token(), None
    pulls.rows.ask("UPDATE connected_accounts SET shop = %s", str(number))
    credential = token_key(platform, str(number))
    if platform == SHOPIFY:
        credential = shop_limit_key("sim-app", DOMAIN)
    store_tokens(tokens, VAULT, credential, clock=clock, access=access, refresh=refresh)
    server = PoisonedServer(simulator.handle)
    transport = SimTransport(server, clock)
    opened: dict[str, Platform] = {}

    def open_platform(account: Account) -> Platform:
        if account.id not in opened:
            opened[account.id] = _connect(account, tokens, clock, transport)
            points = 2000 if platform == SHOPIFY else 50
            bucket = Bucket(capacity=points, rate_per_s=min(points, 100))
            for key in opened[account.id].keys:
                pulls.rows.limiter.know(Resource(key=key, rules=(bucket,)))
            if (day_key := opened[account.id].day_key) is not None:
                quota = Quota(limit=10_000, span_s=86_400)
                pulls.rows.limiter.know(Resource(key=day_key, rules=(quota,)))
        return opened[account.id]

    pulls.pull = _worker(pulls, open_platform)
    return Shop(pulls, account_id, simulator, number, server)


def _connect(account: Account, tokens: Credentials, clock: Any, transport: SimTransport) -> Any:
    common: dict[str, Any] = {
        "url": "http://platform.test" + ("/{shop}" if account.platform == SHOPIFY else ""),
        "token_store": tokens,
        "vault": VAULT,
        "clock": clock,
        "transport": transport,
    }
    if account.platform == ETSY:
        access = EtsyAccess(keystring="sim-keystring", shared_secret="sim-shared-secret")
        return EtsyPlatform(account, access=access, **common)
    if account.platform == SHOPIFY:
        app = ShopAccess(client_id="sim-app", client_secret="sim-app-secret")
        return ShopifyPlatform(account, access=app, **common)
    return PrintifyPlatform(account, **common)


def _worker(pulls: Pulls, open_platform: Callable[[Account], Platform]) -> Pull:
    def paginator_of(job: Job) -> Paginator:
        find = PAGINATORS[job.account.platform]
        return find(job.kind, is_backfill=job.type is JobType.BACKFILL)

    rows = pulls.rows
    return Pull(
        platforms=(ETSY, PRINTIFY, SHOPIFY),
        errors_counted=[PRINTIFY],
        clock=rows.clock,
        limiter=rows.limiter,
        jobs=rows.jobs,
        breakers=pulls.breakers,
        troubles=AccountTroubles(rows.pool),
        errors=ErrorShare(rows.pool),
        open_platform=open_platform,
        paginator_of=paginator_of,
        rule=rows.rule,
        pull_rule=PullRule(poll=MINUTE),
        owner="w",
    )
