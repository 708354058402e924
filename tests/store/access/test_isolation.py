"""Tenant isolation between sellers, enforced by a real PostgreSQL."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import FAST, memory_folder

from headway.clock import SystemClock
from headway.core.catalog.listings import SellerId
from headway.errors import ConfigError
from headway.store import migrate
from headway.store.access.isolation import ROLE, TenantPool
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.virtual_clock import VirtualClock

ACME, BOLT = SellerId("acme"), SellerId("bolt")
LISTED = "SELECT user_id, sku FROM product_sync_schedule ORDER BY user_id, sku"
ADD = (
    "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)"
    " VALUES (%s, %s, 0, now())"
)
SAY = (
    "INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)"
    " VALUES (%s, 'A', now(), 'listing_revived')"
)
# Every table of ours: has it a seller, is row security in force, may the role use it at all?
TABLES = f"""
SELECT relname,
  EXISTS (SELECT FROM pg_attribute WHERE attrelid = ours.oid AND attname = 'user_id'
    AND NOT attisdropped),
  relrowsecurity AND EXISTS (SELECT FROM pg_policy WHERE polrelid = ours.oid AND polcmd = '*'
    AND pg_get_expr(polqual, polrelid) LIKE '%user_id = %headway.seller%'
    AND pg_get_expr(polwithcheck, polrelid) LIKE '%user_id = %headway.seller%'
    AND polroles = ARRAY['{ROLE}'::regrole::oid]),
  has_table_privilege('{ROLE}', ours.oid, 'DELETE, TRUNCATE, TRIGGER')
  OR has_any_column_privilege('{ROLE}', ours.oid, 'SELECT, INSERT, UPDATE, REFERENCES')
