"""Where a command finds its desk: over the database here, or at a server with `--server URL`."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from headway import config
from headway.cli.remote import RemoteOperations
from headway.cli.server_api import HeadwayApi
from headway.cli.session import WALL, open_session
from headway.config import Settings
from headway.core.catalog.listings import SellerId
from headway.errors import ConfigError
from headway.operations.listings import Operations

ACTOR = "cli"
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Ask the headway there, with the key in HEADWAY_API_KEY; else HEADWAY_SERVER is.",
        show_default=False,
    ),
]
AnyOperations = Operations | RemoteOperations


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A desk, where it stands, and whether a headway works there that gets things done."""

    operations: AnyOperations
    place: str
    is_tended: bool


@contextmanager
def open_operations(server: str | None) -> Iterator[AnyOperations]:
    """Open the desk that a command works at."""
    with open_target(server) as room:
        yield room.operations


@contextmanager
def open_target(server: str | None) -> Iterator[Target]:
    """Open the desk that a command works at, and tell where that is."""
    settings = config.load()
    if url := server_of(server, settings):
        with closing(HeadwayApi(url, _key(settings), clock=WALL)) as api:
            yield Target(operations=RemoteOperations(api), place=api.url, is_tended=True)
        return
    with open_session(settings.model_copy(update={"server": ""})) as session:
        yield Target(
            operations=Operations(session.app, actor=ACTOR),
            place=session.place,
            # Our own database is open only as long as we are.
            is_tended=session.is_joined or settings.database_url is not None,
        )


def server_of(server: str | None, settings: Settings) -> str:
    """Return the address of the server that is meant; empty for the database here."""
    return settings.server if server is None else server


def seller_id(name: str | None) -> SellerId | None:
    """Return a seller who was named on the command line."""
    return None if name is None else SellerId(name)


def _key(settings: Settings) -> str:
    key = settings.api_key.get_secret_value()
    if not key:
        raise ConfigError(
            "a server wants a key: set HEADWAY_API_KEY; make one where the server is, with:"
            " headway key create NAME --role operator"
        )
    return key
