"""What `demo` and `run` share: an end by signal, the page, and the view in the terminal."""

import logging
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console

from headway.app import App
from headway.cli.live import Watch, show
from headway.runners.embedded import EmbeddedRunner
from headway.web.server import SiteServer, address
from headway.web.site import create

if TYPE_CHECKING:
    import socket

REFRESH_S = 0.5


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn the first Ctrl-C, SIGTERM or lost terminal into an end; later ones change nothing."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # The driver would log the query that the end cuts short, and its pool would scrawl over the
    # view, which shows the same trouble in words.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)

    def end(_number: int, _frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, end) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def show_line(
    stack: ExitStack,
    app: App,
    runner: EmbeddedRunner,
    taken: "socket.socket",
    console: Console,
    *,
    speed: float | None = None,
) -> None:
    """Serve the page and show the terminal view until told to end, or until a bug ends the line."""
    site = create(app, refresh_s=REFRESH_S)
    serving = SiteServer(site, taken)
    serving.start()
    stack.callback(serving.stop)
    watch = Watch(feed=site.state.feed, clock=app.clock, speed=speed, url=address(taken))
    show(watch, console, runner.stopping)
    runner.check()


def say(console: Console, text: str) -> None:
    """Print one line as it is."""
    console.print(text, soft_wrap=True, highlight=False)
