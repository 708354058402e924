"""Many suppliers on few workers: how much of every limit is used, and what a call costs.

First as in production, two calls a minute for each supplier: all permits should be used. Then with
limits that no worker reaches: how many calls a second the processes make.
"""

import signal
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from psycopg_pool import ConnectionPool

from bench.answering_server import ProviderServer, open_provider
from bench.services import CLOCK, migrated, postgres, scratch, version
from bench.table import report_progress, show
from bench.workers import Workers
from headway.app import build
from headway.app.providers import login_key, shared_vault
from headway.config import Settings
from headway.core.catalog.listings import AuthStep, SupplierName
from headway.core.laws import replay_windows
from headway.providers.boeing.limits import limit_key_of, supplier_resource
from headway.providers.tokens import NEVER
from headway.runners.child_command import own_command
from headway.runners.valkey import EmbeddedValkey
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.virtual_clock import VirtualClock

SUPPLIERS, PARTS_EACH = 1000, 30
PROCESSES = (1, 2, 4)
CONCURRENCY = 8
# As in production; and so often that the workers are the bottleneck.
LIFE = {"SYNC_BOEING_RATE_LIMIT_TOKENS": "2", "SYNC_BOEING_RATE_LIMIT_REFILL": "30"}
FREE = {"SYNC_BOEING_RATE_LIMIT_TOKENS": "600", "SYNC_BOEING_RATE_LIMIT_REFILL": "0"}
WARM_UP_S, LIFE_S, FREE_S = 45.0, 60.0, 15.0
REPLAYED = 100
LONG_AGO = timedelta(days=2)
READY = "Headway works as"

