"""Two days of a shop that was taken over, in virtual time: the documents' queries are true."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.documents import queries
from tests.documents.databases import FORMER_SHOPS, ROWS, FormerShop, create
from tests.engine.conftest import EngineRig, RigMaker

from headway.clock import SystemClock
from headway.operations.callers import operator
from headway.operations.listings import BackfillBody, backfill
from headway.store.catalog.adoption import adopt
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.virtual_clock import VirtualClock

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
READ = "WHERE is_active AND last_sync_at > now() - interval '24 hours'"
EVENTS = "SELECT event_type, count(*) FROM sync_audit_log WHERE sync_timestamp > %s GROUP BY 1"


@pytest.fixture
def clock() -> VirtualClock:
    """Begin two days ago, so that the days end at the present of the database's own clock."""
    return VirtualClock(SystemClock().now() - 2 * DAY)


@pytest.fixture
def database(postgres: EmbeddedServer) -> Iterator[str]:
    postgres.ensure_database("test_adopted")
    yield postgres.dsn("test_adopted")
    postgres.drop_database("test_adopted")


@pytest.fixture(params=FORMER_SHOPS, ids=[shop.file for shop in FORMER_SHOPS])
def shop(request: pytest.FixtureRequest, database: str, clock: VirtualClock) -> FormerShop:
    with open_pool(database) as pool:
        with pool.connection() as connection:
            create(connection, request.param, clock.now())
        adopt(pool, clock)
    return request.param


def live(rig: EngineRig, until: datetime) -> None:
    """Read the supplier until that instant."""
    fetch = rig.app.fetch("worker-1")
    rig.drive(fetch, lambda: rig.clock.now() >= until, steps=20_000)


def answer(rig: EngineRig, query: str) -> list[tuple[Any, ...]]:
    return rig.ask(query.replace("%", "%%"))


def test_a_shop_lives_on_after_the_takeover_and_the_documents_queries_are_true(
    shop: FormerShop, make_rig: RigMaker, pool: ConnectionPool, clock: VirtualClock
) -> None:
    rig, begun_at = make_rig(policy=shop.policy), clock.now()
    due = dict(rig.ask("SELECT id, next_sync_at FROM product_sync_schedule"))
    assert rig.app.adopt() == 0, "the policy of the document keeps its slots"
    assert dict(rig.ask("SELECT id, next_sync_at FROM product_sync_schedule")) == due
    added = backfill(operator(rig.app, "test"), BackfillBody()).added
    assert added == 10, "products without a place in the schedule get theirs"
    for (sku,) in rig.ask("SELECT DISTINCT sku FROM product_sync_schedule"):
        rig.catalog.stock(sku, price="20", quantity=7)
    active = rig.one(queries.DEACTIVATED.replace("FALSE", "TRUE"))

    live(rig, begun_at + DAY + HOUR)
    changed = [f"WF{330000 + number}=K3" for number in range(100, 120)]
    for sku in changed:
        rig.catalog.stock(sku, price="21", quantity=7)
    for sku in changed[:5]:
        rig.catalog.stock(sku, price="20", quantity=3)
    live(rig, begun_at + 2 * DAY)

    read = rig.one("SELECT count(*) FROM product_sync_schedule " + READ)
    assert read >= 0.9 * active, "all parts are read within a day"
    by_status = dict(answer(rig, queries.BY_STATUS))
    assert by_status.keys() <= {"no_change", "updated", "success"}
    assert sum(by_status.values()) == read
    assert by_status["no_change"] > by_status["updated"] > 0
    by_hour = answer(rig, queries.BY_HOUR_WITH_CHANGES)
    assert sum(row[1] for row in by_hour) == active
    assert sum(row[2] for row in by_hour) == by_status["updated"]
    assert answer(rig, queries.BY_HOUR) == [row[:2] for row in by_hour]
    changes = [row for row in answer(rig, queries.RECENT_CHANGES) if row[1] > begun_at]
    values = {kind: (old, new) for _, _, kind, old, new in changes}
    assert values["price_changed"] == ("20", "21")
    assert values["quantity_changed"] == ("20", "20")
    assert {sku for sku, *_ in changes} <= set(changed)
    counts = Counter(dict(rig.ask(EVENTS, begun_at)))
    reads = rig.one("SELECT sum(cardinality(skus)) FROM call_ledger WHERE purpose = 'fetch'")
    assert counts["sync_started"] == counts["sync_completed"] >= reads > ROWS
    assert counts["dispatch_started"] >= rig.price_calls()
    assert answer(rig, queries.SYNCED_PER_HOUR)[0][0] > 0
    assert answer(rig, queries.SYNCED_TODAY)[0][0] <= read
    assert answer(rig, queries.OVERDUE) == [(15,)], "those that were deactivated"
    assert answer(rig, queries.SYNCING) == [(0,)]
    moved = "SELECT count(*) FROM product_sync_schedule WHERE is_active AND updated_at <= %s"
    assert rig.one(moved, begun_at) == 0
    tasks = """SELECT DISTINCT task_id FROM sync_audit_log
        WHERE sync_timestamp > %s AND error_code IS DISTINCT FROM 'TAKEN_OVER'"""
    assert rig.ask(tasks, begun_at) == [("worker-1",)]
