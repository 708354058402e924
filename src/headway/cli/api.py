"""`headway api`: serve the API and the page alone, beside the processes that do the work."""

from __future__ import annotations

import contextlib
import json
from contextlib import ExitStack
from typing import Annotated, Any, Never

import typer

from headway.cli.console import CommandConsole
from headway.clock import SystemClock
from headway.errors import StoreError

POOL_SIZE = 8
EXAMPLES = """Examples:

DATABASE_URL=postgresql://me@db/headway headway api --port 8700

headway api --openapi > openapi.json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("api", epilog=EXAMPLES)(api)


def api(
    *,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")
    ] = None,
    openapi: Annotated[
        bool, typer.Option("--openapi", help="Print the OpenAPI document, and stop.")
    ] = False,
    page: Annotated[
        bool, typer.Option("--reference", help="Print the reference page in short, and stop.")
    ] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Print the page of records, and stop.")
    ] = False,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Print the page of metrics, and stop.")
    ] = False,
) -> None:
    """Serve only the API and the page, until Ctrl-C.

    The settings are those of headway run, but nothing is read or written outside: that is left to
    the workers on the same database. Any number may serve.
    """
    from headway import config
    from headway.cli.serving import REFRESH_S, join, page_to_open, stoppable
    from headway.cli.session import open_session
    from headway.observe.metrics import reference as metrics_reference
    from headway.web.reference import reference
    from headway.web.server import SiteServer, listen
    from headway.web.site import create

    if metrics:
        print(metrics_reference(), end="")
        return
    if records:
        from headway.web.record_reference import record_reference

        print(record_reference(describe()), end="")
        return
    if page:
        print(reference(describe()), end="")
        return
    if openapi:
        print(json.dumps(describe(), indent=2, ensure_ascii=False))
        return
    settings = config.load()
    voice = CommandConsole(settings)
    with contextlib.suppress(KeyboardInterrupt), stoppable(), ExitStack() as stack:
        stack.enter_context(voice.log.library_warnings())
        requested_port = settings.web_port if port is None else port
        taken = stack.enter_context(listen(settings.web_host, requested_port))
        session = stack.enter_context(open_session(settings, pool_size=POOL_SIZE))
        join(stack, session.app, "api", voice)
        site, proxies = create(session.app, refresh_s=REFRESH_S), settings.trusted_proxies
        serving = SiteServer(site, taken, proxies=proxies)
        serving.start()
        stack.callback(serving.stop)
        voice.say(
            f"Headway serves {session.place}. The page: {page_to_open(session.app, taken, voice)}",
        )
        SystemClock().event().wait()
    voice.say("Headway has stopped.")


def describe() -> dict[str, Any]:
    """Return the OpenAPI document of a site with the usual settings."""
    from headway.app import build
    from headway.config import Settings
    from headway.web.site import create

    return create(build(Settings(), SystemClock(), _NoDatabase())).openapi()


class _NoDatabase:
    """Replaces the database where none is needed: describing the API makes no query."""

    def connection(self) -> Never:
        """Refuse."""
        raise StoreError("no database is open")
