"""Each hot statement uses the indexes its file names, with 100,000 rows in every table."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection
from tests.conftest import fresh_database

from headway.core.accounts.jobs import SCORES
from headway.store.server.embedded import EmbeddedServer
from headway.store.sql_files import read_sql

ROWS = 100_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=2)
STORE = Path(str(files("headway.store")))
FILES = sorted(STORE.glob("*/sql/*.sql"))
FIRST_ID = "00000000-0000-0000-0000-000000000001"
NUMBERS = f"generate_series(1, {ROWS}) AS n"
ID = "lpad(to_hex(n), 32, '0')::uuid"
AT = f"'{NOW.isoformat()}'::timestamptz"

# Ten sellers have all listings, one in a hundred of which is to be pushed. Each job has an account,
# and one in fifty is running. Replication mode skips triggers and foreign keys.
FILL = f"""
SET session_replication_role = replica;
INSERT INTO profiles (user_id) SELECT 's' || n FROM {NUMBERS};
INSERT INTO product_sync_schedule (id, user_id, sku, hour_bucket, next_sync_at, priority)
SELECT {ID}, 's' || n % 10, 'P' || n, n % 24, {AT} + n * interval '1 second',
  (ARRAY['manual', 'onboarding', 'scheduled', 'retry'])[1 + n % 4] FROM {NUMBERS};
INSERT INTO listing_state (user_id, sku, desired, push_at)
SELECT 's' || n % 10, 'P' || n, '{{}}',
  CASE WHEN n % 100 = 0 THEN {AT} - n * interval '1 second' END FROM {NUMBERS};
INSERT INTO product (user_id, sku, shop_sku)
SELECT 's' || n % 10, 'P' || n, 'P' || n FROM {NUMBERS};
INSERT INTO product_staging (user_id, sku, shop_sku, batch_id)
SELECT 's' || n % 10, 'P' || n, 'P' || n, {ID} FROM {NUMBERS};
INSERT INTO pauses (kind, user_id, sku, marked_at)
SELECT 'listing', 's' || n, 'P' || n, CASE WHEN n % 2 = 0 THEN {AT} END FROM {NUMBERS};
INSERT INTO connected_accounts (id, user_id, platform, shop)
SELECT {ID}, 's' || n, 'shopify', 'shop' || n FROM {NUMBERS};
INSERT INTO push_intent (id, account_id, user_id, kind, fence, skus, writes, created_at)
SELECT {ID}, {ID}, 's' || n, 'price', 1, '{{}}', '[]', {AT} FROM {NUMBERS};
INSERT INTO sync_jobs (id, account_id, user_id, platform, kind, job_type, score, next_run_at,
  status, lease_owner, lease_until)
SELECT {ID}, {ID}, 's' || n, 'etsy', 'orders', 'incremental', 12 + n % 3 * 10,
  {AT} + (n - 500) * interval '1 second',
  CASE WHEN n % 50 = 0 THEN 'running' WHEN n % 2 = 0 THEN 'queued' ELSE 'completed' END,
  CASE WHEN n % 50 = 0 THEN 'w' END, CASE WHEN n % 50 = 0 THEN {AT} END FROM {NUMBERS};
