"""Real processes on loopback: PostgreSQL, Valkey, simulators over sockets, and our commands."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.scale.deployment import Town, open_town
from tests.scale.storm import Storm
from tests.scale.workers import Crew

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
def town(database: str, pool: ConnectionPool, tmp_path: Path) -> Iterator[Town]:
    with open_town(database, pool, tmp_path / "vault", ("acme", "birch")) as opened:
        yield opened


@pytest.fixture
def celery_crew(town: Town, valkey: EmbeddedValkey) -> Iterator[Crew]:
    crew = Crew(environ={**town.environ, "HEADWAY_BROKER_URL": valkey.url})
    yield crew
    crew.stop()


Tell = Callable[[str], None]
PARTS = tuple(f"P{number}" for number in range(12))


@pytest.fixture
def tell(
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> Tell:
    """Print what was measured, which no test asserts: it depends on the machine."""

    def told(text: str) -> None:
        record_property("measured", text)
        with capsys.disabled():
            print(f"\n{request.node.name}: {text}")  # noqa: T201 - it is to be seen

    return told


@pytest.fixture
def day(town: Town, celery_crew: Crew) -> Storm:
    """A day that may become hard: two sellers with parts and orders; nobody works yet."""
    for seller, parts in (("acme", PARTS), ("birch", PARTS[:4])):
        town.move_in(seller, *parts)
        town.trade(seller, parts[0], orders=2)
    return Storm(town=town, crew=celery_crew, seed=1, moves=5)


class Staff:
    """A crew, and how its runner is started."""

    def __init__(self, crew: Crew, *commands: tuple[str, ...]) -> None:
        self._crew, self._commands = crew, commands
        self.until, self.until_said, self.stop = crew.until, crew.until_said, crew.stop

    def start(self) -> None:
        """Start it, and wait until it is ready, and so fit to be stopped."""
        ready = self._ready() + len(self._commands)
        for command in self._commands:
            self._crew.start(*command)
        self.until(lambda: self._ready() >= ready)

    def _ready(self) -> int:
        output = self._crew.said
        return sum(line.startswith(("Headway runs", "Headway works")) for line in output)

    def ended(self) -> int | None:
        """Return how the first one ended that did, if any."""
        codes = [process.poll() for process in self._crew.processes]
        return next((code for code in codes if code is not None), None)


def hired(request: pytest.FixtureRequest, town: Town) -> Iterator[Staff]:
    """Yield the runner that is asked for."""
    if request.param == "celery":
        yield Staff(request.getfixturevalue("celery_crew"), ("worker",), ("worker",))
        return
    crew = Crew(environ=town.environ)
    yield Staff(crew, ("run", "--port", "0"))
    crew.stop()


# Each test runs on each runner.
staff = pytest.fixture(hired, params=("embedded", "celery"), name="staff")
