"""The cost of front + claim of ten + settle as the schedule grows, all sizes in one run.

Every size has its own database of one server. Sizes alternate in short blocks, so that other load
on the machine affects all of them.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from psycopg import Connection, sql
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from bench.filling import strip
from bench.services import CLOCK, migrated, postgres, scratch, version
from bench.table import median, p95, report_progress, show
from headway.clock import fresh_id
from headway.core.catalog.change_detection import Desired, Terms, desire, observe
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.lifecycle import FailureRule, Judge
from headway.core.catalog.listings import Listing, Quote, Reply, Sku
from headway.core.timetable.policies.rolling import Rolling
from headway.core.timetable.seats import SeatRule, fill_call
from headway.errors import ConfigError
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway.store.timetable.schedule import Schedule

ROWS = (10_000, 1_000_000, 10_000_000)
ROUNDS = 400
BLOCK = 20
WARM_UP = 40
SEATS = 10
FRONT = 3 * SEATS
BYTES_PER_ROW = 1100
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    # These two matter only for filling.
    "maintenance_work_mem": "512MB",
    "max_wal_size": "8GB",
}
TERMS = Terms(locations={"Dallas Central": "Dallas", "Miami FL": "Miami"}, currency="USD")
STANDING = SellerSettings(terms=TERMS)
JUDGE = Judge(rule=FailureRule(), policy=Rolling())
SEAT_RULE = SeatRule(seats=SEATS, slack=timedelta(minutes=20))
TABLES = ("product_sync_schedule", "listing_state", "listing_search")

# Due times are spread over the day without regard to where a row lies in the table.
FILL = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, minute_offset, next_sync_at, priority,
  sync_status, fence, last_sync_started_at, last_sync_at, last_successful_sync, last_sync_status,
  consecutive_failures, last_boeing_hash, last_price, last_quantity, last_inventory_status,
  last_locations, created_at, updated_at)
SELECT 'seller-' || n %% 200, 'P' || lpad(n::text, 8, '0') || '=E9', floor(share * 24),
  floor(share * 1440)::int %% 60, %(now)s + share * interval '24 hours',
  CASE WHEN n %% 100 = 0 THEN 'retry' ELSE 'scheduled' END, 'success', 1,
  %(now)s, %(now)s, %(now)s, 'unchanged', CASE WHEN n %% 100 = 0 THEN 1 ELSE 0 END,
  %(hash)s, %(price)s, %(quantity)s, 'in_stock', %(locations)s, %(now)s, %(now)s
FROM (SELECT n, random() AS share FROM generate_series(1, %(rows)s) AS n) AS listing
"""
FILL_STATE = """
INSERT INTO listing_state (user_id, sku, observed, observed_at, desired, desired_at,
  desired_version, applied, applied_at, applied_version)
SELECT user_id, sku, %(observed)s, %(now)s, %(desired)s, %(now)s, 1, %(desired)s, %(now)s, 1
FROM product_sync_schedule
"""
# How many dead rows autovacuum allows; a claim and its settle leave two of them.
DEAD_MAX = """
WITH chosen AS (
  SELECT option_name AS name, option_value AS value
  FROM pg_class, pg_options_to_table(reloptions) WHERE oid = 'product_sync_schedule'::regclass
)
SELECT coalesce((SELECT value FROM chosen WHERE name = 'autovacuum_vacuum_threshold'),
                current_setting('autovacuum_vacuum_threshold'))::float
     + coalesce((SELECT value FROM chosen WHERE name = 'autovacuum_vacuum_scale_factor'),
                current_setting('autovacuum_vacuum_scale_factor'))::float * %(rows)s
"""
# What many rounds leave behind: index entries at the front that point to rows now due later.
WORK_OFF = (
    """
UPDATE product_sync_schedule SET sync_status = 'syncing', lease_owner = 'bench',
  lease_until = %(now)s, fence = fence + 1
WHERE id IN (SELECT id FROM product_sync_schedule WHERE is_active AND sync_status <> 'syncing'
             AND priority = 'scheduled' ORDER BY next_sync_at LIMIT %(rows)s)
""",
    """
UPDATE product_sync_schedule SET sync_status = 'success', lease_owner = NULL, lease_until = NULL,
  next_sync_at = next_sync_at + interval '24 hours' WHERE sync_status = 'syncing'
""",
)


