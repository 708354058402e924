"""Through a pgbouncer in transaction mode: tenant isolation, locks, COPY, commands, a restart."""

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import FAST
from tests.pooler.bouncer import PgBouncer
from tests.pooler.conftest import sibling_folder
from tests.scale.workers import ProcessGroup
from tests.store.test_pool import prepared, shown_timeouts

from headway.cli.doctor_checks import examine_server
from headway.clock import SystemClock
from headway.core.catalog.listings import Priority, SellerId, Sku
from headway.core.timetable.policies import by_name
from headway.errors import ConfigError, StoreError
from headway.store import migrate
from headway.store.access.isolation import TenantPool
from headway.store.catalog.listings import Listings
from headway.store.pool import TIMEOUTS, guarded, open_pool
from headway.store.server.embedded import EmbeddedServer
from headway.store.server.probe import Pooling, probe
from headway_lab.virtual_clock import VirtualClock

LISTED = "SELECT user_id, pg_backend_pid() FROM product_sync_schedule"
WHO = "SELECT current_user, current_setting('headway.seller', true), current_setting('role')"
CLOCK = SystemClock()


def add_parts(pool: ConnectionPool, *sellers: str, parts: int = 1) -> None:
    keys = [(SellerId(seller), Sku(f"P{number}")) for seller in sellers for number in range(parts)]
    Listings(pool).add(
        keys, policy=by_name("rolling"), now=CLOCK.now(), priority=Priority.ONBOARDING
    )


def test_tenant_isolation_does_not_leak_to_another_client_of_the_same_connection(
    pool: ConnectionPool,
) -> None:
    sellers = [f"seller {number}" for number in range(6)]
    add_parts(pool, *sellers)
    reads: list[tuple[str, set[str]]] = []
    backends: set[int] = set()
    clear: list[object] = []
    start = threading.Barrier(len(sellers))

    def read_listings(seller: str) -> None:
        start.wait()
        for _ in range(20):
            with TenantPool(pool, actor=seller, seller=SellerId(seller)).connection() as connection:
                rows = connection.execute(LISTED).fetchall()
            reads.append((seller, {row[0] for row in rows}))
            backends.update(row[1] for row in rows)
            with pool.connection() as connection:
                clear.append(connection.execute(WHO).fetchone())

    threads = [threading.Thread(target=read_listings, args=(seller,)) for seller in sellers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reads) == 20 * len(sellers)
    assert all(visible == {seller} for seller, visible in reads)
    assert {item[1:] for item in clear if isinstance(item, tuple)} <= {("", "none"), (None, "none")}
    assert len(backends) < len(sellers), "clients did not share, so nothing was tried"


def test_nothing_stays_in_a_session_that_others_use(pool: ConnectionPool) -> None:
    limits = [(value,) for value in TIMEOUTS.values()]
    with pool.connection() as conn:
        assert prepared(conn) == (0,)
        with conn.transaction():
            assert shown_timeouts(conn) == limits
            with conn.transaction():
                assert shown_timeouts(conn) == limits
        assert shown_timeouts(conn) == [("0",), ("0",)]


def test_instants_come_back_in_utc_whatever_zone_the_session_is_in(pool: ConnectionPool) -> None:
    instant = datetime(2026, 7, 1, 12, 30, 0, 123456, tzinfo=UTC)
    with pool.connection() as conn:
        for zone in ("Asia/Kolkata", "America/New_York", "UTC"):
            with conn.transaction():
                conn.execute(f"SET LOCAL timezone = '{zone}'")
                row = conn.execute("SELECT %s, ARRAY[%s]", (instant, instant)).fetchone()
            assert row == (instant, [instant])
            assert row[0].tzinfo is UTC
            assert row[1][0].tzinfo is UTC


def test_copy_leaves_no_temporary_table_for_the_next_client(pool: ConnectionPool) -> None:
    add_parts(pool, "acme", parts=2000)
    add_parts(pool, "birch", parts=2000)
    with pool.connection() as connection:
        listed = connection.execute("SELECT count(*) FROM product_sync_schedule").fetchone()
        left = connection.execute("SELECT count(*) FROM pg_class WHERE relpersistence = 't'")
        assert (listed, left.fetchone()) == ((4000,), (0,))


