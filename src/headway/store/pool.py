"""Connections to PostgreSQL: prepared statements to the server itself, none through a pooler.

Decides how a bad address is explained, and that every instant comes back in UTC.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, cast

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format, TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from headway.errors import ConfigError, ConflictError, StoreError, StoreUnavailableError

CONNECT_TIMEOUT_S = 5
WAIT_TIMEOUT_S = 10
# By default the pool retries less and less often for five minutes. A restarted server is reached
# sooner if it gives up early, and the next request for a connection makes it try again.
RECONNECT_TIMEOUT_S = 5
# A host that vanishes inside a transaction holds its locks until its session is ended; those who
# wait for a lock outlast it.
IDLE_IN_TRANSACTION_S = 15
LOCK_WAIT_S = 20
TIMEOUTS = {
    "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_S}s",
    "lock_timeout": f"{LOCK_WAIT_S}s",
}
SET_TIMEOUTS = "SELECT " + ", ".join(
    f"set_config('{name}', '{value}', true)" for name, value in TIMEOUTS.items()
)
# A pooler reports process ids of its own at login, and may lend the session to others. The server
# itself reports the process that answers; only then does the session keep settings.
SET_UP_DIRECT = (
    "SELECT "
    + ", ".join(
        f"set_config('{name}', '{value}', false)"
        for name, value in {"timezone": "UTC", **TIMEOUTS}.items()
    )
    + " WHERE pg_backend_pid() = %s"
)
VERSION_MIN = 15
PREPARE_AFTER = 5
TIMESTAMPTZ = psycopg.adapters.types["timestamptz"].oid
DRIVERS_LOADER = cast("type[Loader]", psycopg.adapters.get_loader(TIMESTAMPTZ, Format.TEXT))
# SQLSTATE of a lost connection, a server that shuts down or starts, and one that is full.
NO_CONNECTION = ("08", "57P0", "53300")
# A trigger refuses what was erased on request; see the migration that makes `tombstones`.
ERASED_STATE = "HW002"
CONNECT_AGAIN = "connect it again on purpose: headway connect SHOP --after-erasure"
SHAPE = "postgresql://user:password@host:port/database"


class UtcLoader(Loader):
    """Reads timestamptz as UTC whatever zone the session is in, which we may not set."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._read = DRIVERS_LOADER(oid, context).load

    def load(self, data: Buffer) -> datetime:
        """Return the instant, in UTC."""
        instant: datetime = self._read(data)
        return instant.astimezone(UTC)


ADAPTERS = AdaptersMap(psycopg.adapters)
ADAPTERS.register_loader(TIMESTAMPTZ, UtcLoader)

KEYWORDS: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": None,
    "application_name": "headway",
    "connect_timeout": CONNECT_TIMEOUT_S,
    # A server that disappears without closing its connections is noticed within a minute.
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 45_000,
    "context": ADAPTERS,
}


class ServerConnection(psycopg.Connection[TupleRow]):
    """A connection that plans a statement once where it can: to the server itself.

    A pooler in between may lend the session to others. Then nothing is prepared, and each
    transaction sets its own timeouts.
    """

    is_direct = False

    @classmethod
    def connect(cls, conninfo: str = "", **kwargs: Any) -> "ServerConnection":  # noqa: ANN401 - as psycopg has it
        """Connect, and set the session up if there is no pooler in between."""
        connection = super().connect(conninfo, **kwargs)
        with connection.cursor() as cursor:
            cursor.execute(SET_UP_DIRECT, (connection.info.backend_pid,))
            connection.is_direct = cursor.fetchone() is not None
        if connection.is_direct:
            connection.prepare_threshold = PREPARE_AFTER
            # The session is in UTC, so the driver's own loader, which is faster, does as well.
            connection.adapters.register_loader(TIMESTAMPTZ, DRIVERS_LOADER)
        return connection

    @contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - as psycopg has it
    ) -> Iterator[psycopg.Transaction]:
        """Open a transaction that is ended if it stays idle or waits too long for a lock."""
        is_outermost = self.info.transaction_status == TransactionStatus.IDLE
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if is_outermost and not self.is_direct:
                self.execute(SET_TIMEOUTS)
            yield transaction

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """Close a connection whose prepared statements a schema change has made useless."""
        if isinstance(exc_val, psycopg.errors.FeatureNotSupported):
            self.close()
        super().__exit__(exc_type, exc_val, exc_tb)


class Pool(Protocol):
    """A source of connections, each for as long as a block lasts."""

    def connection(self) -> AbstractContextManager[psycopg.Connection[TupleRow]]:
        """Lend a connection; what was not finished when the block raises is undone."""
        ...


class Lent:
    """A pool of the one connection that its holder has: several stores read at one instant."""

    def __init__(self, connection: psycopg.Connection[TupleRow]) -> None:
        self._connection = connection

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[TupleRow]]:
        """Yield the connection unchanged."""
        yield self._connection