@dataclass(slots=True, kw_only=True)
class Times:
    """Milliseconds of every measured round, by step."""

    front: list[float] = field(default_factory=list)
    claim: list[float] = field(default_factory=list)
    settle: list[float] = field(default_factory=list)

    @property
    def total(self) -> list[float]:
        """Return the milliseconds of every whole round."""
        return [sum(steps) for steps in zip(self.front, self.claim, self.settle, strict=True)]


@dataclass(slots=True, kw_only=True)
class FilledSchedule:
    """One schedule of some size, and a worker at it."""

    rows: int
    schedule: Schedule
    now: datetime
    size_mb: int
    moved: int = 0
    times: Times = field(default_factory=Times)

    def round(self) -> None:
        """Claim and settle ten listings, one of them changed, and record how long it took."""
        self.now += timedelta(seconds=1)
        at = CLOCK.monotonic()
        front = self.schedule.front(self.now, limit=FRONT)
        self.times.front.append((CLOCK.monotonic() - at) * 1000)
        skus = [listing.sku for listing in fill_call(front, self.now, SEAT_RULE)]
        at = CLOCK.monotonic()
        listings = self.schedule.claim(
            skus, now=self.now, owner="bench", lease_until=self.now + timedelta(seconds=90)
        )
        self.times.claim.append((CLOCK.monotonic() - at) * 1000)
        settlements = [
            JUDGE.settle(listing, _reply(listings), self.now, STANDING) for listing in listings
        ]
        at = CLOCK.monotonic()
        self.schedule.settle(settlements, now=self.now, call_id=fresh_id())
        self.times.settle.append((CLOCK.monotonic() - at) * 1000)


def run(*, rows: Sequence[int] = ROWS, rounds: int = ROUNDS) -> None:
    """Fill, measure, print; then once more with dead entries at the front."""
    with scratch() as folder:
        _require_space(folder, sum(rows))
        with postgres(folder / "claim", SETTINGS) as server:
            report_progress(version(server))
            pools = [_filled(server, row) for row in rows]
            try:
                _measure_both(server, rows, pools, rounds)
            finally:
                for pool in pools:
                    pool.close()


def _measure_both(
    server: EmbeddedServer, rows: Sequence[int], pools: Sequence[ConnectionPool], rounds: int
) -> None:
    schedules = [_open_schedule(size, pool) for size, pool in zip(rows, pools, strict=True)]
    _measure(schedules, rounds)
    notes = (version(server), f"{rounds} rounds a size, alternating every {BLOCK} rounds")
    _print(
        "claim + settle: front, claim of 10, settle with 1 of 10 changed (ms)", schedules, *notes
    )
    for filled, pool in zip(schedules, pools, strict=True):
        _work_off(filled, pool)
        filled.times = Times()
    _measure(schedules, rounds)
    note = "unvacuumed: listings read since the last vacuum, as many as autovacuum lets pass"
    _print("the same behind dead index entries (ms)", schedules, note)


