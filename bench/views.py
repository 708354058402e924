"""Response times of the views: lists, search, history and status, as the tables grow.

Every size has its own database of one server, and sizes alternate. Each query uses another part,
text or page every time, as the operator and as the largest seller.
"""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from psycopg import Connection, sql
from psycopg_pool import ConnectionPool

from bench.filling import strip
from bench.services import CLOCK, migrated, postgres, scratch, version
from bench.table import median, report_progress, show
from headway.app import App, build
from headway.app.providers import main_limit_key
from headway.clock import Rng, rng
from headway.config import Settings
from headway.core.catalog.listings import ProductState, SellerId, Sku
from headway.errors import ConfigError
from headway.operations.callers import operator, seller_or_operator
from headway.operations.deployment import status
from headway.store.access.isolation import TenantPool
from headway.store.catalog.history import HistoryQueries
from headway.store.catalog.product_list import ProductQueries
from headway.store.cursors import encode
from headway.store.pool import Pool, open_pool
from headway.store.server.embedded import EmbeddedServer
from headway.store.timetable.hours import TimetableQueries

ROWS = (10_000, 1_000_000)
EVENTS_EACH = 10
ROUNDS = 100
# Each of two connections plans a statement ten times before it keeps a plan: the first seconds of a
# server's life.
WARMING = 20
BOUND_MS = 50.0
BYTES_PER_ROW = 9000
BIG = SellerId("big")
SELLERS = 200
DAYS = 90
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    # These two matter only for filling.
    "maintenance_work_mem": "1GB",
    "max_wal_size": "8GB",
}
TABLES = (
    "product_sync_schedule",
    "listing_state",
    "product",
    "listing_search",
    "sync_audit_log",
)

# All months that are kept: the history of a listing reads each of them.
MONTHS = """
SELECT make_history_month(%(now)s - back * interval '1 month') FROM generate_series(0, 24) AS back
"""

