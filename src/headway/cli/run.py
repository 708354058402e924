"""`headway run`: the real thing in one process: engine, page and, unless there is one, database."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.console import CommandConsole
from headway.clock import SystemClock
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.config import Settings
    from headway.engine.pull import Pull

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool as Pool

STOP_S = 5.0
# For the steps and the page; each fetch and each puller may need one more.
POOL_SIZE = 8
EXAMPLES = "Example: DATABASE_URL=postgresql://me@db/headway headway run --port 8700"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run", epilog=EXAMPLES)(run)


def run(
    *,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")
    ] = None,
) -> None:
    """Keep shops and accounts up to date, until Ctrl-C.

    Reads the supplier, writes to the shops that are connected, and pulls what is new from every
    account. Any number may run against one database: limits, leases and tokens are shared. The
    first start prints a link that logs you in; later: headway key link.
    """
    from headway import config
    from headway.app import build
    from headway.app.monitoring import alert_monitor, notify_of
    from headway.app.suppliers import HANDS, fetch_all_suppliers
    from headway.app.webhooks import deliver_steps
    from headway.cli.serving import join, page_to_open, show_line, stoppable
    from headway.runners.embedded import EmbeddedRunner
    from headway.web.server import address, listen

    settings = config.load()
    voice = CommandConsole(settings)
    with contextlib.suppress(KeyboardInterrupt), stoppable(), ExitStack() as stack:
        stack.enter_context(voice.log.library_warnings())
        requested_port = settings.web_port if port is None else port
        taken = stack.enter_context(listen(settings.web_host, requested_port))
        pool = stack.enter_context(_database(settings, address(taken)))
        app = build(settings, SystemClock(), pool)
        join(stack, app, "run", voice)
        if placed := app.adopt():
            voice.say(f"{placed:,} listings have new due times, under {app.policy.name}.")
        owner, bell = f"{platform.node()}:{os.getpid()}", app.clock.event()
        # Made before the other steps: wrong credentials are reported before anything changes.
        lines = fetch_all_suppliers(app, owner, wake_push=bell.set)
        notify = notify_of(app)
        pulls = [app.pull(f"{owner}:{number}") for number in range(1, settings.pull_workers + 1)]
        runner = EmbeddedRunner(app.clock, partial(_print_step, voice))
        stack.callback(_give_back, pulls)
        stack.callback(runner.stop, STOP_S)
        runner.start(
            bells={"push": bell},
            tick=app.tick(watch=alert_monitor(app)).step,
            fetch=lines.step,
            **{f"fetch-{hand}": lines.step for hand in range(2, HANDS + 1)},
            push=app.push(owner).step,
            # An account that is connected later is found by the next step.
            **{f"pull-{number}": pull.step for number, pull in enumerate(pulls, start=1)},
            **deliver_steps(app, owner),
            **({} if notify is None else {"notify": notify.step}),
        )
        page = page_to_open(app, taken, voice)
        voice.say(f"Headway runs. The page: {page}")
        show_line(stack, app, runner, taken, voice, page=page)
    voice.say("Headway has stopped.")


def _give_back(pulls: Sequence[Pull]) -> None:
    """Let others go on at once with the jobs in hand; without a database their leases run out."""
    with contextlib.suppress(HeadwayError):
        for pull in pulls:
            pull.give_back()


def _print_step(voice: CommandConsole, name: str, text: str) -> None:
    """Print what a step did, unless the live view shows it."""
    if not voice.is_watched:
        voice.tell(name, text)


@contextmanager
def _database(settings: Settings, page: str) -> Iterator[Pool]:
    """Open the database of `DATABASE_URL`, or our own for as long as we run."""
    from headway.app.suppliers import HANDS
    from headway.cli.session import DATABASE
    from headway.store.migrate import require_current, upgrade
    from headway.store.pool import open_pool
    from headway.store.server.embedded import EmbeddedServer

    size = POOL_SIZE + HANDS + settings.pull_workers
    if settings.database_url is not None:
        with open_pool(settings.database_url.get_secret_value(), size=size) as pool:
            require_current(pool, "the database")
            yield pool
        return
    folder = settings.data_dir.expanduser()
    with EmbeddedServer(folder, clock=SystemClock()) as server:
        server.ensure_database(DATABASE)
        with open_pool(server.dsn(DATABASE), size=size) as pool:
            upgrade(pool, SystemClock())
            server.announce({"database": DATABASE, "page": page})
            yield pool
