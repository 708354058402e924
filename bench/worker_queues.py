"""The queues that `bench.scale` compares: how their workers start, and how they get work."""

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg_pool import ConnectionPool

from bench.answering_server import ProviderServer
from bench.many_shops import ManyShops, open_shops
from bench.queues import (
    CELERY_PREFIX,
    CELERY_QUEUE,
    CELERY_STOCK,
    CHANGE,
    DBOS_QUEUE,
    DBOS_VERSION,
    ENTER,
    MAKE,
    READY,
    WAITING,
    Place,
    celery_app,
    dbos_client,
    procrastinate_app,
)
from bench.services import migrated
from headway.runners.child_command import own_command
from headway.runners.valkey import EmbeddedValkey
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer

CONCURRENCY = 8
OURS, NOTHING = "headway worker", "celery, does nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that all queues use."""

    folder: Path
    server: EmbeddedServer
    valkey: EmbeddedValkey
    provider: ProviderServer
    shops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerQueue:
    """One queue with its workers: how they start, get work, and are done."""

    name: str
    command: Sequence[str]
    environ: Mapping[str, str] = field(repr=False)
    ready: str
    # Makes that many calls due at once, and returns a function that counts the unsettled ones.
    release: Callable[[int], Callable[[], int]]
    clear: Callable[[], None] = lambda: None
    makes_calls: bool = True


def headway(services: Services, stack: ExitStack) -> WorkerQueue:
    """Return Headway's own workers, which write to shops."""
    database = migrated(services.server, "headway")
    pool = stack.enter_context(open_pool(database, size=2))
    shops = open_shops(pool, services.folder / "vault", services.shops)
    environ = {
        "DATABASE_URL": database,
        "HEADWAY_BROKER_URL": services.valkey.url,
        "HEADWAY_DATA_DIR": str(services.folder / "vault"),
        "HEADWAY_SHOPIFY_URL": f"{services.provider.url}/{{shop}}",
        "HEADWAY_WORKER_CONCURRENCY": str(CONCURRENCY),
    }

    def release(calls: int) -> Callable[[], int]:
        shops.change(calls)
        return shops.waiting

    return WorkerQueue(
        name=OURS,
        # The supplier has nothing to read: only pushes are requested.
        command=own_command("worker", "--queues", "push.shopify", ends_by=signal.SIGKILL),
        environ=environ,
        ready="Headway works as",
        release=release,
        clear=lambda: _clear(services, shops),
    )


def _clear(services: Services, shops: ManyShops) -> None:
    """Remove what killed workers left: messages and dispatch leases."""
    with services.valkey.client() as client:
        client.flushall()
    shops.forget_dispatch_leases()


def celery(services: Services, stack: ExitStack) -> WorkerQueue:
    """Return what the messages alone cost: a task that does nothing."""
    place = Place(valkey=services.valkey.url, concurrency=CONCURRENCY)
    app = celery_app(place)
    stack.callback(app.close)
    client = stack.enter_context(services.valkey.client())
    queue, stock = f"{CELERY_PREFIX}{CELERY_QUEUE}", f"{CELERY_PREFIX}{CELERY_STOCK}"

    def release(calls: int) -> Callable[[], int]:
        # Into another queue first, so that all come at once as they do for the others.
        with app.producer_pool.acquire() as producer:
            for number in range(calls):
                app.send_task("nothing", [f"shop-{number}"], queue=CELERY_STOCK, producer=producer)
        client.rename(stock, queue)
        return lambda: client.llen(queue) + client.hlen(f"{CELERY_PREFIX}unacked")

    return WorkerQueue(
        name=NOTHING,
        command=_competitor("celery"),
        environ=place.environ,
        ready=READY,
        release=release,
        clear=client.flushall,
        makes_calls=False,
    )


def procrastinate(services: Services, stack: ExitStack) -> WorkerQueue:
    """Return its workers, with an async task."""
    place, pool = _push_leases(services, stack, "procrastinate")
    app, task = procrastinate_app(place)
    opened = stack.enter_context(app.open())
    opened.schema_manager.apply_schema()

    def release(calls: int) -> Callable[[], int]:
        task.batch_defer(*({"shop": shop} for shop in _changed(pool, calls)))
        return lambda: _waiting(pool)

    return WorkerQueue(
        name="procrastinate",
        command=_competitor("procrastinate"),
        environ=place.environ,
        ready=READY,
        release=release,
    )


def dbos(services: Services, stack: ExitStack) -> WorkerQueue:
    """Return its workers, with a workflow on a queue."""
    place, pool = _push_leases(services, stack, "dbos")
    client, engine = dbos_client(place)
    stack.callback(client.destroy)
    stack.callback(engine.dispose)
    options = {"workflow_name": "call", "queue_name": DBOS_QUEUE, "app_version": DBOS_VERSION}

    def release(calls: int) -> Callable[[], int]:
        with engine.begin() as connection:
            for shop in _changed(pool, calls):
                client.enqueue_in_transaction(connection, options, shop)
        return lambda: _waiting(pool)

    return WorkerQueue(
        name="DBOS",
        command=_competitor("dbos"),
        environ=place.environ,
        ready=READY,
        release=release,
    )


def _competitor(name: str) -> list[str]:
    return [sys.executable, "-m", "bench.queues", name]


def _push_leases(services: Services, stack: ExitStack, name: str) -> tuple[Place, ConnectionPool]:
    """Make a database with one row for each shop."""
    services.server.ensure_database(name)
    database = services.server.dsn(name)
    with psycopg.connect(database) as connection:
        connection.execute(MAKE)
        connection.execute(ENTER, (services.shops,))
    place = Place(database=database, provider=services.provider.url, concurrency=CONCURRENCY)
    return place, stack.enter_context(open_pool(database, size=1))


def _changed(pool: ConnectionPool, calls: int) -> list[str]:
    with pool.connection() as connection:
        return [shop for (shop,) in connection.execute(CHANGE, (calls,))]


def _waiting(pool: ConnectionPool) -> int:
    with pool.connection() as connection:
        row = connection.execute(WAITING).fetchone()
    return int(row[0]) if row else 0


QUEUES = (headway, celery, procrastinate, dbos)
