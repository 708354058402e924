"""`headway docs`: serve the documentation on this machine, without an internet connection."""

import signal
import webbrowser
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer

import headway
from headway.cli.output import say
from headway.errors import ConfigError

# Where `make docs` builds the site; a wheel that is built afterwards contains it.
SITE = Path(headway.__file__).parent / "web" / "site"
HOST = "127.0.0.1"
EXAMPLES = """Examples:

headway docs

headway docs --port 8000 --open
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("docs", epilog=EXAMPLES)(docs)


def docs(
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the site; 0 takes a free one.")
    ] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open it in your browser.")] = False,
) -> None:
    """Serve the documentation with search on this machine, until Ctrl-C.

    It needs no internet connection. In a checkout, build it first with: make docs.
    """
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.default_int_handler)
    with _server(SITE, port) as server, suppress(KeyboardInterrupt):
        url = f"http://{HOST}:{server.server_port}/"
        say(f"The documentation: {url} (Ctrl-C stops it)")
        if open_:
            webbrowser.open(url)
        server.serve_forever()


def _server(site: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the site; raises ConfigError if there is none, or the port is in use."""
    if not (site / "index.html").is_file():
        raise ConfigError(
            "the documentation is not built into this installation; in a checkout run: make docs."
            " The same pages are the Markdown files in the folder docs of the source"
        )
    try:
        return ThreadingHTTPServer((HOST, port), partial(_Handler, directory=str(site)))
    except OSError as error:
        raise ConfigError(f"cannot listen on port {port}: {error.strerror}; use --port 0") from None


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
        """Keep the terminal quiet."""