# One seller has a quarter of the parts. Every tenth letter and figure differs, so that texts of any
# length may be searched for.
SELLER = f"CASE WHEN n %% 4 = 0 THEN '{BIG}' ELSE 'seller-' || n %% {SELLERS} END"
SKU = "chr(65 + n %% 26) || lpad(n::text, 8, '0') || '=E' || n %% 10"
FILL = f"""
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, minute_offset, next_sync_at, priority,
  sync_status, is_active, lease_owner, lease_until, last_sync_at, last_successful_sync,
  last_sync_status, consecutive_failures, last_error, last_boeing_hash, last_price, last_quantity,
  last_inventory_status, last_locations, created_at, updated_at)
SELECT {SELLER}, {SKU}, floor(share * 24), floor(share * 1440)::int %% 60,
  %(now)s + share * interval '24 hours',
  CASE WHEN is_failing THEN 'retry' ELSE 'scheduled' END,
  CASE WHEN is_reading THEN 'syncing' WHEN is_parked THEN 'parked' ELSE 'success' END,
  NOT is_parked AND NOT is_off, CASE WHEN is_reading THEN 'bench' END,
  CASE WHEN is_reading THEN %(now)s END, %(now)s,
  CASE WHEN is_unread THEN NULL WHEN is_stale THEN %(now)s - (1 + share) * interval '1 day'
       ELSE %(now)s - share * interval '23 hours' END,
  'unchanged', CASE WHEN is_failing OR is_parked THEN 1 + n %% 5 ELSE 0 END,
  CASE WHEN is_failing OR is_parked THEN 'the supplier does not know it' END, md5(n::text),
  n %% 1000 + 0.5, n %% 100, 'in_stock', '{{"Dallas": 5, "Miami": 7}}', %(now)s, %(now)s
FROM (SELECT n, random() AS share, n %% 50000 = 1 AS is_reading,
        n %% 1000 BETWEEN 2 AND 41 AS is_unread, n %% 1000 BETWEEN 42 AND 71 AS is_failing,
        n %% 1000 BETWEEN 72 AND 81 AS is_parked, n %% 1000 BETWEEN 82 AND 101 AS is_off,
        n %% 1000 BETWEEN 102 AND 151 AS is_stale
      FROM generate_series(1, %(rows)s) AS n) AS listing
"""
FILL_STATE = """
INSERT INTO listing_state (user_id, sku, observed, observed_at, desired, desired_at,
  desired_version, applied, applied_at, applied_version, verified_at, push_at, push_failures,
  push_error, held_reason, held_at)
SELECT user_id, sku, '{"list_price": "10", "quantities": {"Dallas": 5, "Miami": 7}}', %(now)s,
  state, %(now)s, 1, state, %(now)s, 1, %(now)s, CASE WHEN last_quantity = 1 THEN %(now)s END,
  CASE WHEN last_quantity = 1 THEN last_price::int %% 2 ELSE 0 END, NULL,
  CASE WHEN last_price = 500.5 THEN 'the price would rise by 127 %%' END,
  CASE WHEN last_price = 500.5 THEN %(now)s END
FROM product_sync_schedule, (SELECT '{"price": "11.00", "cost": "9.5", "currency": "USD",
  "compare_at": null, "quantities": {"Dallas": 5, "Miami": 7}}'::jsonb AS state) AS shown
"""
WORDS = "{Bolt,Nut,Washer,Bracket,Clamp,Bearing,Bushing,Seal,Gasket,Rivet,Pin,Screw}"
FORMS = "{hex head,self-locking,flat,countersunk,sealed,angular,thin,heavy,corrosion-resistant}"
FILL_PRODUCT = f"""
INSERT INTO product (user_id, sku, shop_sku, title, shopify_variant_id, status, price,
  inventory_quantity)
SELECT {SELLER}, {SKU}, 'SH-' || lpad((n * 7 %% 100000000)::text, 8, '0'),
  CASE WHEN n %% 100000 = 7 THEN 'Grommet' ELSE ('{WORDS}'::text[])[1 + n %% 12] END || ', '
  || ('{FORMS}'::text[])[1 + n / 12 %% 9] || ' 0.' || n %% 997 || ' in', n::text, 'ACTIVE', 11, 12
FROM generate_series(1, %(rows)s) AS n WHERE n %% 20 > 0
"""
FILL_SEARCH = """
INSERT INTO listing_search (user_id, sku, shop_sku, title)
SELECT row.user_id, row.sku, coalesce(shop_sku, ''), coalesce(title, '')
FROM product_sync_schedule AS row LEFT JOIN product USING (user_id, sku)
"""
# As a year writes them: in the order of time, over all parts.
FILL_EVENTS = f"""
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value, new_value,
  batch_id, created_at)
SELECT {SELLER}, {SKU}, at, CASE e %% 5 WHEN 0 THEN 'price_changed' WHEN 1 THEN 'quantity_changed'
    WHEN 2 THEN 'shopify_updated' WHEN 3 THEN 'cost_changed' ELSE 'sync_failed' END,
  CASE e %% 5 WHEN 0 THEN '{{"list_price": "10", "currency": "USD"}}'::jsonb
    WHEN 1 THEN '{{"quantities": {{"Dallas": 4, "Miami": 7}}}}'::jsonb END,
  CASE e %% 5 WHEN 0 THEN '{{"list_price": "12", "currency": "USD"}}'::jsonb
    WHEN 1 THEN '{{"quantities": {{"Dallas": 5, "Miami": 7}}}}'::jsonb
    WHEN 2 THEN '{{"price": "13.20", "quantities": {{"Dallas": 5, "Miami": 7}}}}'::jsonb
    WHEN 3 THEN '{{"net_price": "9"}}'::jsonb END, NULL, at
FROM (SELECT e, (1 + (e::bigint * 7919) %% %(rows)s)::int AS n,
        %(now)s - (1 - e::float8 / %(events)s) * interval '{DAYS} days' AS at
      FROM generate_series(1, %(events)s) AS e) AS event
"""
FILL_REST = (
    f"""
INSERT INTO profiles (user_id, tier, listing_count)
SELECT user_id, ('{{free,starter,growth,pro}}'::text[])[1 + n %% 4],
  (SELECT count(*) FROM product_sync_schedule AS row WHERE row.user_id = seller.user_id)
FROM (SELECT 'seller-' || n AS user_id, n FROM generate_series(0, {SELLERS - 1}) AS n
      UNION ALL SELECT '{BIG}', 3) AS seller
""",
    """
INSERT INTO connected_accounts (user_id, platform, shop)
SELECT user_id, 'shopify', user_id || '.myshopify.com' FROM profiles
""",
    """
INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, score, next_run_at)
SELECT id, user_id, platform, kind, 'incremental', 12, %(now)s
FROM connected_accounts, unnest('{orders,listings,customers}'::text[]) AS kind
""",
    f"""
INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until, finished_at,
  arrived_by, status, result, http_status, seats_paid, skus)
SELECT gen_random_uuid(), %(key)s, 'bench', 1, at, at, at, at, 'sent', '10 read', 200, 10,
  (SELECT array_agg({SKU}) FROM generate_series(call * 10 %% %(rows)s + 1,
    call * 10 %% %(rows)s + 10) AS n)
FROM (SELECT call, %(now)s - call * interval '30 seconds' AS at
      FROM generate_series(1, 86400) AS call) AS call
""",
)

