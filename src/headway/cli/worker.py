"""`headway worker`: one of any number of processes that do the work, on one database and broker."""

import os
import platform
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headway import config
from headway.app import App, build
from headway.cli.serving import join, say
from headway.clock import SystemClock
from headway.config import Settings
from headway.core.relay import Verb
from headway.errors import ConfigError, StoreError
from headway.store.migrate import require_current
from headway.store.pool import open_pool
from headway.store.processes import SILENT, Processes

if TYPE_CHECKING:
    from headway.runners.celery import CeleryRunner

# Connections beside one for each step under way: the tick, the signs of life, one to spare.
POOL_SPARE = 3
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
        int | None, typer.Option(min=1, max=256, help="How many steps it does at once.")
    ] = None,
    queues: Annotated[
        str | None, typer.Option(help="Only these queues, comma-separated; else all.")
    ] = None,
    healthcheck: Annotated[
        bool,
        typer.Option("--healthcheck", help="Say whether a worker of this host lives, and stop."),
    ] = False,
) -> None:
    """Do the work of many machines: one of any number of workers, until Ctrl-C or SIGTERM.

    All share one database (DATABASE_URL) and one Redis or Valkey (HEADWAY_BROKER_URL). The database
    holds everything; the broker only wakes workers, and may be emptied at any time. One of the
    workers ticks; if it dies, another does. The page and the API: headway api.
    """
    settings, console = config.load(), Console()
    dsn = _database_url(settings)
    if healthcheck:
        _check_health(dsn, console)
        return
    _require_extra()
    from headway.runners.broker import check_broker, make_celery  # noqa: PLC0415 - an extra
    from headway.runners.celery import CeleryRunner  # noqa: PLC0415 - an extra

    count = settings.worker_concurrency if concurrency is None else concurrency
    wanted = _queues(queues)
    celery = make_celery(settings, connections=count + POOL_SPARE)
    with ExitStack() as stack:
        pool = stack.enter_context(open_pool(dsn, size=count + POOL_SPARE))
        require_current(pool, "the database")
        app = build(settings, SystemClock(), pool)
        check_broker(celery)
        owner = f"{platform.node()}:{os.getpid()}"
        _prepare(app, owner, wanted, console)
        join(stack, app, "worker", console)
        runner = CeleryRunner(
            app,
            celery,
            owner=owner,
            report=lambda name, text: say(console, f"{name}: {text}"),
            ticks=settings.ticks == "workers",
        )
        stack.enter_context(_stopped_by_signals(runner))
        say(console, f"Headway works as {owner}: {', '.join(wanted)}; {count} steps at once.")
        runner.run(concurrency=count, queues=wanted)
    say(console, "Headway has stopped.")


def _check_health(dsn: str, console: Console) -> None:
    """Exit 1 if no worker of this host was heard of lately.

    Whoever asks would restart it, which does not help a worker that has lost its database: then
    nothing is said against it.
    """
    host = platform.node()
    try:
        with open_pool(dsn, size=1) as pool:
            alive = Processes(pool).alive()
    except StoreError as error:
        say(console, f"nobody can tell: {error}")
        return
    if not any((each.verb, each.host) == ("worker", host) for each in alive):
        say(console, f"no worker of {host} was heard of for {SILENT.total_seconds():.0f} s")
        raise typer.Exit(1)
    say(console, f"a worker of {host} lives")


def _database_url(settings: Settings) -> str:
    if settings.database_url is None:
        raise ConfigError(
            "headway worker needs DATABASE_URL: the embedded database belongs to one process;"
            " set DATABASE_URL to a PostgreSQL that all workers reach, or use headway run"
        )
    return settings.database_url.get_secret_value()


def _require_extra() -> None:
    if find_spec("celery") is None or find_spec("redis") is None:
        raise ConfigError(
            "headway worker needs Celery and redis-py; install them: pip install 'headway[scale]'"
        )


def _queues(named: str | None) -> Sequence[str]:
    from headway.runners.broker import QUEUES  # noqa: PLC0415 - an extra

    wanted = QUEUES if named is None else [each.strip() for each in named.split(",")]
    unknown = [each for each in wanted if each not in QUEUES]
    if unknown:
        raise ConfigError(
            f"no such queue: {unknown[0] or 'nothing'}; there are {', '.join(QUEUES)}"
        )
    return list(dict.fromkeys(wanted))


def _prepare(app: App, owner: str, queues: Sequence[str], console: Console) -> None:
    """Say wrong credentials before anything is done, and give a new policy its due times."""
    if any(each.startswith(f"{Verb.FETCH}.") for each in queues):
        app.fetch(owner)
    if placed := app.adopt():
        say(console, f"{placed:,} listings have new due times, under {app.policy.name}.")


@contextmanager
def _stopped_by_signals(runner: "CeleryRunner") -> Iterator[None]:
    """Let a signal end the worker after its present steps; later ones change nothing."""
    end: Callable[..., None] = lambda *_: runner.stop()  # noqa: E731 - a handler takes two
    before = {each: signal.signal(each, end) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
