"""Connections: what they promise, and how a bad address is explained."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg import sql
from psycopg_pool import ConnectionPool

from headway.errors import ConfigError, HeadwayError, StoreError
from headway.store.pool import TIMEOUTS, VERSION_MIN, SoloPool, guarded, open_pool
from headway.store.server.embedded import EmbeddedServer

SECRET = "hunter2-and-more"


@contextmanager
def stranger(greeting: bytes) -> Iterator[int]:
    """A server that is not PostgreSQL, on a free port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1024)
            self.request.sendall(greeting)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def refusal(dsn: str) -> HeadwayError:
    with pytest.raises(HeadwayError) as caught:
        open_pool(dsn)
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    assert caught.value.__cause__ is None
    return caught.value


def insert_then_fail(conn: psycopg.Connection) -> None:
    with conn.transaction():
        conn.execute("INSERT INTO kept VALUES (1)")
        conn.execute("SELECT 1 / 0")


PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%%::int + 1%%'"


def prepared(connection: psycopg.Connection) -> object:
    """Return how many statements this session keeps after one was repeated."""
    for _ in range(12):
        connection.execute("SELECT %s::int + 1", (1,))
    return connection.execute(PREPARED).fetchone()


def test_connections_to_the_server_itself_commit_by_themselves_and_prepare(
    pool: ConnectionPool,
) -> None:
    with pool.connection() as conn:
        assert conn.autocommit
        assert prepared(conn) == (1,)
        assert conn.execute("SHOW application_name").fetchone() == ("headway",)


def test_a_changed_column_ends_the_connection_that_prepared_its_statement(database: str) -> None:
    """PostgreSQL refuses the old plan for ever; the next connection makes a new one."""
    with open_pool(database, size=1) as pool:
        with pool.connection() as conn:
            conn.execute("CREATE TABLE kept (a int)")
            for _ in range(12):
                conn.execute("SELECT a FROM kept")
        with psycopg.connect(database, autocommit=True) as migration:
            migration.execute("ALTER TABLE kept ALTER a TYPE text")
        with pytest.raises(StoreError), guarded(), pool.connection() as conn:
            conn.execute("SELECT a FROM kept")
        with pool.connection() as conn:
            assert conn.execute("SELECT a FROM kept").fetchall() == []


def test_a_transaction_that_raises_leaves_nothing(pool: ConnectionPool) -> None:
    with pool.connection() as conn:
        conn.execute("CREATE TABLE kept (a int)")
        with pytest.raises(psycopg.errors.DivisionByZero):
            insert_then_fail(conn)
        assert conn.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def shown_timeouts(connection: psycopg.Connection) -> list[object]:
    return [connection.execute(f"SHOW {name}").fetchone() for name in TIMEOUTS]


def test_every_transaction_is_ended_if_it_stays_idle_or_waits_for_a_lock(database: str) -> None:
    limits = [(value,) for value in TIMEOUTS.values()]
    with open_pool(database) as pool, closing(SoloPool(database)) as solo:
        for lender in (pool, solo):
            with lender.connection() as connection, connection.transaction():
                assert shown_timeouts(connection) == limits
                with connection.transaction():
                    assert shown_timeouts(connection) == limits


def lock_for(pool: ConnectionPool, setting: str) -> None:
    with guarded(), pool.connection() as connection, connection.transaction():
        connection.execute(f"SET LOCAL {setting}")
        connection.execute("LOCK TABLE limiter IN ACCESS EXCLUSIVE MODE")


def test_a_host_that_vanished_inside_a_transaction_frees_what_it_locked(database: str) -> None:
    def vanish() -> None:
        with pool.connection() as silent, silent.transaction():
            silent.execute("SET LOCAL idle_in_transaction_session_timeout = '100ms'")
            silent.execute("LOCK TABLE limiter IN ACCESS EXCLUSIVE MODE")
            lock_for(pool, "timezone = 'UTC'")  # returns once the silent session was ended

    with (
        open_pool(database, size=2) as pool,
        pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout),
    ):
        vanish()


def test_a_lock_that_is_kept_too_long_is_an_error_with_advice(database: str) -> None:
    with open_pool(database, size=2) as pool, pool.connection() as holder, holder.transaction():
        holder.execute("LOCK TABLE limiter IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreError, match="another process kept what this one needs"):
            lock_for(pool, "lock_timeout = '50ms'")


def test_instants_come_back_in_utc_whatever_zone_the_database_is_in(database: str) -> None:
    instant = datetime(2026, 7, 1, 12, 30, 0, 123456, tzinfo=UTC)
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(
            sql.SQL("ALTER DATABASE {} SET timezone = 'Asia/Kolkata'").format(
                sql.Identifier(owner.info.dbname)
            )
        )
    with open_pool(database) as pool, pool.connection() as conn:
        row = conn.execute("SELECT %s, ARRAY[%s]", (instant, instant)).fetchone()
        assert row == (instant, [instant])
        assert row[0].tzinfo is UTC
        assert row[1][0].tzinfo is UTC


def test_a_lost_connection_fails_once_and_is_replaced(database: str) -> None:
    with open_pool(database, size=1) as pool:
        with pool.connection() as conn:
            pid = conn.info.backend_pid
        with psycopg.connect(database, autocommit=True) as other:
            assert other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,)).fetchone()
        with pytest.raises(StoreError), guarded(), pool.connection() as conn:
            conn.execute("SELECT 1")
        with guarded(), pool.connection() as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)


