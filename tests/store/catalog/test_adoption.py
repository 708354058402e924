"""A database of each design document, with 500 products, taken over."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.documents.databases import (
    FORMER_SHOPS,
    PLAN_V2,
    ROWS,
    SIMPLIFIED,
    SYSTEM_DESIGN,
    FormerShop,
    create,
)
from tests.documents.queries import PLAN_V2_QUERIES, SYNCING, SYSTEM_DESIGN_QUERIES

from headway.clock import SystemClock
from headway.errors import ConfigError, ConflictError
from headway.store import migrate
from headway.store.catalog.adoption import adopt, find_plan
from headway.store.monitoring.law_checks import LawChecks
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.virtual_clock import VirtualClock

NAMES = [shop.file for shop in FORMER_SHOPS]
COMMON = ("user_id", "sku", "consecutive_failures", "is_active", "last_boeing_hash", "last_sync_at")
# A row that was stuck is free again; a deactivated one has a name of its own.
STATUS = """
SELECT sku, user_id FROM before_headway.product_sync_schedule AS old
JOIN product_sync_schedule AS row USING (user_id, sku)
WHERE old.sync_status <> row.sync_status AND old.sync_status <> 'syncing'
  AND NOT (old.sync_status = 'failed' AND row.sync_status = 'parked' AND NOT row.is_active)
