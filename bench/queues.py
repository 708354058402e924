"""Workers of other queues, as their documentation shows them: `python -m bench.queues NAME`.

Celery's task does nothing. Procrastinate's and DBOS's do the least that a push does: claim a row
under a lease and a fence, make one HTTP request with Headway's own body, and settle the row.
"""

import asyncio
import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import procrastinate
import sqlalchemy
from celery import Celery, signals
from dbos import DBOS, DBOSClient, SQLAlchemyDatasource
from psycopg_pool import AsyncConnectionPool

from headway.clock import fresh_id
from headway.core.catalog.listings import Sku
from headway.core.catalog.storefront import Gid, StockWrite
from headway.providers.shopify.api import ShopAccess
from headway.providers.shopify.queries import set_stock

READY = "ready"
HTTP_TIMEOUT_S = 5
CELERY_QUEUE, CELERY_STOCK, CELERY_PREFIX = "calls", "stock", "noop:"
DBOS_QUEUE, DBOS_NAME, DBOS_VERSION = "calls", "bench", "1"
# DBOS takes new work from its queue once in an interval, up to what one process may do at once:
# with the default second and eight at once it would make eight calls a second.
DBOS_POLL_S, DBOS_AT_ONCE = 0.05, 16

MAKE = """
CREATE TABLE push_task (
  shop text PRIMARY KEY, desired integer NOT NULL DEFAULT 0, applied integer NOT NULL DEFAULT 0,
  fence bigint NOT NULL DEFAULT 0, lease_owner text, lease_until timestamptz)
"""
ENTER = "INSERT INTO push_task (shop) SELECT 'shop-' || n FROM generate_series(1, %s) AS n"
CHANGE = """
UPDATE push_task SET desired = desired + 1
WHERE shop IN (SELECT shop FROM push_task ORDER BY shop LIMIT %s) RETURNING shop
"""
WAITING = "SELECT count(*) FROM push_task WHERE applied <> desired OR lease_until IS NOT NULL"
CLAIM = """
UPDATE push_task SET fence = fence + 1, lease_owner = {owner}, lease_until = now() + interval '60 s'
WHERE shop = {shop} AND (lease_until IS NULL OR lease_until < now())
RETURNING desired, fence
"""
SETTLE = """
UPDATE push_task SET applied = {applied}, lease_owner = NULL, lease_until = NULL
WHERE shop = {shop} AND fence = {fence}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The addresses of all services; a worker process gets them from its environment."""

    database: str = field(default="", repr=False)
    valkey: str = field(default="", repr=False)
    provider: str = ""
    concurrency: int = 8

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a worker process."""
        return {"BENCH_PLACE": json.dumps(asdict(self))}


def body_of(shop: str, quantity: int) -> dict[str, Any]:
    """Return the request that Headway sends for one quantity."""
    write = StockWrite(
        sku=Sku(shop),
        item=Gid(f"gid://shopify/InventoryItem/{shop}"),
        location=Gid("gid://shopify/Location/1"),
        quantity=quantity,
        change_from=quantity - 1,
    )
    document = set_stock([write], key=fresh_id())
    return {"query": document.text, "variables": document.variables}


def check(answer: httpx.Response) -> None:
    """Read the reply, as any client must."""
    assert answer.json()["data"]["inventorySetQuantities"]["userErrors"] == []


# -- Celery ------------------------------------------------------------------------------------


def celery_app(place: Place) -> Celery:
    """Make an application whose one task does nothing; its messages are like Headway's."""
    app = Celery("bench", broker=place.valkey, set_as_current=False)
    app.conf.update(
        task_acks_late=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        task_default_queue=CELERY_QUEUE,
        broker_transport_options={"global_keyprefix": CELERY_PREFIX},
    )
    app.task(_nothing, name="nothing")
    return app


def _nothing(shop: str) -> None:
    """Do nothing."""


