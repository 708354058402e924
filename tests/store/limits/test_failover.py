"""The limiter after a failover: a promoted replica has lost the last calls, and says so in time."""

import shutil
from datetime import timedelta
from pathlib import Path

import psycopg

from headway.clock import SystemClock
from headway.core.limits.transitions import Granted, Permit, Resource, Window
from headway.store.limits.limiter import PostgresLimiter
from headway.store.migrate import upgrade
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.virtual_clock import VirtualClock

BOEING = Resource(key="boeing", rules=(Window(limit=2, span_s=60, gap_s=0),))
# A checkpoint writes the dirty pages below slowly, so it is far from done when the test ends.
SETTINGS = {"checkpoint_timeout": "1h", "checkpoint_completion_target": "0.9", "fsync": "on"}
DIRTY_PAGES = "CREATE TABLE pages AS SELECT n, repeat('x', 4000) FROM generate_series(1, 4000) n"
CHECKPOINT_TIMELINE = "SELECT timeline_id FROM pg_control_checkpoint()"


class Replica(EmbeddedServer):
    """A server that starts as a standby and is promoted before anybody uses it."""

    def _becomes_ready(self) -> bool:
        clock = SystemClock()
        while self._process is not None and self._process.poll() is None:
            try:
                with psycopg.connect(self.dsn("headway"), autocommit=True) as connection:
                    return connection.execute("SELECT pg_promote()").fetchone() == (True,)
            except psycopg.OperationalError:
                clock.sleep(0.05)
        return False


def make_call(dsn: str, clock: VirtualClock) -> float:
    """Make one call by a fresh process, and return how long it had to wait."""
    with open_pool(dsn, size=1) as pool:
        limiter = PostgresLimiter(pool, clock, [BOEING])
        permit = limiter.reserve(
            ["boeing"], owner="w1", purpose="quote", max_wait_s=1e6, lease_s=60, grace_s=10
        )
        assert isinstance(permit, Permit)
        clock.sleep(permit.wait_s)
        assert isinstance(limiter.begin(permit), Granted)
        limiter.settle(permit, sent=True)
        return permit.wait_s


def copy_as_standby(primary: Path, replica: Path) -> None:
    shutil.copytree(primary / "pg", replica / "pg", symlinks=True)
    shutil.copy(primary / "password", replica / "password")
    (replica / "pg" / "standby.signal").touch()


def test_a_promoted_replica_is_distrusted_before_its_first_checkpoint_ends(
    tmp_path: Path, clock: VirtualClock
) -> None:
    primary, replica = tmp_path / "primary", tmp_path / "replica"
    replica.mkdir(mode=0o700)
    first = EmbeddedServer(primary, clock=SystemClock(), settings=SETTINGS)
    with first:
        first.ensure_database("headway")
        with open_pool(first.dsn("headway"), size=1) as pool:
            upgrade(pool, SystemClock())
            with pool.connection() as connection:
                connection.execute(DIRTY_PAGES)
        make_call(first.dsn("headway"), clock)
        clock.sleep(3600)
        first.stop(immediate=True)
    copy_as_standby(primary, replica)
    with EmbeddedServer(primary, clock=SystemClock(), settings=SETTINGS) as server:
        waits = [make_call(server.dsn("headway"), clock) for _ in range(2)]
        assert waits == [0, 0], "the two calls that the replica never sees"

    promoted_at = clock.now()
    with Replica(replica, clock=SystemClock(), settings=SETTINGS) as server:
        make_call(server.dsn("headway"), clock)
        with psycopg.connect(server.dsn("headway")) as connection:
            assert connection.execute(CHECKPOINT_TIMELINE).fetchone() == (1,), "too easy"
    assert clock.now() - promoted_at >= timedelta(seconds=60)