"""
STATES = """
SELECT sync_status, is_active, count(*) FROM product_sync_schedule
WHERE lease_until IS NULL GROUP BY 1, 2
"""
# The queries of the documents count from the database's own clock.
NOW = SystemClock().now()


@pytest.fixture
def empty(postgres: EmbeddedServer) -> Iterator[ConnectionPool]:
    """A pool on a database that was never migrated."""
    postgres.ensure_database("test_adoption")
    with open_pool(postgres.dsn("test_adoption")) as opened:
        yield opened
    postgres.drop_database("test_adoption")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


def rows(pool: ConnectionPool, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with pool.connection() as connection:
        return connection.execute(statement.encode(), values or None).fetchall()


def fill(pool: ConnectionPool, shop: FormerShop, *statements: str) -> None:
    with pool.connection() as connection:
        create(connection, shop, NOW)
        for statement in statements:
            connection.execute(statement.encode())


def answers(pool: ConnectionPool, shop: FormerShop) -> list[list[tuple[Any, ...]]]:
    """Return what the dashboard of a document shows, where it has one."""
    queries = {PLAN_V2: PLAN_V2_QUERIES, SYSTEM_DESIGN: SYSTEM_DESIGN_QUERIES}
    return [sorted(rows(pool, query), key=str) for query in queries.get(shop, ())]


@pytest.mark.parametrize("shop", FORMER_SHOPS, ids=NAMES)
def test_a_documents_database_is_described_and_taken_over_with_nothing_lost(
    empty: ConnectionPool, clock: VirtualClock, shop: FormerShop
) -> None:
    fill(empty, shop)
    before = answers(empty, shop)
    plan = find_plan(empty)
    assert plan is not None
    assert (plan.document.value, plan.policy, plan.impossible) == (shop.document, shop.policy, ())
    assert migrate.current(empty) == 0, "the plan changes nothing"

    adopted = adopt(empty, clock)

    assert migrate.pending(empty) == []
    assert adopted.rows == {
        table.table: table.rows for table in plan.tables
    }, "every row of every table"  # fmt: skip
    assert adopted.rows["product_sync_schedule"] == ROWS
    assert adopted.rows["product_staging"] == ROWS + 20
    # Each value is readable under its old name, but for those that have another type or meaning.
    same = ", ".join({*COMMON, *shop.columns} - {"sync_status", "last_successful_sync"})
    lost = f"""SELECT {same} FROM before_headway.product_sync_schedule
        EXCEPT ALL SELECT {same} FROM product_sync_schedule"""
    assert rows(empty, lost) == []
    assert answers(empty, shop) == before, "their dashboard shows the same"
    if "sync_status" in shop.columns:
        assert rows(empty, STATUS) == []
        assert rows(empty, SYNCING) == [(0,)]
    assert LawChecks(empty).blamed().count == 0, "each counted failure has an event"
    states = {(status, active): count for status, active, count in rows(empty, STATES)}
    assert sum(states.values()) == ROWS, "nobody holds a lease"
    assert (states["failed", True], states["parked", False]) == (40, 10)
    assert rows(empty, "SELECT count(*) FROM product WHERE warehouse_note IS NOT NULL") == [(102,)]
    assert rows(empty, "SELECT status_before_headway, status, count(*) FROM product_staging"
                " GROUP BY 1, 2 ORDER BY 1") == [
        ("fetched", "blocked", 10), ("published", "created", ROWS + 10)]  # fmt: skip


def test_what_stands_in_the_way_is_said_and_nothing_is_done(
    empty: ConnectionPool, clock: VirtualClock
) -> None:
    fill(
        empty,
        SIMPLIFIED,
        "CREATE TABLE profiles (id uuid PRIMARY KEY)",
        "CREATE TABLE favorite (product uuid REFERENCES product (id))",
        "UPDATE product_sync_schedule SET sku = ' WF1 ' WHERE sku = 'WF330005=K3'",
    )
    plan = find_plan(empty)
    assert plan is not None
    assert len(plan.impossible) == 3
    text = "\n".join(plan.impossible)
    assert "the foreign key favorite_product_fkey of favorite refers to product: drop" in text
    assert "profiles exists, and Headway has a table of that name: rename it" in text
    assert "1 rows of product_sync_schedule have a seller or part number that cannot be one" in text
    with pytest.raises(ConflictError, match=r"nothing was done: .*favorite"):
        adopt(empty, clock)
    assert rows(empty, "SELECT count(sync_slot) FROM product_sync_schedule") == [(ROWS,)]
    assert migrate.current(empty) == 0


def test_a_row_that_cannot_be_taken_over_is_named_and_nothing_is_done(
    empty: ConnectionPool, clock: VirtualClock
) -> None:
    fill(
        empty,
        SIMPLIFIED,
        "ALTER TABLE product ALTER COLUMN price TYPE text",
        "UPDATE product SET price = 'on request' WHERE sku = 'WF330005=K3'",
    )
    with pytest.raises(ConfigError, match=r"a row of product cannot be taken over: .*on request"):
        adopt(empty, clock)
    assert migrate.current(empty) == 0
    assert rows(empty, "SELECT to_regnamespace('before_headway') IS NULL") == [(True,)]


def test_views_and_readers_of_the_tables_find_ours(
    empty: ConnectionPool, clock: VirtualClock
) -> None:
    reader = "headway_test_reader"
    fill(
        empty,
        PLAN_V2,
        f"CREATE ROLE {reader}",
        f"GRANT SELECT ON product_sync_schedule TO {reader}",
        "CREATE VIEW failing AS SELECT sku, last_sync_error FROM product_sync_schedule"
        " WHERE last_sync_status = 'failed'",
    )
    try:
        adopt(empty, clock)
        with empty.connection() as connection:
            connection.execute("UPDATE product_sync_schedule SET last_error = 'ours'")
            found = connection.execute("SELECT DISTINCT last_sync_error FROM failing").fetchall()
            assert found == [("ours",)], "the view reads our table"
            connection.execute(f"SET ROLE {reader}".encode())
            count = "SELECT count(*) FROM product_sync_schedule"
            assert connection.execute(count.encode()).fetchone() == (ROWS,)
            connection.execute("RESET ROLE")
    finally:
        for statement in (f"DROP OWNED BY {reader}", f"DROP ROLE {reader}"):
            rows_of = empty.connection()
            with rows_of as connection:
                connection.execute(statement.encode())


def test_what_is_not_carried_over_is_listed_before_anything_is_done(
    empty: ConnectionPool, clock: VirtualClock
) -> None:
    fill(
        empty,
        PLAN_V2,
        "ALTER TABLE product ADD COLUMN shelf text NOT NULL DEFAULT 'A', ADD COLUMN bin text",
        "UPDATE product SET bin = sku || user_id",
        "ALTER TABLE product ALTER COLUMN bin SET NOT NULL, ADD CONSTRAINT one_bin UNIQUE (bin)",
        "CREATE INDEX by_shelf ON product (shelf)",
        "CREATE POLICY everybody ON product FOR SELECT USING (true)",
        "CREATE TRIGGER theirs BEFORE UPDATE ON product"
        " FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    )
    plan = find_plan(empty)
    assert plan is not None
    assert plan.not_carried == (
        "NOT NULL of product.bin, which has no default",
        "the constraint one_bin of product: UNIQUE (bin)",
        "the constraint product_pkey of product: PRIMARY KEY (id)",
        "the index by_shelf of product",
        "the policy everybody of product (SELECT for public)",
        "the trigger theirs of product",
    )
    assert adopt(empty, clock).plan.not_carried == plan.not_carried
    columns = """
      SELECT attname, attnotnull FROM pg_attribute WHERE attrelid = 'product'::regclass
        AND attname IN ('shelf', 'bin') ORDER BY 1"""
    assert rows(empty, columns) == [("bin", False), ("shelf", True)]
    assert rows(empty, "SELECT count(bin), min(shelf) FROM product") == [(ROWS + 10, "A")]


def test_the_documents_procedures_answer_from_our_tables(
    empty: ConnectionPool, clock: VirtualClock
) -> None:
    fill(empty, PLAN_V2)
    adopt(empty, clock)
    due = """
      UPDATE product_sync_schedule SET next_sync_at = now() - interval '1 hour'
      WHERE is_active AND sync_status <> 'syncing' RETURNING hour_bucket"""
    hours = [hour for (hour,) in rows(empty, due)]
    found = rows(empty, "SELECT hour_bucket FROM dispatch_sync_bucket(%s, 1000)", hours[0])
    assert found == [(hours[0],)] * hours.count(hours[0])
    assert rows(empty, "SELECT count(*) FROM dispatch_sync_catchup(30, 10, 7)") == [(7,)]
    following = """
      SELECT slot > now(), extract(hour FROM slot AT TIME ZONE 'UTC')::int,
        extract(minute FROM slot)::int FROM calculate_next_sync_at(7, 30) AS slot"""
    assert rows(empty, following) == [(True, 7, 30)]
    reading = "SELECT count(*) FROM product_sync_schedule WHERE sync_status = 'syncing'"
    assert rows(empty, reading) == [(0,)], "they dispatch nothing: only Headway calls the supplier"


def test_a_shop_without_a_schedule_is_taken_over_too(
    empty: ConnectionPool, clock: VirtualClock
) -> None:
    fill(empty, SIMPLIFIED, "DROP TABLE product_sync_schedule")
    plan = find_plan(empty)
    assert plan is not None
    assert plan.policy is None
    assert "headway backfill" in " ".join(plan.notes)
    assert adopt(empty, clock).rows["product"] == ROWS + 10


def test_other_databases_are_not_taken_over(
    empty: ConnectionPool, pool: ConnectionPool, clock: VirtualClock
) -> None:
    assert find_plan(empty) is None, "an empty one"
    assert find_plan(pool) is None, "one of ours"
    with pytest.raises(ConflictError, match="no design document made this database"):
        adopt(pool, clock)