def test_a_solo_pool_lends_the_same_connection_again_and_two_at_once(database: str) -> None:
    with closing(SoloPool(database)) as pool:
        with pool.connection() as first:
            assert first.autocommit
            with pool.connection() as second:
                assert second is not first
        with pool.connection() as again:
            assert again is first
    assert first.closed
    assert second.closed


def test_what_a_solo_pools_borrower_left_unfinished_is_undone(database: str) -> None:
    def begin_and_fail() -> None:
        with pool.connection() as conn:
            conn.execute("BEGIN")
            conn.execute("INSERT INTO kept VALUES (1)")
            raise KeyboardInterrupt

    with closing(SoloPool(database)) as pool:
        with pool.connection() as conn:
            conn.execute("CREATE TABLE kept (a int)")
        with pytest.raises(KeyboardInterrupt):
            begin_and_fail()
        with pool.connection() as conn:
            assert conn.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_guarded_converts_the_drivers_errors_to_one_line_and_leaves_others_alone(
    pool: ConnectionPool,
) -> None:
    with (
        pytest.raises(StoreError, match='relation "nowhere" does not exist') as caught,
        guarded(),
        pool.connection() as conn,
    ):
        conn.execute("SELECT FROM nowhere")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, psycopg.Error)
    with pytest.raises(KeyError), guarded():
        raise KeyError


def test_a_port_where_nobody_listens_is_named_with_advice() -> None:
    port = closed_port()
    error = refusal(f"postgresql://me:{SECRET}@127.0.0.1:{port}/shop")
    assert isinstance(error, StoreError)
    assert f"127.0.0.1:{port}/shop does not answer; start PostgreSQL" in str(error)


def test_a_host_that_does_not_exist_is_a_wrong_setting() -> None:
    error = refusal(f"postgresql://me:{SECRET}@no-such-host.invalid/shop")
    assert isinstance(error, ConfigError)
    assert str(error).startswith("no-such-host.invalid:5432/shop: no such host")


def test_a_wrong_password_is_a_wrong_setting(postgres: EmbeddedServer) -> None:
    right = psycopg.conninfo.conninfo_to_dict(postgres.dsn("postgres"))
    error = refusal(psycopg.conninfo.make_conninfo(**right | {"password": SECRET}))
    assert isinstance(error, ConfigError)
    assert f"127.0.0.1:{right['port']}/postgres refuses this user or password" in str(error)


def test_a_missing_database_is_a_wrong_setting(postgres: EmbeddedServer) -> None:
    error = refusal(postgres.dsn("nowhere"))
    assert isinstance(error, ConfigError)
    assert "/nowhere has no such database" in str(error)
    password = psycopg.conninfo.conninfo_to_dict(postgres.dsn())["password"]
    assert str(password) not in str(error)


@pytest.mark.parametrize("mode", ("prefer", "disable"))
def test_a_web_server_is_recognised_as_not_postgresql(mode: str) -> None:
    with stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        error = refusal(f"postgresql://me:{SECRET}@127.0.0.1:{port}/shop?sslmode={mode}")
    assert isinstance(error, ConfigError)
    assert f"127.0.0.1:{port}/shop does not speak PostgreSQL" in str(error)


def test_an_old_postgresql_is_refused_by_its_version() -> None:
    # What a PostgreSQL 14 that trusts everybody says: welcome, my version, ready.
    old = b"R\0\0\0\x08\0\0\0\0" + b"S\0\0\0\x18server_version\x0014.9\0" + b"Z\0\0\0\x05I"
    with stranger(old) as port:
        error = refusal(f"postgresql://me:{SECRET}@127.0.0.1:{port}/shop?sslmode=disable")
    assert isinstance(error, ConfigError)
    assert f"shop is PostgreSQL 14; headway needs {VERSION_MIN} or newer" in str(error)


@pytest.mark.parametrize(
    "dsn",
    (
        f"postgresql://me:{SECRET}@x@host/shop",
        f"postgresql://me:x@{SECRET}@host/shop",
        f"postgresql://me:{SECRET}/more@host/shop",
        f"postgresql://me:5432/{SECRET}@host/shop",
        f"mysql://me:{SECRET}@host/shop",
        SECRET,
        "",
    ),
)
def test_an_unreadable_address_is_refused_without_being_shown(dsn: str) -> None:
    error = refusal(dsn)
    assert isinstance(error, ConfigError)
    assert str(error).startswith("DATABASE_URL cannot be read")