INSERT INTO limiter (limit_key, rules, state, lineage, updated_at)
SELECT 'shop:' || n, '[]', '{{}}', '', {AT} FROM {NUMBERS};
INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until)
SELECT {ID}, 'shop:' || n, 'w', 1, {AT}, {AT} FROM {NUMBERS};
ANALYZE;
"""
LISTING = {"id": FIRST_ID, "fence": 1, "user_id": "s1", "sku": "P1", "staging": {"status": "x"}}
VALUES = {
    # the timetable
    "supplier": "main",
    "this_month": "2026-01",
    "plan_notice": "the month's orders are used up",
    "without": ["P3"],
    "suspicion_max": 9,
    "skus": ["P1", "P2"],
    "retried": ["P1"],
    "rows": json.dumps([LISTING]),
    "ids": [UUID(FIRST_ID)],
    "events": json.dumps([{"id": FIRST_ID, "kind": "price_changed"}]),
    "call_id": FIRST_ID,
    "read_events": "auto",
    # leases
    "now": NOW,
    "owner": "worker 1",
    "lease_until": LATER,
    "is_progress": True,
    "bursts": "{}",
    "spacings": "{}",
    "id": FIRST_ID,
    "fence": 1,
    # pushes
    "user_id": "s1",
    "limit": 250,
    "expired_before": NOW,
    "read_after": NOW,
    "guard_move": 0.5,
    "oversell": "keep",
    "channels": None,
    "forgets_channels": False,
    "missing_scopes": [],
    "scopes": None,
    "storefront": "shopify",
    "locations": None,
    "forgets_locations": False,
    "keeps_lease": False,
    "ends": json.dumps([{"id": FIRST_ID, "state": "done", "result": "ok"}]),
    "narrows": "[]",
    # jobs
    "platforms": ["etsy"] * len(SCORES),
    "scores": list(SCORES),
    "busy": [],
    "quotas": "{}",
    "month": NOW.date(),
    "cursor": "{}",
    "calls": 1,
    "status": "completed",
    "event": "job_completed",
    "job_type": "incremental",
    "scores_by_tier": "{}",
    "facts": "{}",
    "error": None,
    "notice": "",
    "estimate": 2.0,
    "retry_count": 0,
    "wait_reason": "",
    "next_run_at": LATER,
    "revive_at": None,
    # permits
    "limit_key": "shop:1",
    "limit_keys": ["shop:1", "shop:2"],
    "xmin": "1",
    "started_at": NOW,
    "state": "{}",
    "lineage": "",
    "updated_at": NOW,
    "permit_id": FIRST_ID,
    "purpose": "fetch",
    "cost": 1.0,
    "begun_at": NOW,
    "finished_at": NOW,
    "arrived_by": NOW,
    "result": "ok",
    "http_status": 200,
    "seats_paid": 10,
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(postgres: EmbeddedServer) -> Iterator[Connection]:
    """A connection to a database with 100,000 rows in every table that a hot statement reads."""
    with fresh_database(postgres) as dsn, psycopg.connect(dsn) as connection:
        connection.execute(FILL)
        connection.commit()
        yield connection


def named_indexes(file: Path) -> list[str]:
    """Return the indexes that the comment of a statement names."""
    for line in file.read_text().splitlines():
        if line.startswith("-- index: "):
            return line.removeprefix("-- index: ").split(", ")
    return []


def plan(connection: Connection, file: Path) -> str:
    """Return the plan of a statement; a later statement may see none of its writes."""
    statement = read_sql(file.parent.parent.name, file.stem)
    if "{" in statement:
        statement = statement.format(limit=30, depth=14)
    rows = connection.execute("EXPLAIN (COSTS OFF) " + statement, VALUES).fetchall()
    return "\n".join(line for (line,) in rows)


def missing_indexes(connection: Connection, file: Path) -> list[str]:
    """Return the indexes that a statement's comment names and its plan does not use."""
    words = plan(connection, file).replace("\n", " ").split()
    return [name for name in named_indexes(file) if name not in words]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.parent.name}/{file.stem}")
def test_a_hot_statement_uses_the_indexes_its_comment_names(filled: Connection, file: Path) -> None:
    assert named_indexes(file), "the comment names no index"
    assert missing_indexes(filled, file) == [], plan(filled, file)


def test_the_check_fails_if_an_index_is_missing(filled: Connection) -> None:
    front = STORE / "timetable" / "sql" / "front.sql"
    filled.execute("DROP INDEX pauses_unmarked")
    assert missing_indexes(filled, front) == ["pauses_unmarked"]
    filled.rollback()
    assert missing_indexes(filled, front) == []


def test_every_hot_statement_says_what_it_does() -> None:
    assert len(FILES) >= 15
    assert [file for file in FILES if not file.read_text().startswith("-- ")] == []
