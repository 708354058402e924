"""A process is killed every second: no limit is exceeded, nothing is lost or done twice."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.scale.conftest import Report, own_database
from tests.scale.deployment import CLOCK, open_deployment
from tests.scale.storm import Storm
from tests.scale.truth import breaches
from tests.scale.workers import ProcessGroup

from headway.runners.valkey import EmbeddedValkey
from headway.store.migrate import upgrade
from headway.store.pool import open_pool

SELLERS = ("acme", "birch", "cedar", "dogwood", "elm", "fir", "gum", "hazel")
PARTS = tuple(f"P{number}" for number in range(24))
WORKERS = 5
# Low enough that the limit binds all the time.
CALLS_PER_MIN = 60


# Slow enough that many are killed after the shop has the write and before the reply.
SLOW_S = (0.5, 1.5)
# A started call of a killed worker counts until its lease ends: twice these, and half a minute.
PATIENCE = {f"HEADWAY_{name}_TIMEOUT_S": "10" for name in ("BOEING", "SHOPIFY", "PLATFORM")}
# Both can be set in the environment to repeat a storm or to shorten it.
SEED = int(os.environ.get("STORM_SEED", "1"))
LONG_S = int(os.environ.get("STORM_SECONDS", "600"))
VALKEY_EVERY, POSTGRES_EVERY = 20, 75
# Leases of killed workers end later for clocks that are three minutes behind;
# until then there may be no output at all.
SILENCE_S = 300


@contextmanager
def start_storm(
    database: str, pool: ConnectionPool, folder: Path, valkey: EmbeddedValkey
) -> Iterator[Storm]:
    """Add sellers, and start workers."""
    limits: dict[str, Any] = {"calls_per_min": CALLS_PER_MIN, "shop_delay_s": SLOW_S}
    with open_deployment(database, pool, folder, SELLERS, **limits) as deployment:
        for seller in SELLERS:
            deployment.add_seller(seller, *PARTS, stock=1)
        for seller in SELLERS[:3]:
            deployment.trade(seller, PARTS[0], orders=2)
        group = ProcessGroup(
            environ={**deployment.environ, **PATIENCE, "HEADWAY_BROKER_URL": valkey.url}
        )
        try:
            for _ in range(WORKERS):
                group.start("worker")
            yield Storm(deployment=deployment, group=group, seed=SEED)
        finally:
            group.stop()


# Five starts of a process each second need more than a processor, which others may need too.
@pytest.mark.timeout(600)
def test_a_worker_killed_every_second_for_half_a_minute_harms_nothing(
    database: str, pool: ConnectionPool, tmp_path: Path, valkey: EmbeddedValkey, report: Report
) -> None:
    with start_storm(database, pool, tmp_path / "vault", valkey) as storm:
        storm.run(30)
        recovery_s = storm.settle()
        report(f"{storm.figures()}; all settled {recovery_s:.0f} s after the last kill")
        assert breaches(storm.deployment) == []


@pytest.mark.campaign
@pytest.mark.timeout(LONG_S + 900)
def test_ten_minutes_of_kills_of_workers_broker_and_database_harm_nothing(
    tmp_path: Path, valkey: EmbeddedValkey, report: Report
) -> None:
    with own_database({}, tmp_path / "own") as server, open_pool(server.dsn()) as pool:
        upgrade(pool, CLOCK)

        def kill_server(second: int) -> None:
            if second % VALKEY_EVERY == VALKEY_EVERY - 1:
                with valkey.client() as client:
                    client.flushall()
                valkey.kill()
                valkey.start()
            if second % POSTGRES_EVERY == POSTGRES_EVERY - 1:
                server.stop(immediate=True)
                server.start()
                pool.check()

        with start_storm(server.dsn(), pool, tmp_path / "vault", valkey) as storm:
            storm.expires_leases = False  # so that rescue depends only on silence
            storm.group.patience_s = SILENCE_S
            storm.run(LONG_S, kill_server)
            recovery_s = storm.settle()
            report(f"{storm.figures()}; all settled {recovery_s:.0f} s after the last kill")
            assert breaches(storm.deployment) == []
