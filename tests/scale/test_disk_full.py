"""A full disk: it is reported in one line, nothing is half done, and work resumes with space."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.scale.conftest import PARTS, Report, own_database
from tests.scale.deployment import CLOCK, Deployment, open_deployment
from tests.scale.storm import Storm
from tests.scale.truth import breaches
from tests.scale.workers import PATIENCE_S, ProcessGroup

from headway.runners.valkey import EmbeddedValkey
from headway.store.migrate import upgrade
from headway.store.pool import open_pool

MEGABYTE = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small disk; where that is forbidden the test is skipped with the reason."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=160m", "headway-tests", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def full(disk: Path, *, free_bytes: int = 0) -> Iterator[None]:
    """Fill a disk for a while, except for some free bytes."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (MEGABYTE, 4096):
            with suppress(OSError):
                while _free_bytes(disk) > free_bytes:
                    file.write(bytes(size))
    try:
        yield
    finally:
        ballast.unlink()


def _free_bytes(disk: Path) -> int:
    disk_space = os.statvfs(disk)
    return disk_space.f_bavail * disk_space.f_frsize


def test_a_start_on_a_full_disk_reports_it_and_succeeds_once_there_is_space(
    disk: Path, deployment: Deployment, report: Report
) -> None:
    home = disk / "headway"
    environ = {**deployment.environ, "HEADWAY_DATA_DIR": str(home)}
    del environ["DATABASE_URL"]
    group = ProcessGroup(environ=environ)
    try:
        with full(disk, free_bytes=2 * MEGABYTE):
            failed = group.start("run", "--port", "0")
            assert failed.wait(PATIENCE_S) == 2
            line = group.until_output("No space left on device")
        assert "Traceback" not in line
        group.start("run", "--port", "0")
        group.until_output("Headway runs")
        report(f"it printed: {line}")
    finally:
        group.stop()


@pytest.mark.campaign
def test_a_database_without_disk_space_is_reported_and_work_resumes_when_there_is(
    disk: Path, valkey: EmbeddedValkey, tmp_path: Path, report: Report
) -> None:
    with own_database({}, disk / "own") as server, open_pool(server.dsn()) as pool:
        upgrade(pool, CLOCK)
        with open_deployment(server.dsn(), pool, tmp_path / "vault", ("acme",)) as deployment:
            group = ProcessGroup(environ={**deployment.environ, "HEADWAY_BROKER_URL": valkey.url})
            day = Storm(deployment=deployment, group=group, seed=1, moves=5)
            deployment.add_seller("acme", *PARTS)
            deployment.trade("acme", PARTS[0], orders=2)
            try:
                for _ in range(3):
                    group.start("worker")
                group.until_output("fetch: read")
                with full(disk):
                    line = group.until_output("the database")
                full_at = CLOCK.now()
                pool.check()
                day.move_prices()
                day.expire_leases_at(full_at)
                report(f"it printed: {line}; all settled {day.settle():.0f} s after")
                assert breaches(deployment) == []
            finally:
                group.stop()