class SoloPool:
    """A pool for one thread, which never waits: it reuses a returned connection or opens another.

    A simulation borrows thirteen times a call, and a pool for many takes a twentieth of its time.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._idle: list[ServerConnection] = []

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[TupleRow]]:
        """Lend a connection; what was not finished when the block raises is undone."""
        connection = self._idle.pop() if self._idle else self._open()
        try:
            yield connection
        except BaseException:
            connection.close()  # which undoes it; an error of the run is rare, and may be anything
            raise
        self._idle.append(connection)

    def close(self) -> None:
        """Close what lies idle."""
        while self._idle:
            self._idle.pop().close()

    def _open(self) -> ServerConnection:
        return ServerConnection.connect(self._dsn, **KEYWORDS)


def open_pool(dsn: str, *, size: int = 8) -> ConnectionPool:
    """Open up to `size` connections; raises ConfigError or StoreError at once if there is none."""
    place = _place(dsn)
    _try_once(dsn, place)
    pool: ConnectionPool = ConnectionPool(
        dsn,
        connection_class=ServerConnection,
        min_size=1,
        max_size=size,
        kwargs=KEYWORDS,
        timeout=WAIT_TIMEOUT_S,
        reconnect_timeout=RECONNECT_TIMEOUT_S,
        name="headway",
        open=False,
    )
    pool.open()
    return pool


class _Guard:
    """Holds nothing, so one serves all; a generator would cost as much as a small statement."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, PoolTimeout):
            raise StoreUnavailableError(
                f"the database gave no connection for {WAIT_TIMEOUT_S} s; see whether it runs"
            ) from error
        if isinstance(error, psycopg.errors.LockNotAvailable):
            raise StoreError(
                f"another process kept what this one needs for {LOCK_WAIT_S} s; try again"
            ) from error
        if isinstance(error, psycopg.Error) and error.sqlstate == ERASED_STATE:
            raise ConflictError(f"{first_line(error)}; {CONNECT_AGAIN}") from error
        if isinstance(error, psycopg.OperationalError) and _is_unavailable(error):
            raise StoreUnavailableError(f"the database is down: {first_line(error)}") from error
        if isinstance(error, psycopg.Error):
            raise StoreError(f"the database refused: {first_line(error)}") from error


_GUARD = _Guard()


def guarded() -> AbstractContextManager[None]:
    """Raise the driver's errors as StoreError with one line of text."""
    return _GUARD


def _place(dsn: str) -> str:
    """Name the database as host:port/dbname; a DSN that might show its password is refused."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        parts = {}
    host, port = str(parts.get("host", "localhost")), str(parts.get("port", "5432"))
    name = str(parts.get("dbname", parts.get("user", "")))
    # An unescaped @ or / in a password ends up in these, and must not be shown.
    is_clean = parts and "@" not in host + name and port.replace(",", "").isdigit()
    if not is_clean:
        raise ConfigError(
            f"DATABASE_URL cannot be read; write it as {SHAPE}, special characters as %XX"
        )
    return f"{host}:{port}/{name}"


def _try_once(dsn: str, place: str) -> None:
    try:
        with psycopg.connect(dsn, **KEYWORDS) as conn:
            version = conn.info.server_version // 10000
    except psycopg.Error as error:
        raise _explained(error, place) from None  # the cause may hold the DSN
    if version < VERSION_MIN:
        raise ConfigError(f"{place} is PostgreSQL {version}; headway needs {VERSION_MIN} or newer")


def _explained(error: psycopg.Error, place: str) -> ConfigError | StoreError:
    message = str(error)
    if "authentication failed" in message or "no password supplied" in message:
        return ConfigError(f"{place} refuses this user or password; correct DATABASE_URL")
    if "does not exist" in message:
        return ConfigError(
            f"{place} has no such database or user; create it or correct DATABASE_URL"
        )
    if "SSL negotiation" in message or "expected authentication request" in message:
        return ConfigError(f"{place} does not speak PostgreSQL; correct DATABASE_URL")
    if "translate host name" in message or "resolve host" in message:
        return ConfigError(f"{place}: no such host; correct DATABASE_URL")
    if "refused" in message or "timeout" in message or "unreachable" in message:
        return StoreError(
            f"{place} does not answer; start PostgreSQL there or correct DATABASE_URL"
        )
    return StoreError(f"{place} cannot be used: {first_line(error)}")


def _is_unavailable(error: psycopg.OperationalError) -> bool:
    """Return True if there is no connection any more, rather than a statement that failed."""
    return error.sqlstate is None or error.sqlstate.startswith(NO_CONNECTION)


def first_line(error: psycopg.Error) -> str:
    """Return the message of an error, without what follows its first line."""
    message = error.diag.message_primary or str(error)
    return message.strip().partition("\n")[0] or type(error).__name__
