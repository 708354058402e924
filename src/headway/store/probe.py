"""What `headway doctor` asks of a database server: version, clock, and how we reach it."""

from dataclasses import dataclass
from datetime import datetime

from headway.store.pool import Pool, guarded

TRANSACTIONS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The server as one client sees it; a transaction pooler shows as several backends."""

    version: str
    place: str
    user: str
    clock: datetime
    backend_count: int
    is_read_only: bool


def probe(pool: Pool) -> ServerFacts:
    """Run a few transactions on one connection; each repeats the same statement with a parameter.

    Behind a pooler in transaction mode they may meet different backends, where anything that
    relied on the session (a prepared statement, a setting) would fail.
    """
    backends: set[int] = set()
    with guarded(), pool.connection() as connection:
        for number in range(TRANSACTIONS):
            with connection.transaction():
                row = connection.execute("SELECT pg_backend_pid(), %s::int", (number,)).fetchone()
                assert row is not None
                assert row[1] == number, "an answer to another question"
                backends.add(row[0])
        row = connection.execute(
            "SELECT current_setting('server_version'), current_user,"
            " pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,"
            " clock_timestamp()"
        ).fetchone()
        assert row is not None
        info = connection.info
        place = f"{info.host}:{info.port}/{info.dbname}"
    version, user, is_read_only, clock = row
    return ServerFacts(
        version=version,
        place=place,
        user=user,
        clock=clock,
        backend_count=len(backends),
        is_read_only=is_read_only,
    )
