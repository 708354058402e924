"""Real processes on loopback: PostgreSQL, Valkey, simulators over sockets, and our commands."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.scale.deployment import Deployment, open_deployment
from tests.scale.storm import Storm
from tests.scale.workers import ProcessGroup

from headway.clock import SystemClock
from headway.runners.valkey import EmbeddedValkey
from headway.store.server.embedded import EmbeddedServer


@contextmanager
def own_database(settings: Mapping[str, str], folder: Path) -> Iterator[EmbeddedServer]:
    """Start a server that a test may crash."""
    with EmbeddedServer(folder, clock=SystemClock(), settings=settings) as server:
        server.ensure_database("headway")
        yield server


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey(tmp_path / "valkey", clock=SystemClock()) as server:
        yield server


@pytest.fixture
def deployment(database: str, pool: ConnectionPool, tmp_path: Path) -> Iterator[Deployment]:
    with open_deployment(database, pool, tmp_path / "vault", ("acme", "birch")) as opened:
        yield opened


@pytest.fixture
def celery_group(deployment: Deployment, valkey: EmbeddedValkey) -> Iterator[ProcessGroup]:
    group = ProcessGroup(environ={**deployment.environ, "HEADWAY_BROKER_URL": valkey.url})
    yield group
    group.stop()


Report = Callable[[str], None]
PARTS = tuple(f"P{number}" for number in range(12))


@pytest.fixture
def report(
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> Report:
    """Print a measurement, which depends on the machine and is not asserted."""

    def print_report(text: str) -> None:
        record_property("measured", text)
        with capsys.disabled():
            print(f"\n{request.node.name}: {text}")  # noqa: T201 - shown to the user

    return print_report


@pytest.fixture
def day(deployment: Deployment, celery_group: ProcessGroup) -> Storm:
    """A deployment before a fault: two sellers with parts and orders; no worker runs yet."""
    for seller, parts in (("acme", PARTS), ("birch", PARTS[:4])):
        deployment.add_seller(seller, *parts)
        deployment.trade(seller, parts[0], orders=2)
    return Storm(deployment=deployment, group=celery_group, seed=1, moves=5)


class Runner:
    """A process group, and the commands that start its runner."""

    def __init__(self, group: ProcessGroup, *commands: tuple[str, ...]) -> None:
        self._group, self._commands = group, commands
        self.until, self.until_output, self.stop = group.until, group.until_output, group.stop

    def start(self) -> None:
        """Start the runner, and wait until it is ready and can be stopped."""
        ready = self._ready() + len(self._commands)
        for command in self._commands:
            self._group.start(*command)
        self.until(lambda: self._ready() >= ready)

    def _ready(self) -> int:
        output = self._group.output
        return sum(line.startswith(("Headway runs", "Headway works")) for line in output)

    def ended(self) -> int | None:
        """Return the exit code of the first process that ended, if any."""
        codes = [process.poll() for process in self._group.processes]
        return next((code for code in codes if code is not None), None)


def make_runner(request: pytest.FixtureRequest, deployment: Deployment) -> Iterator[Runner]:
    """Yield the runner of that name."""
    if request.param == "celery":
        yield Runner(request.getfixturevalue("celery_group"), ("worker",), ("worker",))
        return
    group = ProcessGroup(environ=deployment.environ)
    yield Runner(group, ("run", "--port", "0"))
    group.stop()


# Each test runs on each runner.
runner = pytest.fixture(make_runner, params=("embedded", "celery"), name="runner")
