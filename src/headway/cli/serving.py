"""Shared by `demo` and `run`: stop on signals, serve the page, show the terminal view."""

import logging
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING

from headway.app import App
from headway.app.agreement import agreement, disagreements
from headway.app.providers import has_main_login, shared_vault
from headway.app.suppliers import NO_LOGIN
from headway.cli.console import CommandConsole
from headway.cli.live_view import LiveView, show
from headway.clock import SystemClock
from headway.config import environment
from headway.config.document_settings import replaced
from headway.core.access import AccessGrant, Role
from headway.observe.traces import open_traces
from headway.runners.embedded import EmbeddedRunner
from headway.runners.heartbeat import present
from headway.runners.worker_processes import WorkerProcesses
from headway.store.access.keys import ApiKeys
from headway.store.monitoring.processes import Presence, Processes
from headway.web.server import SiteServer, address
from headway.web.site import create

if TYPE_CHECKING:
    import socket

REFRESH_S = 0.5
LINK_LIFE = timedelta(days=1)
# People live in real time, whatever clock a demo runs on.
REAL_TIME = SystemClock()


@contextmanager
def stoppable() -> Iterator[None]:
    """Stop on the first Ctrl-C, SIGTERM or lost terminal; ignore later ones."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # The driver would log the query that the end cuts short, and its pool would scrawl over the
    # view, which shows the same trouble in words.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)

    def end(_number: int, _frame: FrameType | None) -> None:
        for signum in signals:
            signal.signal(signum, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {signum: signal.signal(signum, end) for signum in signals}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def join(stack: ExitStack, app: App, verb: str, voice: CommandConsole) -> None:
    """Register as a process on this database until the end; warn if settings differ.

    From now on calls are traced, if tracing is on.
    """
    settings = app.settings
    app.process_metrics.traces = open_traces(settings.otlp_endpoint, enabled=settings.traces)
    if app.process_metrics.traces is not None:
        stack.callback(app.process_metrics.traces.close)
    for line in replaced(environment()):
        voice.say(line)
    if verb != "api" and not has_main_login(settings):
        voice.say(NO_LOGIN)
    shared_vault(app.settings)  # the key that it will need is made before it is compared
    processes, own_settings = Processes(app.pool), agreement(app.settings)
    for name, differing in disagreements(own_settings, processes.alive()).items():
        voice.say(
            f"Careful: {name} works on this database with other settings: {', '.join(differing)}.",
        )
    stack.enter_context(present(processes, Presence(verb=verb, settings=own_settings), REAL_TIME))


def show_line(
    stack: ExitStack,
    app: App,
    runner: EmbeddedRunner,
    taken: "socket.socket",
    voice: CommandConsole,
    *,
    page: str,
    speed: float | None = None,
    crew: WorkerProcesses | None = None,
) -> None:
    """Serve the page and show the terminal view until a signal or a bug stops the runner.

    `page` is the page's address or a login link; the workers of a `crew` are shown, too.
    """
    site = create(app, refresh_s=REFRESH_S)
    serving = SiteServer(site, taken, proxies=app.settings.trusted_proxies)
    serving.start()
    stack.callback(serving.stop)
    watch = LiveView(feed=site.state.feed, clock=app.clock, speed=speed, url=page, crew=crew)
    show(watch, voice, runner.stopping)
    runner.check()


def login_link(app: App, taken: "socket.socket") -> str:
    """Return a link to the page that logs an operator in, once."""
    now = REAL_TIME.now()
    grant = AccessGrant(name="operator", role=Role.OPERATOR)
    access = ApiKeys(app.pool, clock=app.clock)
    secret = access.add_link(grant, expires_at=now + LINK_LIFE, now=now)
    return f"{page_address(app, taken)}login/{secret}"


def page_address(app: App, taken: "socket.socket") -> str:
    """Return where browsers reach the page: the configured URL, else the socket's address."""
    public_url = app.settings.public_url.rstrip("/")
    return f"{public_url}/" if public_url else address(taken)


def page_to_open(app: App, taken: "socket.socket", voice: CommandConsole) -> str:
    """Return the address that a person opens: a login link if one is needed.

    Without a key, login is impossible, so the first start prints a link wherever it runs; later
    only a terminal gets one, since other output ends up in a log.
    """
    has_key = ApiKeys(app.pool).has_operator(now=REAL_TIME.now())
    needs_link = voice.is_watched or not has_key
    return login_link(app, taken) if needs_link else page_address(app, taken)