def _work_off(filled: FilledSchedule, pool: ConnectionPool) -> None:
    """Move as many listings from the front as autovacuum allows."""
    with pool.connection() as connection:
        row = connection.execute(DEAD_MAX, {"rows": filled.rows}).fetchone()
        filled.moved = min(filled.rows, int(row[0]) // 2 if row else 0)
        report_progress(f"{filled.rows:,} rows: moving the first {filled.moved:,}, no vacuum")
        for statement in WORK_OFF:
            connection.execute(statement, {"rows": filled.moved, "now": filled.now})


def _measure(schedules: Sequence[FilledSchedule], rounds: int) -> None:
    for filled in schedules:
        for _ in range(WARM_UP):
            filled.round()
        filled.times = Times()
    for done in range(0, rounds, BLOCK):
        report_progress(f"round {done} of {rounds}")
        for filled in schedules:
            for _ in range(min(BLOCK, rounds - done)):
                filled.round()


def _print(title: str, schedules: Sequence[FilledSchedule], *notes: str) -> None:
    base = median(schedules[0].times.total)
    headers = (
        "rows",
        "on disk",
        "unvacuumed",
        "front",
        "claim",
        "settle",
        "median",
        "p95",
        "ratio",
    )
    cells = [
        (
            f"{filled.rows:,}",
            f"{filled.size_mb:,} MB",
            f"{filled.moved:,}",
            *(
                f"{median(step):.2f}"
                for step in (filled.times.front, filled.times.claim, filled.times.settle)
            ),
            f"{median(filled.times.total):.2f}",
            f"{p95(filled.times.total):.2f}",
            f"{median(filled.times.total) / base:.2f}",
        )
        for filled in schedules
    ]
    show(title, headers, cells, *notes)


def _filled(server: EmbeddedServer, rows: int) -> ConnectionPool:
    """Make a schedule of this size; indexes are built afterwards, which is many times faster."""
    report_progress(f"{rows:,} rows: filling")
    pool = open_pool(migrated(server, f"rows_{rows}"), size=2)
    at = CLOCK.monotonic()
    try:
        with pool.connection() as connection:
            with connection.transaction():
                rebuild = strip(connection, TABLES)
                _insert(connection, rows)
                report_progress(f"{rows:,} rows: building indexes")
                for statement in rebuild:
                    connection.execute(statement)
            for table in TABLES:
                connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(table)))
            connection.execute("CHECKPOINT")
    except BaseException:
        pool.close()
        raise
    report_progress(f"{rows:,} rows: ready after {CLOCK.monotonic() - at:.0f} s")
    return pool


def _insert(connection: Connection, rows: int) -> None:
    observed = observe(_quote(Sku("any")), TERMS)
    desired = desire(observed, TERMS)
    assert isinstance(desired, Desired)
    values = {
        "rows": rows,
        "now": CLOCK.now(),
        "hash": observed.fingerprint(),
        "price": observed.price,
        "quantity": observed.quantity,
        "locations": Jsonb(dict(observed.quantities)),
        "observed": Jsonb(observed.as_json()),
        "desired": Jsonb(desired.as_json()),
    }
    connection.execute("SELECT setseed(0.5)")
    connection.execute(FILL, values)
    connection.execute(FILL_STATE, values)


def _open_schedule(rows: int, pool: ConnectionPool) -> FilledSchedule:
    with pool.connection() as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    size_mb = row[0] // 1_000_000 if row else 0
    return FilledSchedule(rows=rows, schedule=Schedule(pool), now=CLOCK.now(), size_mb=size_mb)


def _reply(listings: Sequence[Listing]) -> Reply:
    """Answer as the table has it, except that one of ten is dearer by its own next fence."""
    quotes = {listing.sku: _quote(listing.sku) for listing in listings}
    if listings:
        first = listings[0]
        quotes[first.sku] = _quote(first.sku, Decimal(100 + first.fence))
    return Reply(quotes=quotes)


def _quote(sku: Sku, price: Decimal = Decimal(100)) -> Quote:
    return Quote(
        sku=sku,
        list_price=price,
        net_price=Decimal(80),
        currency="USD",
        quantities={"Dallas Central": 4, "Miami FL": 1},
    )


def _require_space(folder: Path, rows: int) -> None:
    needed_gb = rows * BYTES_PER_ROW / 1e9 + 1
    free_gb = shutil.disk_usage(folder).free / 1e9
    report_progress(
        f"{folder} has {free_gb:.0f} GB free, {rows:,} rows need about {needed_gb:.0f} GB"
    )
    if free_gb < needed_gb:
        raise ConfigError(
            f"{folder.parent} has {free_gb:.0f} GB free and the benchmark needs {needed_gb:.0f} GB;"
            " set TMPDIR to a larger disk or choose --rows 10000,1000000"
        )
