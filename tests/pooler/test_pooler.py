"""Through a pgbouncer in transaction mode: walls, locks, streams, commands, a restart behind it."""

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import FAST
from tests.pooler.bouncer import Bouncer
from tests.pooler.conftest import beside
from tests.scale.workers import ProcessGroup

from headway.cli.doctor_database import examine_server
from headway.clock import SystemClock
from headway.core.catalog.listings import Priority, SellerId, Sku
from headway.core.timetable.policies import by_name
from headway.errors import ConfigError, StoreError
from headway.store import migrate
from headway.store.access.isolation import TenantPool
from headway.store.catalog.listings import Listings
from headway.store.pool import guarded, open_pool
from headway.store.server.embedded import EmbeddedServer
from headway.store.server.probe import Pooling, probe
from headway_lab.virtual_clock import VirtualClock

LISTED = "SELECT user_id, pg_backend_pid() FROM product_sync_schedule"
WHO = "SELECT current_user, current_setting('headway.seller', true), current_setting('role')"
CLOCK = SystemClock()


def enter(pool: ConnectionPool, *sellers: str, parts: int = 1) -> None:
    keys = [(SellerId(seller), Sku(f"P{number}")) for seller in sellers for number in range(parts)]
    Listings(pool).add(
        keys, policy=by_name("rolling"), now=CLOCK.now(), priority=Priority.ONBOARDING
    )


def test_tenant_isolation_does_not_leak_to_another_client_of_the_same_connection(
    pool: ConnectionPool,
) -> None:
    sellers = [f"seller {number}" for number in range(6)]
    enter(pool, *sellers)
    seen: list[tuple[str, set[str]]] = []
    backends: set[int] = set()
    clear: list[object] = []
    start = threading.Barrier(len(sellers))

    def look(seller: str) -> None:
        start.wait()
        for _ in range(20):
            with TenantPool(pool, actor=seller, seller=SellerId(seller)).connection() as connection:
                rows = connection.execute(LISTED).fetchall()
            seen.append((seller, {row[0] for row in rows}))
            backends.update(row[1] for row in rows)
            with pool.connection() as connection:
                clear.append(connection.execute(WHO).fetchone())

    threads = [threading.Thread(target=look, args=(seller,)) for seller in sellers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 20 * len(sellers)
    assert all(found == {seller} for seller, found in seen)
    assert {item[1:] for item in clear if isinstance(item, tuple)} <= {("", "none"), (None, "none")}
    assert len(backends) < len(sellers), "clients did not share, so nothing was tried"


def test_what_streams_in_leaves_no_table_for_the_next_client(pool: ConnectionPool) -> None:
    enter(pool, "acme", parts=2000)
    enter(pool, "birch", parts=2000)
    with pool.connection() as connection:
        listed = connection.execute("SELECT count(*) FROM product_sync_schedule").fetchone()
        left = connection.execute("SELECT count(*) FROM pg_class WHERE relpersistence = 't'")
        assert (listed, left.fetchone()) == ((4000,), (0,))


def until_it_works(act: Callable[[], None]) -> None:
    """Try again while the pooler has not noticed yet that the server is back."""
    give_up_s = CLOCK.monotonic() + 60
    while True:
        try:
            return act()
        except StoreError:
            assert CLOCK.monotonic() < give_up_s


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_the_doctor_tells_the_mode_of_the_pooler(
    pgbouncer: str, postgres: EmbeddedServer, direct: str, mode: str
) -> None:
    with (
        Bouncer(pgbouncer, beside(postgres, mode), direct, mode=mode) as between,
        open_pool(between.before(direct), size=2) as pool,
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
    """A server of its own, which a test may restart; what is committed survives that."""
    folder = beside(postgres, "behind")
    settings = FAST | {"synchronous_commit": "on"}
    with EmbeddedServer(folder, clock=CLOCK, settings=settings) as started:
        yield started
    shutil.rmtree(folder)


def test_after_a_restart_of_the_server_clients_go_on_where_they_were(
    server: EmbeddedServer, pgbouncer: str, postgres: EmbeddedServer
) -> None:
    server.ensure_database("shop")
    folder, dsn = beside(postgres, "restarted"), server.dsn("shop")
    with (
        Bouncer(pgbouncer, folder, dsn, size=1, wait_s=1) as between,
        open_pool(between.before(dsn), size=2) as pool,
    ):
        migrate.upgrade(pool, CLOCK)
        enter(pool, "acme")
        server.stop(immediate=True)
        with pytest.raises(StoreError) as caught, guarded(), pool.connection() as connection:
            connection.execute("SELECT 1")
        assert "\n" not in str(caught.value)
        server.start()
        until_it_works(lambda: enter(pool, "birch"))
        with pool.connection() as connection:
            assert len(connection.execute(LISTED).fetchall()) == 2


@pytest.mark.parametrize(
    ("user", "database", "output"),
    (("headway", "nowhere", "has no such database"), ("nobody", "postgres", "refuses this user")),
)
def test_what_the_pooler_refuses_is_told_as_if_the_server_had(
    bouncer: Bouncer, user: str, database: str, output: str
) -> None:
    dsn = bouncer.before(f"dbname={database}").replace("//headway:", f"//{user}:")
    with pytest.raises(ConfigError, match=output):
        open_pool(dsn)


def test_commands_work_through_it(database: str, direct: str, tmp_path: Path) -> None:
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