def retry(act: Callable[[], None]) -> None:
    """Retry until the pooler has noticed that the server is back."""
    give_up_s = CLOCK.monotonic() + 60
    while True:
        try:
            return act()
        except StoreError:
            assert CLOCK.monotonic() < give_up_s


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_the_doctor_reports_the_mode_of_the_pooler(
    pgbouncer: str, postgres: EmbeddedServer, direct: str, mode: str
) -> None:
    with (
        PgBouncer(pgbouncer, sibling_folder(postgres, mode), direct, mode=mode) as between,
        open_pool(between.address_of(direct), size=2) as pool,
    ):
        server = probe(pool)
    assert server.pooling == mode
    lines = {check.subject: check for check in examine_server(server, "here")}
    verdicts = {"session": "warn", "transaction": "ok", "statement": "fail"}
    assert lines["connection"].verdict == verdicts[mode]
    assert ("set pool_mode = transaction" in lines["connection"].finding) == (mode != "transaction")
    with open_pool(direct, size=2) as pool:
        assert probe(pool).pooling is Pooling.NONE


@pytest.fixture
def server(postgres: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """A separate server that a test may restart; committed data survives a restart."""
    folder = sibling_folder(postgres, "behind")
    settings = FAST | {"synchronous_commit": "on"}
    with EmbeddedServer(folder, clock=CLOCK, settings=settings) as started:
        yield started
    shutil.rmtree(folder)


def test_clients_recover_after_a_restart_of_the_server(
    server: EmbeddedServer, pgbouncer: str, postgres: EmbeddedServer
) -> None:
    server.ensure_database("shop")
    folder, dsn = sibling_folder(postgres, "restarted"), server.dsn("shop")
    with (
        PgBouncer(pgbouncer, folder, dsn, size=1, wait_s=1) as between,
        open_pool(between.address_of(dsn), size=2) as pool,
    ):
        migrate.upgrade(pool, CLOCK)
        add_parts(pool, "acme")
        server.stop(immediate=True)
        with pytest.raises(StoreError) as caught, guarded(), pool.connection() as connection:
            connection.execute("SELECT 1")
        assert "\n" not in str(caught.value)
        server.start()
        retry(lambda: add_parts(pool, "birch"))
        with pool.connection() as connection:
            assert len(connection.execute(LISTED).fetchall()) == 2


@pytest.mark.parametrize(
    ("user", "database", "output"),
    (("headway", "nowhere", "has no such database"), ("nobody", "postgres", "refuses this user")),
)
def test_an_error_of_the_pooler_is_reported_like_one_of_the_server(
    bouncer: PgBouncer, user: str, database: str, output: str
) -> None:
    dsn = bouncer.address_of(f"dbname={database}").replace("//headway:", f"//{user}:")
    with pytest.raises(ConfigError, match=output):
        open_pool(dsn)


def test_commands_work_through_the_pooler(database: str, direct: str, tmp_path: Path) -> None:
    with psycopg.connect(direct, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    group = ProcessGroup(environ={"DATABASE_URL": database, "HEADWAY_DATA_DIR": str(tmp_path)})
    try:
        group.start("db", "upgrade")
        group.until_output("the database is at migration")
        group.start("doctor")
        group.start("api", "--port", "0")
        assert " ok " in group.until_output("through a pooler in transaction mode")
        page = group.until_output("The page: ").rpartition(" ")[2].partition("login/")[0]
        assert httpx.get(f"{page}readyz", timeout=60).json()["reasons"] == []
    finally:
        codes = group.stop()
    assert codes == [0, 0, 0]


def test_several_upgraders_apply_each_migration_once(
    direct: str, database: str, clock: VirtualClock
) -> None:
    with psycopg.connect(direct, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    start, results = threading.Barrier(3), list[list[str]]()

    def upgrade() -> None:
        with open_pool(database, size=1) as pool:
            start.wait()
            results.append(migrate.upgrade(pool, clock))

    threads = [threading.Thread(target=upgrade) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(itertools.chain(*results)) == [migration.label for migration in migrate.load()]
