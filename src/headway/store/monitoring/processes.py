"""Processes on this database: each reports itself regularly, and is removed when it stops.

The server's clock decides which process is silent, so a host with a wrong clock is handled like
any other, and its offset is reported.
"""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

from headway import __version__
from headway.clock import Clock, fresh_id
from headway.store.migrate import load
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

SILENT = timedelta(minutes=2)

SERVER_CLOCK = "SELECT clock_timestamp()"
SEE = """
INSERT INTO processes AS row (id, verb, host, pid, version, migrations_known, settings,
  clock_ahead_ms)
VALUES (%(id)s, %(verb)s, %(host)s, %(pid)s, %(version)s, %(migrations_known)s,
  %(settings)s, %(ahead_ms)s)
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), clock_ahead_ms = %(ahead_ms)s
"""
EXISTS = "SELECT to_regclass('processes') IS NOT NULL"
LEAVE = "DELETE FROM processes WHERE id = %s"
FORGET = "DELETE FROM processes WHERE seen_at < clock_timestamp() - %s"
ALIVE = """
SELECT id::text, verb, host, pid, version, migrations_known, settings, clock_ahead_ms, started_at,
  seen_at
FROM processes WHERE seen_at >= clock_timestamp() - %s ORDER BY host, verb, started_at
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process on this database, as it reports itself.

    `settings` are digests of what must be the same everywhere; `clock_ahead_ms` is how far the
    clock of its host is before the database's.
    """

    id: str
    verb: str
    host: str
    pid: int
    version: str
    migrations_known: int
    settings: Mapping[str, str]
    clock_ahead_ms: float
    started_at: datetime
    seen_at: datetime

    @property
    def name(self) -> str:
        """Its name for people."""
        return f"{self.verb} {self.host}:{self.pid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """The report of a process about itself."""

    verb: str
    settings: Mapping[str, str]
    id: str = field(default_factory=fresh_id)
    host: str = field(default_factory=platform.node)
    pid: int = field(default_factory=os.getpid)
    version: str = __version__
    migrations_known: int = field(default_factory=lambda: len(load()))


class Processes(Queries):
    """Table `processes`."""

    def see(self, presence: Presence, clock: Clock) -> None:
        """Store the report of a process, and the offset of its host's clock."""
        values = {**asdict(presence), "settings": json.dumps(dict(presence.settings))}
        with guarded(), self._pool.connection() as connection:
            asked_at = clock.now()
            server_at = connection.execute(SERVER_CLOCK).fetchall()[0][0]
            ahead = -clock_offset(server_at, asked_at=asked_at, answered_at=clock.now())
            values["ahead_ms"] = ahead / timedelta(milliseconds=1)
            connection.execute(SEE, values)
            connection.execute(FORGET, (10 * SILENT,))

    def leave(self, presence: Presence) -> None:
        """Delete the report of a process that ends."""
        self._write(LEAVE, (presence.id,))

    def alive(self) -> list[Process]:
        """Return the processes that reported lately; none if the schema has no such table."""
        with guarded(), self._pool.connection() as connection:
            if connection.execute(EXISTS).fetchone() != (True,):
                return []
            return read_as(connection, Process, ALIVE, (SILENT,))


def clock_offset(server_at: datetime, *, asked_at: datetime, answered_at: datetime) -> timedelta:
    """Return how far the server's clock is ahead of ours.

    The server read its clock between request and reply; only an offset beyond that span counts.
    """
    return server_at - max(asked_at, min(server_at, answered_at))
