"""`headway worker`: one of any number of processes that do the work, on one database and broker."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.console import CommandConsole
from headway.clock import ScaledClock
from headway.core.catalog.listings import MAIN
from headway.core.dispatch import Verb
from headway.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from headway.app import App
    from headway.config import Settings
    from headway.runners.celery_runner import CeleryRunner

# Connections beside one for each step under way: the tick, the signs of life, messages, one to
# spare.
POOL_SPARE = 4
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXAMPLES = """Examples:

DATABASE_URL=postgresql://me@db/headway HEADWAY_BROKER_URL=redis://broker:6379/0 headway worker

headway worker --concurrency 16 --queues push.shopify,pull.etsy

headway worker --healthcheck
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("worker", epilog=EXAMPLES)(worker)


def worker(
    *,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=256, help="How many steps it runs at once.")
    ] = None,
    queues: Annotated[
        str | None, typer.Option(help="Only these queues, comma-separated; by default all.")
    ] = None,
    healthcheck: Annotated[
        bool,
        typer.Option("--healthcheck", help="Check if a worker on this host is alive, and stop."),
    ] = False,
) -> None:
    """Run one of any number of workers, until Ctrl-C or SIGTERM.

    All share one database (DATABASE_URL) and one Redis or Valkey (HEADWAY_BROKER_URL). The database
    holds everything; the broker only wakes workers, and may be emptied at any time. One of the
    workers ticks; if it dies, another does. The page and the API: headway api. Without DATABASE_URL
    it joins a demo with workers that runs on this machine: headway demo --workers 3.
    """
    from headway import config

    settings = config.load()
    voice = CommandConsole(settings)
    _require_database(settings)
    if healthcheck:
        _check_health(settings, voice)
        return
    require_scale("headway worker")
    count = settings.worker_concurrency if concurrency is None else concurrency
    queue_names = _queues(queues)
    with ExitStack() as stack:
        runner, owner = open_runner(stack, settings, voice, count=count, queues=queue_names)
        stack.enter_context(_stopped_by_signals(runner))
        voice.say(f"Headway works as {owner}: {', '.join(queue_names)}; {count} steps at once.")
        runner.run(concurrency=count, queues=queue_names)
    voice.say("Headway has stopped.")


def open_runner(
    stack: ExitStack,
    settings: Settings,
    voice: CommandConsole,
    *,
    count: int,
    queues: Sequence[str],
    celery: Any = None,  # noqa: ANN401 - only the runners know Celery
) -> tuple[CeleryRunner, str]:
    """Open the database and return the runner of a worker process, and its name.

    Without `celery` it gets a Celery application of its own.
    """
    from headway.app.dispatch import dispatch_rule
    from headway.cli.serving import join
    from headway.cli.session import open_session
    from headway.cli.speed import dispatch_at_speed
    from headway.runners.celery_app import check_broker, make_celery
    from headway.runners.celery_runner import CeleryRunner

    size = count + POOL_SPARE
    stack.enter_context(voice.log.library_warnings())
    session = stack.enter_context(open_session(settings, pool_size=size))
    app, speed = _at_its_speed(stack, session.app)
    celery = celery or make_celery(app.settings, connections=size)
    check_broker(celery)
    owner = f"{platform.node()}:{os.getpid()}"
    _prepare(app, owner, queues, voice)
    _show_metrics(stack, app, voice)
    join(stack, app, "worker", voice)
    runner = CeleryRunner(
        app,
        celery,
        owner=owner,
        report=voice.tell,
        rule=dispatch_at_speed(dispatch_rule(app), speed),
        ticks=app.settings.ticks == "workers",
        speed=speed,
    )
    return runner, owner


def _check_health(settings: Settings, voice: CommandConsole) -> None:
    """Exit 1 if no worker of this host has reported lately.

    A failing check makes the orchestrator restart the worker. That does not help a worker that
    has lost its database, so the check passes then.
    """
    from headway.cli.session import open_session
    from headway.store.monitoring.processes import SILENT, Processes

    host = platform.node()
    try:
        with open_session(settings, check_schema=False, pool_size=1) as session:
            alive = Processes(session.app.pool).alive()
    except StoreError as error:
        voice.say(f"not known: {error}")
        return
    if not any((process.verb, process.host) == ("worker", host) for process in alive):
        voice.say(f"no worker on {host} has sent a heartbeat for {SILENT.total_seconds():.0f} s")
        raise typer.Exit(1)
    voice.say(f"a worker on {host} is alive")


def _require_database(settings: Settings) -> None:
    from headway.cli.session import find_joinable

    if settings.database_url is not None:
        return
    running = find_joinable(settings.data_dir.expanduser())
    if running is None or not running.note.get("broker_url"):
        raise ConfigError(
            "headway worker needs DATABASE_URL: the embedded database belongs to one process;"
            " set DATABASE_URL to a PostgreSQL that all workers reach, or use headway run"
        )


def require_scale(command: str) -> None:
    """Raise ConfigError where the extra that workers need is not installed."""
    if find_spec("celery") is None or find_spec("redis") is None:
        raise ConfigError(
            f"{command} needs Celery and redis-py; install them: pip install 'headway[scale]'"
        )


def _at_its_speed(stack: ExitStack, app: App) -> tuple[App, float]:
    """Return the application on a demo's clock, and how many times faster than real time it is."""
    from headway.cli.speed import build_fast

    if not isinstance(app.clock, ScaledClock):
        return app, 1.0
    return build_fast(stack, app.settings, app.clock, app.pool), app.clock.speed


def _queues(named: str | None) -> Sequence[str]:
    from headway.runners.celery_app import QUEUES

    names = QUEUES if named is None else [name.strip() for name in named.split(",")]
    unknown = [name for name in names if name not in QUEUES]
    if unknown:
        raise ConfigError(
            f"no such queue: {unknown[0] or 'nothing'}; there are {', '.join(QUEUES)}"
        )
    return list(dict.fromkeys(names))


def _prepare(app: App, owner: str, queues: Sequence[str], voice: CommandConsole) -> None:
    """Report wrong credentials before any work, and give a new policy its due times."""
    from headway.app.suppliers import new_fetch

    if any(queue.startswith(f"{Verb.FETCH}.") for queue in queues):
        new_fetch(app, MAIN, owner)
    if placed := app.adopt():
        voice.say(f"{placed:,} listings have new due times, under {app.policy.name}.")


def _show_metrics(stack: ExitStack, app: App, voice: CommandConsole) -> None:
    """Export the metrics of this worker, if a port is set."""
    from headway.observe.metrics import exported

    settings = app.settings
    if settings.metrics_port is not None:
        shown = exported(app.process_metrics.metrics, settings.metrics_host, settings.metrics_port)
        voice.say(f"Metrics: {stack.enter_context(shown)}")


@contextmanager
def _stopped_by_signals(runner: CeleryRunner) -> Iterator[None]:
    """Let a signal end the worker after its present steps; later ones change nothing."""
    end: Callable[..., None] = lambda *_: runner.stop()  # noqa: E731 - a handler takes two
    before = {signum: signal.signal(signum, end) for signum in SIGNALS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
