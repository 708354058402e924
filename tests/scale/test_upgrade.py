"""An upgrade without downtime: workers of two versions on one database, in both steps."""

import shutil
import signal
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from tests.scale.deployment import Deployment
from tests.scale.processes import Child
from tests.scale.workers import PATIENCE_S, ProcessGroup

import headway
from headway.runners.valkey import EmbeddedValkey
from headway.store.migrate import load

PARTS = ("P0", "P1")
# The new version renames a column that every pulled page uses.
OLD_NAME, NEW_NAME = "rescue_count", "worker_losses"
PRE = f"""-- pre: older code still uses the old column.
ALTER TABLE sync_jobs ADD COLUMN {NEW_NAME} smallint NOT NULL DEFAULT 0;
"""
POST = f"""-- post: no code uses the old column.
ALTER TABLE sync_jobs DROP COLUMN {OLD_NAME};
"""
READS, WRITES = "tick,fetch.boeing", "tick,push.shopify,pull.printify"


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the next version of the package, which has two more migrations."""
    folder = tmp_path_factory.mktemp("newer")
    package = folder / "headway"
    shutil.copytree(
        Path(headway.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "__init__.py").write_text('"""Headway."""\n\n__version__ = "99.0.0"\n')
    for file in (package / "store" / "accounts").rglob("*.*"):
        if file.suffix in {".py", ".sql"}:
            file.write_text(file.read_text().replace(OLD_NAME, NEW_NAME))
    migrations, number = package / "store" / "migrations", len(load())
    halves = {
        f"{number + 1:04}_rename.up.sql": PRE,
        f"{number + 1:04}_rename.down.sql": f"ALTER TABLE sync_jobs DROP COLUMN {NEW_NAME};",
        f"{number + 2:04}_renamed.up.sql": POST,
        f"{number + 2:04}_renamed.down.sql": f"ALTER TABLE sync_jobs ADD COLUMN {OLD_NAME} int;",
    }
    for name, text in halves.items():
        (migrations / name).write_text(text)
    return folder


@pytest.fixture
def old(celery_group: ProcessGroup) -> ProcessGroup:
    return celery_group


@pytest.fixture
def new(celery_group: ProcessGroup, newer: Path) -> Iterator[ProcessGroup]:
    group = ProcessGroup(environ=celery_group.environ, source=newer)
    yield group
    group.stop()


def start(group: ProcessGroup, *queues: str) -> None:
    """Start workers, each for some queues, and wait until they work."""
    ready = count_working(group) + len(queues)
    for queue in queues:
        group.start("worker", "--concurrency", "2", "--queues", queue)
    group.until(lambda: count_working(group) >= ready)


def count_working(group: ProcessGroup) -> int:
    return sum("Headway works as" in line for line in group.output)


def wait_for_end(
    group: ProcessGroup, process: Child, *, is_reported: bool = False
) -> tuple[int, str]:
    """Stop a process or wait for its end; return its exit code and its report."""
    if is_reported:
        process.send_signal(signal.SIGTERM)
    group.until_output(f"[{process.pid} ended]")
    group.processes.remove(process)
    return process.wait(PATIENCE_S), "\n".join(group.output)


def pull(deployment: Deployment, watched: ProcessGroup) -> None:
    """Make orders due and wait until they are pulled, which writes the renamed column."""
    asked_at = deployment.one("SELECT clock_timestamp()")
    pulled = "SELECT count(*) FROM sync_jobs WHERE kind = 'orders' AND completed_at >= %s"
    due = "UPDATE sync_jobs SET next_run_at = now() WHERE kind = 'orders' AND next_run_at > now()"

    def is_pulled() -> bool:
        """Return True if the job ran again; a run in progress is followed by another."""
        deployment.do(due)
        return bool(deployment.one(pulled, asked_at))

    watched.until(is_pulled)


def reprice(deployment: Deployment, watched: ProcessGroup, price: str) -> None:
    """Change prices, and wait until the shop shows them."""
    for sku in PARTS:
        deployment.catalog.stock(sku, price)
    deployment.do("UPDATE product_sync_schedule SET next_sync_at = now(), priority = 'manual'")
    shop_price = Decimal(price) * Decimal("1.10")
    watched.until(lambda: all(deployment.price("acme", sku) == shop_price for sku in PARTS))


def test_old_and_new_workers_share_the_work_until_the_last_old_one_is_gone(
    deployment: Deployment, valkey: EmbeddedValkey, old: ProcessGroup, new: ProcessGroup
) -> None:
    deployment.add_seller("acme", *PARTS)
    deployment.trade("acme", "P0", orders=1)
    # The shop's points are reserved for prices here: a pull would make them wait.
    deployment.do("DELETE FROM sync_jobs WHERE platform <> 'printify'")
    newest = len(load())
    start(old, READS, WRITES)
    reader, writer = old.processes
    pull(deployment, old)
    reprice(deployment, old, "20")

    code, output = wait_for_end(new, new.start("db", "upgrade", "--pre"))
    assert (code, f"is at migration {newest + 1}" in output) == (0, True), output
    assert "once every process is new, run: headway db upgrade" in output
    start(new, WRITES)
    assert wait_for_end(old, writer, is_reported=True)[0] == 0
    pull(deployment, new)
    reprice(deployment, new, "30")  # read by the old one, written by the new one

    refused = new.start("db", "upgrade")
    start(new, READS)
    code, output = wait_for_end(new, refused)
    assert (code, "which cannot live with the new" in output) == (2, True), output
    assert wait_for_end(old, reader, is_reported=True)[0] == 0

    code, output = wait_for_end(new, new.start("doctor"))
    assert "migrations  warn" in output, output
    assert "2 worker on" in output
    code, output = wait_for_end(new, new.start("db", "upgrade"))
    assert (code, f"is at migration {newest + 2}" in output) == (0, True), output
    late = old.start("worker")
    pull(deployment, new)
    code, output = wait_for_end(old, late)
    assert (code, "install a newer headway" in output) == (3, True), output
    assert deployment.refusals == [0, 0, 0, 0]
    assert not [line for line in old.output + new.output if "the database refused" in line]
