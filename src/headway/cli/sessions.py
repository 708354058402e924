"""`headway sessions`: list and end the sessions of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, open_client
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.store.access.sessions import BrowserSession

END = "end"
EXAMPLES = """Examples:

headway sessions end 6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11

headway sessions end --name acme-app
"""
SUMMARY = "Show who is logged in at the page, or end their sessions."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help=f"{SUMMARY}\n\nExamples: headway sessions, headway sessions end --name acme-app",
        invoke_without_command=True,
    )
    group.callback()(sessions)
    group.command(END, epilog=EXAMPLES)(end)
    app.add_typer(group, name="sessions")


def sessions(ctx: typer.Context, *, server: Server = None, as_json: AsJson = False) -> None:
    """List browsers that are logged in, or let a command of the group do its work."""
    from headway.operations import people

    if ctx.invoked_subcommand is not None:
        if server is not None or as_json:  # a word that acts elsewhere than meant must show
            raise InvalidError(f"write options after the word: headway sessions {END} --server URL")
        return
    with open_client(server) as client:
        logged_in = client.call(people.sessions).sessions
    _show(logged_in, empty="nobody is logged in", as_json=as_json)


def end(
    which: Annotated[str | None, typer.Argument(help="The id of one session.")] = None,
    *,
    name: Annotated[
        str | None,
        typer.Option(help="All sessions of this name: a key's name, or the role of a link."),
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """End one session, or all sessions of a name; those browsers must log in again.

    A key can be used to log in again; to prevent that, revoke the key.
    """
    from headway.operations import people

    if (which is None) == (name is None):
        raise InvalidError("say which: the id of a session, or --name NAME for all of somebody's")
    with open_client(server) as client:
        ended = (
            (client.call(people.end_session, which),)
            if which
            else client.call(people.end_sessions, name or "").sessions
        )
    _show(ended, as_json=as_json)
    if not as_json:
        say(f"{len(ended)} session{'' if len(ended) == 1 else 's'} ended")


def _show(sessions: Sequence[BrowserSession], *, empty: str = "", as_json: bool) -> None:
    if as_json:
        emit({"sessions": [_as_dict(session) for session in sessions]})
        return
    rows = [
        (
            session.id,
            session.name,
            session.role if session.seller is None else f"{session.role} of {session.seller}",
            "a link" if session.prefix is None else f"key {session.prefix}",
            session.address,
            *(f"{at:%Y-%m-%d %H:%M}" for at in (session.created_at, session.last_seen_at)),
            f"{session.expires_at:%Y-%m-%d %H:%M} UTC",
        )
        for session in sessions
    ]
    headings = ("id", "who", "role", "by", "from", "since", "last seen", "until")
    table(headings, rows, empty=empty)


def _as_dict(session: BrowserSession) -> dict[str, object]:
    from headway.store.access.sessions import BrowserSession

    return {name: getattr(session, name) for name in BrowserSession.__dataclass_fields__}
