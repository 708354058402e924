"""Checks of a database server for `headway doctor`: version, clock, connection, our rights."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

import psycopg

from headway.core.catalog.listings import SellerId
from headway.errors import StoreError
from headway.store.access.isolation import ROLE, TenantPool
from headway.store.pool import Pool, guarded
from headway.store.queries import read_as

ROUNDS = 3
SERVER = """
SELECT current_setting('server_version') AS version, current_user AS user,
  pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS is_read_only,
  clock_timestamp() AS clock,
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    AS connections_max
"""
# Older servers know no options of a membership: every member may become the role.
RIGHTS = f"""
SELECT rolsuper OR rolbypassrls AS bypasses_row_policies,
  current_schema() IS NOT NULL AS has_schema,
  coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create,
  has_database_privilege(current_database(), 'TEMPORARY') AS may_make_temporary,
  EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}')
  AND pg_has_role('{ROLE}', CASE WHEN current_setting('server_version_num')::int >= 160000
    THEN 'SET' ELSE 'MEMBER' END) AS may_be_seller
FROM pg_roles WHERE rolname = current_user
"""
# Our tables are those of the user who created the record of migrations.
CLOSED = """
SELECT relname FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
  AND relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('headway_migration'))
  AND (NOT has_table_privilege(oid, 'SELECT') OR NOT has_table_privilege(oid, 'INSERT')
    OR NOT has_table_privilege(oid, 'UPDATE') OR NOT has_table_privilege(oid, 'DELETE')
    OR row_security_active(oid))
ORDER BY relname
"""
EXISTS = "SELECT to_regclass('product_sync_schedule') IS NOT NULL"
BOUND = "SELECT row_security_active('product_sync_schedule')"
NOBODY = SellerId("")
NO_BLOCKS = "transaction blocks not allowed"


class Pooling(StrEnum):
    """The kind of pooler between us and the server, as far as it can be detected."""

    NONE = "none"
    SESSION = "session"
    TRANSACTION = "transaction"
    STATEMENT = "statement"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The server as one client sees it."""

    version: str
    place: str
    user: str
    clock: datetime
    pooling: Pooling
    is_read_only: bool
    connections: int
    connections_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRights:
    """Rights of our database role.

    Without a usable schema it sees no table at all. `closed` names our tables that it cannot use
    in full. Whether tenant isolation works is unknown before there are tables.
    """

    bypasses_row_policies: bool
    has_schema: bool
    may_create: bool
    may_make_temporary: bool
    may_be_seller: bool
    closed: tuple[str, ...]
    has_row_policies: bool | None


def probe(pool: Pool) -> ServerFacts:
    """Check the server over two connections, alternately."""
    with guarded(), pool.connection() as one, pool.connection() as other:
        pooling = _pooling(one, other)
        place = f"{one.info.host}:{one.info.port}/{one.info.dbname}"
        (facts,) = read_as(one, partial(ServerFacts, place=place, pooling=pooling), SERVER)
    return facts


def _pooling(first: "psycopg.Connection[Any]", other: "psycopg.Connection[Any]") -> Pooling:
    """Return the kind of pooler in between, from the backends that two clients alternately reach.

    A pooler reports backend numbers of its own, so the number from the login differs from the
    backend's own. With transaction pooling, two clients reach the same backend, or one of them
    reaches several; with session pooling, each keeps its own.
    """
    met: dict[int, set[int]] = {0: set(), 1: set()}
    for _ in range(ROUNDS):
        for number, connection in enumerate((first, other)):
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert row is not None
            met[number].add(row[0])
    if met == {0: {first.info.backend_pid}, 1: {other.info.backend_pid}}:
        return Pooling.NONE
    if met[0].isdisjoint(met[1]) and len(met[0]) == len(met[1]) == 1:
        return Pooling.SESSION
    try:
        with other.transaction():
            other.execute("SELECT 1")
    except psycopg.Error as error:
        if NO_BLOCKS in str(error):
            return Pooling.STATEMENT
        raise
    return Pooling.TRANSACTION


def rights(pool: Pool) -> RoleRights:
    """Check what our role may do, and tenant isolation where there is a schema."""
    with guarded(), pool.connection() as connection:
        rows: list[dict[str, bool]] = read_as(connection, dict, RIGHTS)
        closed = tuple(name for (name,) in connection.execute(CLOSED).fetchall())
        exists = connection.execute(EXISTS).fetchone() == (True,)
    has_row_policies = _has_row_policies(pool) if exists else None
    return RoleRights(**rows[0], closed=closed, has_row_policies=has_row_policies)


def _has_row_policies(pool: Pool) -> bool:
    """Act as a seller like a web request does, and check that the database isolates tenants."""
    try:
        with guarded(), TenantPool(pool, actor="doctor", seller=NOBODY).connection() as connection:
            return connection.execute(BOUND).fetchone() == (True,)
    except StoreError:
        return False