FROM pg_class AS ours
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
"""
SECRET = {
    "access_keys", "sessions", "login_links", "login_attempts", "idempotency", "credential",
    "credential_refresh", "oauth_flows", "limiter", "call_ledger", "boeing_raw_data", "processes",
    "alert_states", "outbox",
}  # fmt: skip


@pytest.fixture
def two_sellers(pool: ConnectionPool) -> ConnectionPool:
    with pool.connection() as connection:
        for key in ((ACME, "A"), (ACME, "B"), (BOLT, "A")):
            connection.execute(ADD, key)
    return pool


def test_every_table_of_sellers_has_row_security_and_no_other_is_open_to_them(
    pool: ConnectionPool,
) -> None:
    with pool.connection() as connection:
        rows = connection.execute(TABLES).fetchall()
    assert len(rows) > 25
    for name, is_of_sellers, is_isolated, is_open in rows:
        assert is_isolated == is_of_sellers, f"{name} needs row security: see migration 0006"
        assert is_of_sellers or not is_open, f"{name} has no seller, but is open to all of them"
        assert name not in SECRET or not is_open, f"{name} holds what no seller may see"


def test_a_query_that_forgets_its_seller_finds_only_its_own(two_sellers: ConnectionPool) -> None:
    with TenantPool(two_sellers, actor="x", seller=ACME).connection() as connection:
        assert connection.execute(LISTED).fetchall() == [(ACME, "A"), (ACME, "B")]
        query = "SELECT FROM product_sync_schedule WHERE user_id = 'bolt'"
        assert connection.execute(query).fetchall() == []
    with TenantPool(two_sellers, actor="x").connection() as connection:
        assert len(connection.execute(LISTED).fetchall()) == 3


def test_under_the_role_but_without_a_seller_there_is_nothing(two_sellers: ConnectionPool) -> None:
    with two_sellers.connection() as connection:
        for setting in (
            "SET ROLE headway_seller",
            "SELECT set_config('headway.seller', '', false)",
        ):
            connection.execute(setting)
            assert connection.execute(LISTED).fetchall() == []
        connection.execute("RESET ROLE; RESET headway.seller")


@pytest.mark.parametrize(
    ("statement", "refusal"),
    (
        (SAY.replace("%s", "'bolt'"), "row-level security"),
        ("UPDATE product_sync_schedule SET user_id = 'bolt' WHERE sku = 'B'", "row-level security"),
        ("INSERT INTO pauses (kind) VALUES ('all')", "row-level security"),
        ("SELECT FROM credential", "permission denied"),
        ("SELECT FROM access_keys", "permission denied"),
        ("SELECT FROM call_ledger", "permission denied"),
        ("UPDATE profiles SET tier = 'pro'", "permission denied"),
        ("DELETE FROM sync_audit_log", "permission denied"),
        ("UPDATE sync_audit_log SET actor = 'somebody else'", "permission denied"),
        ("TRUNCATE product_staging", "permission denied"),
        ("CREATE TABLE mine (a int)", "permission denied"),
    ),
)
def test_access_to_another_sellers_rows_is_refused(
    two_sellers: ConnectionPool, statement: str, refusal: str
) -> None:
    own_pool = TenantPool(two_sellers, actor="x", seller=ACME)
    with pytest.raises(psycopg.Error, match=refusal), own_pool.connection() as connection:
        connection.execute(statement)


def test_an_update_and_a_delete_touch_only_their_own(two_sellers: ConnectionPool) -> None:
    with TenantPool(two_sellers, actor="x", seller=ACME).connection() as connection:
        hurried = connection.execute("UPDATE product_sync_schedule SET sync_priority = 9")
        assert hurried.rowcount == 2
    with two_sellers.connection() as connection:
        connection.execute(
            "INSERT INTO pauses (kind, user_id) VALUES ('all', NULL), ('seller', 'bolt')"
        )
        # A supplier's pause is visible to its sellers; a seller without a choice buys from main.
        connection.execute(
            "INSERT INTO pauses (kind, supplier) VALUES ('supplier', 'main'), ('supplier', 'east')"
        )
    with TenantPool(two_sellers, actor="x", seller=ACME).connection() as connection:
        pauses = connection.execute("SELECT kind, supplier FROM pauses ORDER BY kind").fetchall()
        assert pauses == [("all", None), ("supplier", "main")]
        assert connection.execute("DELETE FROM pauses").rowcount == 0


def test_events_name_their_actor_with_tenant_isolation_and_without(pool: ConnectionPool) -> None:
    with TenantPool(pool, actor="the key of acme", seller=ACME).connection() as connection:
        connection.execute(SAY, (ACME,))
    with TenantPool(pool, actor="ops").connection() as connection:
        connection.execute(SAY, (BOLT,))
    with pool.connection() as connection:
        connection.execute(SAY, ("cogs",))
        rows = connection.execute("SELECT user_id, actor FROM sync_audit_log").fetchall()
    assert sorted(rows) == [(ACME, "the key of acme"), (BOLT, "ops"), ("cogs", None)]


def test_nothing_is_left_on_the_connection_as_a_pooler_wants_it(database: str) -> None:
    state = "SELECT current_user, current_setting('headway.seller', true), current_setting('role')"
    with open_pool(database, size=1) as pool:
        with pool.connection() as connection:
            owner, _, role = connection.execute(state).fetchone() or ()
        with TenantPool(pool, actor="x", seller=ACME).connection() as connection:
            assert connection.execute(state).fetchone() == (ROLE, ACME, ROLE)
        with (
            pytest.raises(psycopg.Error),
            TenantPool(pool, actor="x", seller=ACME).connection() as conn,
        ):
            conn.execute("SELECT nonsense")
        with pool.connection() as connection:
            assert connection.execute(state).fetchone() == (owner, "", role)


def test_what_was_begun_is_undone_when_the_block_raises(pool: ConnectionPool) -> None:
    def fail() -> None:
        with TenantPool(pool, actor="x", seller=ACME).connection() as connection:
            connection.execute(SAY, (ACME,))
            raise KeyError("midway")

    with pytest.raises(KeyError, match="midway"):
        fail()
    with pool.connection() as connection:
        assert connection.execute("SELECT FROM sync_audit_log").fetchall() == []


@pytest.fixture
def own_server(postgres: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """The server; the users and the database of these tests are gone afterwards."""
    yield postgres
    postgres.drop_database("test_rights")
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
        for role in ("may_nothing", "may_join"):
            connection.execute(f"DROP ROLE IF EXISTS {role}")


def owned(server: EmbeddedServer, name: str, role: str, rights: str) -> str:
    """Make a database that belongs to a role with these rights; return its address."""
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pass' NOSUPERUSER {rights}")
        connection.execute(f"CREATE DATABASE {name} OWNER {role}")
    return psycopg.conninfo.make_conninfo(server.dsn(name), user=role, password="pass")


def test_a_user_who_may_not_create_roles_gets_the_commands_for_an_administrator(
    own_server: EmbeddedServer, clock: VirtualClock
) -> None:
    dsn = owned(own_server, "test_rights", "may_nothing", "")
    with open_pool(dsn, size=1) as pool:
        with pytest.raises(ConfigError, match=r"GRANT headway_seller TO may_nothing;") as caught:
            migrate.upgrade(pool, clock)
        assert "\n" not in str(caught.value)
        assert migrate.current(pool) == 0
        with psycopg.connect(own_server.dsn("postgres"), autocommit=True) as administrator:
            administrator.execute("GRANT headway_seller TO may_nothing")
        migrate.upgrade(pool, clock)
        with TenantPool(pool, actor="x", seller=ACME).connection() as connection:
            assert connection.execute(LISTED).fetchall() == []


def test_a_user_who_does_not_own_the_tables_gets_an_error_instead_of_no_rows(
    own_server: EmbeddedServer, pool: ConnectionPool, database: str
) -> None:
    migrate.require_current(pool, "it")
    with psycopg.connect(own_server.dsn("postgres"), autocommit=True) as connection:
        connection.execute("CREATE ROLE may_join LOGIN PASSWORD 'pass' NOSUPERUSER")
    with pool.connection() as connection:
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO may_join")
    dsn = psycopg.conninfo.make_conninfo(database, user="may_join", password="pass")
    with open_pool(dsn, size=1) as other, pytest.raises(ConfigError, match="owner alone"):
        migrate.require_current(other, "it")
    with pool.connection() as connection:
        connection.execute("DROP OWNED BY may_join")


@pytest.fixture
def bare_server() -> Iterator[EmbeddedServer]:
    """Another server, where the role was never made."""
    with (
        tempfile.TemporaryDirectory(dir=memory_folder()) as folder,
        EmbeddedServer(Path(folder) / "server", clock=SystemClock(), settings=FAST) as server,
    ):
        yield server


def test_two_databases_that_are_made_at_once_share_the_role_and_need_no_superuser(
    bare_server: EmbeddedServer, clock: VirtualClock
) -> None:
    first = owned(bare_server, "test_rights", "may_create", "CREATEROLE")
    with psycopg.connect(bare_server.dsn("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE test_rights_other OWNER may_create")
    second = psycopg.conninfo.make_conninfo(first, dbname="test_rights_other")
    start, results = threading.Barrier(2), []

    def upgrade(dsn: str) -> None:
        with open_pool(dsn, size=1) as pool:
            start.wait()
            migrate.upgrade(pool, clock)
            with TenantPool(pool, actor="x", seller=ACME).connection() as connection:
                results.append(connection.execute(LISTED).fetchall())

    threads = [threading.Thread(target=upgrade, args=(dsn,)) for dsn in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[], []]


def test_what_works_with_the_owners_rights_is_open_to_nobody_but_the_role(
    pool: ConnectionPool,
) -> None:
    with pool.connection() as connection:
        open_ones = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"
            " AND prorettype <> 'trigger'::regtype"
            " AND has_function_privilege('public', oid, 'EXECUTE')"
        ).fetchall()
    assert open_ones == []