ENTER = (
    """
INSERT INTO suppliers (name, client_id, username, created_at)
SELECT 's' || n, 'client-' || n, 'user-' || n, %(now)s FROM generate_series(1, %(suppliers)s) AS n
""",
    """
INSERT INTO profiles (user_id, supplier)
SELECT 'seller-' || n, 's' || n FROM generate_series(1, %(suppliers)s) AS n
""",
    """
INSERT INTO product_sync_schedule (user_id, sku, supplier, hour_bucket, next_sync_at, created_at)
SELECT 'seller-' || n, 'P' || n || '-' || part, 's' || n, 0, %(now)s, %(now)s
FROM generate_series(1, %(suppliers)s) AS n, generate_series(1, %(parts)s) AS part
""",
    """
INSERT INTO credential (credential_key, name, secret, expires_at)
SELECT 'supplier:s' || n, field, %(secret)s, %(never)s
FROM generate_series(1, %(suppliers)s) AS n, unnest(%(fields)s::text[]) AS field
""",
    """
INSERT INTO credential (credential_key, name, secret, expires_at)
SELECT 'boeing:client-' || n, step, %(secret)s, %(never)s
FROM generate_series(1, %(suppliers)s) AS n, unnest(%(steps)s::text[]) AS step
""",
    "ANALYZE",
)
CLEAR = "DELETE FROM dispatch_leases; DELETE FROM call_ledger; DELETE FROM limiter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """The suppliers, and what the workers stand on."""

    folder: Path
    server: EmbeddedServer
    valkey: EmbeddedValkey
    provider: ProviderServer
    database: str
    pool: ConnectionPool
    suppliers: int

    def settings(self, limit: dict[str, str]) -> Settings:
        """Return the environment of a worker."""
        tokens, refill = limit.values()
        return Settings(
            data_dir=self.folder / "vault", rate_limit=int(tokens), rate_gap_s=float(refill)
        )


def run(*, suppliers: int = SUPPLIERS) -> None:
    """Measure and print."""
    with scratch() as folder, ExitStack() as stack:
        valkey = EmbeddedValkey(folder / "valkey", clock=CLOCK, keeps=False)
        server = stack.enter_context(postgres(folder / "many", {"max_connections": "200"}))
        database = migrated(server, "headway")
        market = Market(
            folder=folder,
            server=server,
            valkey=stack.enter_context(valkey),
            provider=stack.enter_context(open_provider()),
            database=database,
            pool=stack.enter_context(open_pool(database, size=2)),
            suppliers=suppliers,
        )
        report_progress(f"{suppliers:,} suppliers: entering them")
        _enter(market)
        rows = [_measure(market, LIFE, 1, LIFE_S)]
        rows += [_measure(market, FREE, count, FREE_S) for count in PROCESSES]
        show(
            f"suppliers: {suppliers:,} with {PARTS_EACH} parts each, adaptive, by worker processes",
            (
                "limit of each", "processes", "calls/s", "of the limit", "workers ms", "postgres",
                "broker", "cpu ms", "breaches",
            ),
            rows,
            version(server),
            "calls/s: as the server counted them, from start to end of the span; cpu: processor"
            " milliseconds a call",
            f"breaches: calls too many in the ledgers of the first {REPLAYED} suppliers, replayed",
        )  # fmt: skip


def _enter(market: Market) -> None:
    vault = shared_vault(market.settings(LIFE))
    values = {
        "suppliers": market.suppliers,
        "parts": PARTS_EACH,
        "now": CLOCK.now(),
        "never": NEVER,
        "secret": vault.encrypt("a-secret"),
        "fields": ["client_secret", "password"],
        "steps": [step.value for step in AuthStep],
    }
    assert login_key(SupplierName("s1")) == "supplier:s1"
    with market.pool.connection() as connection, connection.transaction():
        for statement in ENTER:
            connection.execute(statement, values)


def _begin(market: Market, settings: Settings) -> None:
    """Make every limiter one that Headway has long known; none waits for its first minute."""
    with market.pool.connection() as connection:
        connection.execute(CLEAR)
    with market.valkey.client() as client:
        client.flushall()
    past = build(settings, VirtualClock(CLOCK.now() - LONG_AGO), market.pool).limiter
    for number in range(1, market.suppliers + 1):
        limit_key = limit_key_of(f"client-{number}")
        past.know(supplier_resource(settings, limit_key))
        past.pause(limit_key, 0, "")


def _measure(market: Market, limit: dict[str, str], count: int, span_s: float) -> tuple[str, ...]:
    """Start that many processes; once they are warm, return what they did in a span."""
    per_min = int(limit["SYNC_BOEING_RATE_LIMIT_TOKENS"])
    report_progress(f"{per_min} calls a minute each, {count} processes")
    _begin(market, market.settings(limit))
    workers = Workers(
        name="headway worker",
        folder=market.folder,
        command=own_command("worker", "--queues", "fetch.boeing", ends_by=signal.SIGKILL),
        environ=_environ(market, limit),
        ready=READY,
    )
    try:
        workers.start(count)
        CLOCK.sleep(WARM_UP_S if limit is LIFE else FREE_S)
        begun, before = (
            market.provider.calls,
            workers.spent(market.server, market.valkey),
        )
        CLOCK.sleep(span_s)
        calls = market.provider.calls - begun
        after = workers.spent(market.server, market.valkey)
    finally:
        workers.kill()
    cost = [
        (late - early) * 1000 / max(1, calls) for early, late in zip(before, after, strict=True)
    ]
    allowed = market.suppliers * per_min * span_s / 60
    return (
        f"{per_min} a minute",
        str(count),
        f"{calls / span_s:,.1f}",
        f"{calls / allowed:.0%}",
        *(f"{figure:.2f}" for figure in (*cost, sum(cost))),
        str(_breaches(market, market.settings(limit))),
    )


def _environ(market: Market, limit: dict[str, str]) -> dict[str, str]:
    signed = ("CLIENT_ID", "CLIENT_SECRET", "USERNAME", "PASSWORD")
    return {
        **limit,
        "DATABASE_URL": market.database,
        "HEADWAY_BROKER_URL": market.valkey.url,
        "HEADWAY_DATA_DIR": str(market.folder / "vault"),
        "HEADWAY_BOEING_URL": market.provider.url,
        **{f"HEADWAY_BOEING_{name}": "main" for name in signed},
        "HEADWAY_WORKER_CONCURRENCY": str(CONCURRENCY),
    }


def _breaches(market: Market, settings: Settings) -> int:
    limiter = build(settings, CLOCK, market.pool).limiter
    count = 0
    for number in range(1, min(REPLAYED, market.suppliers) + 1):
        resource = supplier_resource(settings, limit_key_of(f"client-{number}"))
        calls = limiter.calls_since(resource.key, CLOCK.now() - LONG_AGO)
        count += len(replay_windows(calls, resource.windows[0]))
    return count