Query = Callable[[], object]


@dataclass(slots=True, kw_only=True)
class FilledDatabase:
    """One database of some size, and the queries on it."""

    rows: int
    app: App
    now: datetime
    size_mb: int = 0
    random: Rng = field(default_factory=lambda: rng("views"))
    times: dict[str, list[float]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Any part, of the largest seller."""
        return 4 * self.random.randint(1, self.rows // 4)

    @property
    def sku(self) -> Sku:
        """Its part number."""
        number = self.number
        return Sku(f"{chr(65 + number % 26)}{number:08}=E{number % 10}")

    def query(self, name: str, query: Query) -> None:
        """Run one query, and record how long it took."""
        at_s = CLOCK.monotonic()
        query()
        self.times.setdefault(name, []).append((CLOCK.monotonic() - at_s) * 1000)

    def all_queries(self) -> Mapping[str, Query]:
        """Everything that is measured, with other figures every time."""
        seller_pool = TenantPool(self.app.pool, actor="bench", seller=BIG)
        queries = dict(self._queries(self.app.pool, None))
        queries["status"] = lambda: status(operator(self.app, "bench"))
        queries["timetable of a day"] = self._timetable
        queries["sample of freshness"] = self._sample
        queries |= {
            f"{name}, as a seller": query for name, query in self._queries(seller_pool, BIG).items()
        }
        queries["status, as a seller"] = lambda: status(seller_or_operator(self.app, "bench", BIG))
        return queries

    def _queries(self, pool: Pool, seller: SellerId | None) -> dict[str, Query]:
        listings, history, now = ProductQueries(pool), HistoryQueries(pool), self.now

        def page(**query: Callable[[], Any]) -> Query:
            return lambda: listings.page(
                now, seller=seller, **{name: value() for name, value in query.items()}
            )

        def deep(name: str, *parts: Callable[[], Any]) -> Callable[[], str]:
            kept = [part for part in parts if seller is None or part is not owner]
            return lambda: encode(name, *(query() for query in kept))

        def owner() -> str:
            return BIG

        def sku() -> Sku:
            return self.sku

        def some(piece: Callable[[int], str]) -> Callable[[], str]:
            return lambda: piece(self.number)

        def then() -> datetime:
            return now - self.random.random() * timedelta(hours=23)

        states = {
            f"list, {state}": page(state=partial(ProductState, state)) for state in ProductState
        }
        return {
            "list, first page": page(),
            "list, a page far on": page(cursor=deep("all", owner, sku)),
            **states,
            "list, fresh, far on": page(
                state=lambda: ProductState.FRESH, cursor=deep("fresh", then, owner, sku)
            ),
            "search, a whole part number": page(q=sku),
            "search, its beginning": page(q=some(lambda n: f"{chr(65 + n % 26)}{n // 1000:05}")),
            "search, its middle": page(q=some(lambda n: f"{n // 10 % 100000:05}")),
            "search, the shop's number": page(q=some(lambda n: f"h-{n * 7 % 10**8 // 100:06}")),
            "search, three figures": page(q=some(lambda n: f"{n % 1000:03}")),
            "search, a title": page(q=some(lambda n: f"flat 0.{n % 997} ")),
            "search, a common word": page(q=lambda: "bolt"),
            "search, a rare word": page(q=lambda: "GROMMET"),
            "search, one letter": page(q=lambda: "e"),
            "search, nothing found": page(q=some(lambda n: f"zq{n}")),
            "search, stale bolts": page(q=lambda: "bolt", state=lambda: ProductState.STALE),
            "search, parked grommets": page(q=lambda: "grommet", state=lambda: ProductState.PARKED),
            "product": lambda: listings.of_sku(now, self.sku, seller=seller),
            "history": lambda: history.page(self.sku, seller=seller),
            "history as a chart": lambda: history.series(self.sku, BIG, now - timedelta(days=90)),
            "export, 1,000 events": lambda: list(
                islice(history.export(since=then() - timedelta(days=30), seller=seller), 1000)
            ),
            **(
                {}
                if seller
                else {
                    "latest reads": lambda: history.latest_reads(
                        self.sku, keys=[self.app.limit_key], now=now
                    )
                }
            ),
        }

    def _timetable(self) -> None:
        views = TimetableQueries(self.app.pool, seats=10, calls_per_hour=120)
        views.day(self.now, limit_key=self.app.limit_key, policy=self.app.policy, listed=self.rows)

    def _sample(self) -> None:
        # Each in a span of five minutes of its own, or only the first would be read.
        self.now += timedelta(minutes=5)
        self.app.freshness.sample(self.now)


def run(*, rows: Sequence[int] = ROWS, rounds: int = ROUNDS) -> None:
    """Fill, query, print."""
    with scratch() as folder:
        _require_space(folder, sum(rows))
        with postgres(folder / "views", SETTINGS) as server:
            report_progress(version(server))
            pools = [filled(server, row) for row in rows]
            try:
                databases = [
                    _open_database(size, pool, folder)
                    for size, pool in zip(rows, pools, strict=True)
                ]
                _measure(databases, rounds)
                _print(databases, rounds, version(server))
            finally:
                for pool in pools:
                    pool.close()


def _open_database(rows: int, pool: ConnectionPool, folder: Path) -> FilledDatabase:
    app = build(Settings(data_dir=folder), CLOCK, pool)
    with pool.connection() as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    size_mb = row[0] // 1_000_000 if row else 0
    return FilledDatabase(rows=rows, app=app, now=CLOCK.now(), size_mb=size_mb)


def _measure(databases: Sequence[FilledDatabase], rounds: int) -> None:
    queries = [database.all_queries() for database in databases]
    for name in queries[0]:
        report_progress(f"{name}: {rounds} times at each size")
        for _ in range(WARMING):
            for answers in queries:
                answers[name]()
        for _ in range(rounds):
            for database, answers in zip(databases, queries, strict=True):
                database.query(name, answers[name])


def _print(databases: Sequence[FilledDatabase], rounds: int, note: str) -> None:
    small, large = databases[0], databases[-1]
    rows, over = [], 0
    for name, times in large.times.items():
        before = small.times[name]
        is_over = _p99(times) > BOUND_MS
        over += is_over
        rows.append(
            (
                name,
                f"{median(before):.1f}",
                f"{median(times):.1f}",
                f"{_p99(times):.1f}",
                f"{median(times) / median(before):.2f}",
                "OVER" if is_over else "yes",
            )
        )
    show(
        f"views of {large.rows:,} listings and {large.rows * EVENTS_EACH:,} events (ms)",
        ("query", f"p50 at {small.rows:,}", "p50", "p99", "ratio", f"within {BOUND_MS:.0f}"),
        rows,
        note,
        f"{rounds} queries a size, alternating; {large.size_mb:,} MB on disk",
        f"{over} of {len(rows)} queries are over {BOUND_MS:.0f} ms at p99",
    )


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


def filled(server: EmbeddedServer, rows: int) -> ConnectionPool:
    """Make tables of this size; indexes are built afterwards, which is many times faster."""
    report_progress(f"{rows:,} listings, {rows * EVENTS_EACH:,} events: filling")
    # As `headway run` opens its own server.
    pool = open_pool(migrated(server, f"views_{rows}"), size=2)
    at_s = CLOCK.monotonic()
    try:
        with pool.connection() as connection:
            with connection.transaction():
                connection.execute(MONTHS, {"now": CLOCK.now()})
                rebuild = strip(connection, TABLES)
                _insert(connection, rows)
                report_progress(
                    f"{rows:,} listings: building indexes after {CLOCK.monotonic() - at_s:.0f} s"
                )
                for statement in rebuild:
                    connection.execute(statement)
            for table in TABLES:
                connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(table)))
            connection.execute("ANALYZE")
            connection.execute("CHECKPOINT")
    except BaseException:
        pool.close()
        raise
    report_progress(f"{rows:,} listings: ready after {CLOCK.monotonic() - at_s:.0f} s")
    return pool


def _insert(connection: Connection, rows: int) -> None:
    key = main_limit_key(Settings())
    values = {"rows": rows, "events": rows * EVENTS_EACH, "now": CLOCK.now(), "key": key}
    connection.execute("SELECT setseed(0.5)")
    for statement in (FILL, FILL_STATE, FILL_PRODUCT, FILL_SEARCH, FILL_EVENTS, *FILL_REST):
        connection.execute(statement, values)


def _require_space(folder: Path, rows: int) -> None:
    need = rows * BYTES_PER_ROW
    free = shutil.disk_usage(folder).free
    if free < need:
        raise ConfigError(
            f"the views' benchmark needs {need / 1e9:.0f} GB at {folder.parent}, which has"
            f" {free / 1e9:.0f} GB free; make room or give smaller --view-rows"
        )
