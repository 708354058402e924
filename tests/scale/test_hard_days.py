"""Hard days with real processes: after each, laws hold, and nothing is lost or done twice.

The recovery times are printed, not asserted.
"""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.conftest import FAST
from tests.scale.conftest import PARTS, Report, own_database
from tests.scale.deployment import CLOCK, open_deployment
from tests.scale.processes import SKEW, Child
from tests.scale.proxy import Proxy
from tests.scale.storm import Storm
from tests.scale.truth import breaches
from tests.scale.workers import ProcessGroup

from headway.runners.valkey import EmbeddedValkey
from headway.store.migrate import upgrade
from headway.store.pool import open_pool

WORKERS = 3
STALL_S = 25  # longer than a dispatch lease
OTHER = {"SYNC_BATCH_SIZE": "5", "HEADWAY_JOBS_MAX": "4"}
TICKER = "SELECT fence FROM dispatch_leases WHERE verb = 'tick'"


def begin(day: Storm, *, workers: int = WORKERS) -> list[Child]:
    """Start workers, and wait until they work."""
    started = [day.group.start("worker") for _ in range(workers)]
    day.group.until_output("fetch: read")
    day.move_prices()
    return started


@pytest.mark.campaign
def test_another_worker_ticks_when_the_one_that_ticks_is_killed(day: Storm, report: Report) -> None:
    first = day.group.start("worker")
    day.group.until(lambda: day.deployment.one(TICKER))
    day.group.start("worker")
    day.group.start("worker")
    day.group.until_output("fetch: read")
    fence = day.deployment.one(TICKER)
    day.kill(first)
    killed_s = CLOCK.monotonic()
    day.move_prices()
    day.group.until(lambda: day.deployment.one(TICKER) > fence)
    report(f"another ticks {CLOCK.monotonic() - killed_s:.1f} s after the kill")
    report(f"all settled after {day.settle():.0f} s more")
    assert breaches(day.deployment) == []


@pytest.mark.parametrize(
    "settings",
    ({}, pytest.param(FAST, marks=pytest.mark.campaign)),
    ids=("durable", "may lose commits"),
)
def test_work_resumes_after_a_database_crash(
    settings: dict[str, str], valkey: EmbeddedValkey, tmp_path: Path, report: Report
) -> None:
    with own_database(settings, tmp_path / "own") as server, open_pool(server.dsn()) as pool:
        upgrade(pool, CLOCK)
        with open_deployment(server.dsn(), pool, tmp_path / "vault", ("acme",)) as deployment:
            group = ProcessGroup(environ={**deployment.environ, "HEADWAY_BROKER_URL": valkey.url})
            day = Storm(deployment=deployment, group=group, seed=1, moves=5)
            deployment.add_seller("acme", *PARTS)
            deployment.trade("acme", PARTS[0], orders=2)
            try:
                workers = begin(day)
                crashed_at = CLOCK.now()
                server.stop(immediate=True)
                group.until(lambda: any("the database" in line for line in group.output))
                server.start()
                pool.check()
                day.move_prices()
                day.expire_leases_at(crashed_at)
                report(f"all settled {day.settle():.0f} s after its return")
                assert [worker.poll() for worker in workers] == [None] * WORKERS
                assert breaches(deployment) == []
            finally:
                group.stop()


@pytest.mark.campaign
@pytest.mark.parametrize("where", ("database", "broker", "supplier"))
def test_a_connection_that_stalls_for_a_while_harms_nothing(
    where: str, day: Storm, report: Report
) -> None:
    name = {
        "database": "DATABASE_URL",
        "broker": "HEADWAY_BROKER_URL",
        "supplier": "HEADWAY_BOEING_URL",
    }[where]
    address = day.group.environ[name]
    port = str(urlsplit(address).port)
    with Proxy(int(port)) as proxy:
        there = address.replace(f":{port}", f":{proxy.port}")
        day.group.environ = {**day.group.environ, name: there}
        begin(day)
        proxy.stall()
        for _ in range(STALL_S):
            day.move_prices()
            CLOCK.sleep(1)
        proxy.flow()
        report(f"all settled {day.settle():.0f} s after {STALL_S} s of silence")
        day.group.stop()
    assert breaches(day.deployment) == []


@pytest.mark.campaign
def test_workers_with_different_clocks_harm_nothing(day: Storm, report: Report) -> None:
    plain = day.group.environ
    for ahead_s in (80, 0, -80):
        day.group.environ = {**plain, SKEW: str(ahead_s)}
        day.group.start("worker")
    day.group.environ = plain
    day.group.until_output("fetch: read")
    for _ in range(5):
        day.move_prices()
        CLOCK.sleep(1)
    report(f"all settled after {day.settle():.0f} s, with clocks 160 s apart")
    day.group.start("doctor")
    assert "s off the" in day.group.until_output("the clock of")
    assert breaches(day.deployment) == []


def test_two_deployments_on_one_database_are_named_and_harm_nothing(
    day: Storm, tmp_path: Path, report: Report
) -> None:
    with EmbeddedValkey(tmp_path / "other", clock=CLOCK) as other:
        workers = begin(day, workers=2)
        plain = day.group.environ
        day.group.environ = {**plain, **OTHER, "HEADWAY_BROKER_URL": other.url}
        workers += [day.group.start("worker") for _ in range(2)]
        assert "batch_size, jobs_max" in day.group.until_output("with other settings")
        day.group.environ = plain
        day.move_prices()
        day.group.start("doctor")
        day.group.until_output("two deployments on one database?")
        day.move_prices()
        report(f"all settled after {day.settle():.0f} s")
        assert [worker.poll() for worker in workers] == [None] * 4
        day.group.stop()
    assert breaches(day.deployment) == []