def _celery(place: Place) -> None:
    signals.worker_ready.connect(lambda **_: print(READY, flush=True), weak=False)
    options = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    pool = ("-P", "threads", "-c", str(place.concurrency), "-Q", CELERY_QUEUE)
    celery_app(place).worker_main(["worker", "-n", f"w{os.getpid()}", *pool, *options])


# -- procrastinate -----------------------------------------------------------------------------


def procrastinate_app(place: Place) -> tuple[procrastinate.App, Any]:
    """Make an application and its one task."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=place.database))
    pool = AsyncConnectionPool(place.database, open=False, max_size=place.concurrency)
    client = httpx.AsyncClient(base_url=place.provider, timeout=HTTP_TIMEOUT_S)
    owner = str(os.getpid())

    @app.task(queue="calls", name="call")
    async def call(shop: str) -> None:
        await pool.open()
        async with pool.connection() as connection:
            claimed = await connection.execute(
                CLAIM.format(owner="%(owner)s", shop="%(shop)s"), {"owner": owner, "shop": shop}
            )
            row = await claimed.fetchone()
        assert row is not None
        target, fence = row
        check(await client.post(ShopAccess().path, json=body_of(shop, target)))
        async with pool.connection() as connection:
            await connection.execute(
                SETTLE.format(applied="%(applied)s", shop="%(shop)s", fence="%(fence)s"),
                {"applied": target, "shop": shop, "fence": fence},
            )

    return app, call


def _procrastinate(place: Place) -> None:
    app, _ = procrastinate_app(place)

    async def work() -> None:
        async with app.open_async():
            print(READY, flush=True)
            await app.run_worker_async(queues=["calls"], concurrency=place.concurrency)

    asyncio.run(work())


# -- DBOS --------------------------------------------------------------------------------------


def dbos_client(place: Place) -> tuple[DBOSClient, sqlalchemy.Engine]:
    """Make what puts work on DBOS's queue, and what makes it visible all at once."""
    address = sqlalchemy.make_url(place.database).set(drivername="postgresql+psycopg")
    return DBOSClient(system_database_url=place.database), sqlalchemy.create_engine(address)


def _dbos(place: Place) -> None:
    config: Any = {
        "name": DBOS_NAME,
        "system_database_url": place.database,
        "application_version": DBOS_VERSION,
        "executor_id": str(os.getpid()),
        "log_level": "WARNING",
    }
    DBOS(config=config)
    source = SQLAlchemyDatasource.create(place.database)
    client = httpx.Client(base_url=place.provider, timeout=HTTP_TIMEOUT_S)
    owner = str(os.getpid())

    @source.transaction(isolation_level="READ COMMITTED")
    def claim(shop: str) -> tuple[int, int]:
        statement = sqlalchemy.text(CLAIM.format(owner=":owner", shop=":shop"))
        row = source.sql_session().execute(statement, {"owner": owner, "shop": shop}).one()
        return row.desired, row.fence

    @DBOS.step()
    def ask(shop: str, quantity: int) -> None:
        check(client.post(ShopAccess().path, json=body_of(shop, quantity)))

    @source.transaction(isolation_level="READ COMMITTED")
    def settle(shop: str, applied: int, fence: int) -> None:
        statement = sqlalchemy.text(SETTLE.format(applied=":applied", shop=":shop", fence=":fence"))
        source.sql_session().execute(statement, {"applied": applied, "shop": shop, "fence": fence})

    @DBOS.workflow(name="call")
    def call(shop: str) -> None:
        target, fence = claim(shop)
        ask(shop, target)
        settle(shop, target, fence)

    DBOS.launch()
    DBOS.register_queue(
        DBOS_QUEUE, worker_concurrency=DBOS_AT_ONCE, polling_interval_sec=DBOS_POLL_S
    )
    print(READY, flush=True)
    threading.Event().wait()


WORKERS: dict[str, Callable[[Place], None]] = {
    "celery": _celery,
    "procrastinate": _procrastinate,
    "dbos": _dbos,
}

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    WORKERS[sys.argv[1]](Place(**json.loads(os.environ["BENCH_PLACE"])))
