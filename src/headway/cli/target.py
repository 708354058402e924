"""Where a command does its operations: over the database here, or at a server (`--server URL`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeVar

import typer

from headway.core.catalog.listings import SellerId
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.cli.session import Session
    from headway.config import Settings
    from headway.operations.callers import OperatorCaller
    from headway.operations.operation import ApiOperation, Arguments

ACTOR = "cli"
PAGE_MAX = 200
Result = TypeVar("Result")
Row_co = TypeVar("Row_co", covariant=True)
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Use the Headway server there (key: HEADWAY_API_KEY); default: HEADWAY_SERVER.",
        show_default=False,
    ),
]


class LocalClient:
    """Does operations over an open application, as an operator."""

    def __init__(self, caller: OperatorCaller) -> None:
        self._caller = caller

    @property
    def now(self) -> datetime:
        """The time, by the clock of the deployment."""
        return self._caller.now

    @property
    def speed(self) -> float | None:
        """How many times faster than real time that clock runs; None for real time."""
        return self._caller.speed

    def call(
        self,
        operation: ApiOperation[OperatorCaller, Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Do an operation here; raises HeadwayError."""
        return operation(self._caller, *args, **kwargs)


class Client(Protocol):
    """Does operations, here or at a server."""

    @property
    def now(self) -> datetime:
        """The time, by the clock of the deployment."""
        ...

    @property
    def speed(self) -> float | None:
        """How many times faster than real time that clock runs; None for real time."""
        ...

    def call(
        self,
        operation: ApiOperation[OperatorCaller, Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Do an operation; raises HeadwayError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A client, what it works on, and whether a running headway does the work there.

    `session` is the database here; None at a server.
    """

    client: Client
    place: str
    is_tended: bool
    session: Session | None = None


class ResultPage(Protocol, Generic[Row_co]):
    """A part of a list."""

    @property
    def items(self) -> tuple[Row_co, ...]:
        """The rows."""
        ...

    @property
    def next_cursor(self) -> str | None:
        """Where the list goes on; None at its end."""
        ...


def collect(
    client: Client,
    operation: ApiOperation[Any, Any, ResultPage[Row_co]],
    *,
    limit: int,
    **query: object,
) -> tuple[list[Row_co], bool]:
    """Return so many rows of a list, page by page, and whether there are more."""
    rows: list[Row_co] = []
    cursor: str | None = None
    while True:
        size = min(PAGE_MAX, limit - len(rows))
        page = client.call(operation, **query, cursor=cursor, limit=size)
        rows += page.items
        cursor = page.next_cursor
        if cursor is None or len(rows) >= limit:
            return rows, cursor is not None


@contextmanager
def open_client(server: str | None, *, creates: bool = False) -> Iterator[Client]:
    """Open the client of a command."""
    with open_target(server, creates=creates) as target:
        yield target.client


@contextmanager
def open_target(server: str | None, *, creates: bool = False) -> Iterator[Target]:
    """Open the client of a command, and what it works on.

    Where there is no database yet, only a command that begins something `creates` one.
    """
    from headway import config

    settings = config.load()
    if url := server_of(server, settings):
        from headway.cli.remote import RemoteClient
        from headway.client.api import HeadwayApi
        from headway.clock import SystemClock

        with closing(HeadwayApi(url, _key(settings), clock=SystemClock())) as api:
            yield Target(client=RemoteClient(api), place=api.url, is_tended=True)
        return
    from headway.cli.session import open_session
    from headway.operations.callers import operator

    with open_session(settings.model_copy(update={"server": ""}), creates=creates) as session:
        yield Target(
            client=LocalClient(operator(session.app, ACTOR)),
            place=session.place,
            # Our own database is open only as long as we are.
            is_tended=session.is_joined or settings.database_url is not None,
            session=session,
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
            "the server needs a key: set HEADWAY_API_KEY; create one on the server with:"
            " headway key create NAME --role operator"
        )
    return key
