"""`headway key`: access to the API and the page. A key is shown once, when it is created."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, Target, open_client, open_target
from headway.clock import SystemClock
from headway.core.access import AccessGrant, Role
from headway.core.catalog.intake import seller_of
from headway.core.reasons import format_time
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.operations import people
    from headway.store.access.keys import ApiKey

SUMMARY = "Create, list or revoke keys, or create a link that logs a browser in once."
UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
SPAN = re.compile(r"(\d{1,5})([mhd])")
LINK_LIFE = "1h"
# People live in real time, whatever clock a demo runs on.
REAL_TIME = SystemClock()

RoleOption = Annotated[Role, typer.Option(help="operator, seller, reader, or permits.")]
SellerOption = Annotated[
    str | None,
    typer.Option(
        help="The seller whose data it gives access to; a reader without one sees all data."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: headway key list", no_args_is_help=True)
    group.command(
        "create",
        epilog=_examples(
            "create ci --role operator --expires 90d",
            "create acme-app --role seller --seller acme",
            "create screen --role reader --json",
        ),
    )(create)
    group.command("list", epilog=_examples("list", "list --json"))(list_keys)
    group.command("revoke", epilog=_examples("revoke ci", "revoke hw_1f0c9a2b"))(revoke)
    group.command(
        "link", epilog=_examples("link", "link --role seller --seller acme --expires 1d")
    )(link)
    app.add_typer(group, name="key")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway key {line}" for line in lines)])


def create(
    name: Annotated[str, typer.Argument(help="Name of its user in the audit log.")],
    *,
    role: RoleOption,
    seller: SellerOption = None,
    expires: Annotated[
        str | None,
        typer.Option(help="How long it works: 90d, 12h, 30m; by default it never expires."),
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Create a key, and show it once.

    An operator can see and do everything, a seller everything of their own. A reader can only see:
    one seller's data, or all data. permits is for another program that shares a credential: it
    takes permits for its calls, and can do nothing else.
    """
    from headway.operations import people

    now = REAL_TIME.now()
    grant = _grant(name, role, seller, None if expires is None else now + _span(expires))
    with open_client(server, creates=True) as client:
        key = client.call(people.create_key, _body(grant))
    if as_json:
        emit({"key": key.key, **_as_dict(key)})
        return
    say(key.key or "")
    say(
        f"This is the key of {key.name}, {_role(key)}; it works {_life(key)}. It is not shown"
        " again: only its digest is kept."
    )


def list_keys(*, server: Server = None, as_json: AsJson = False) -> None:
    """List keys by name and beginning, and when each was last used."""
    from headway.operations import people

    with open_client(server) as client:
        keys = client.call(people.keys).keys
    if as_json:
        emit([_as_dict(key) for key in keys])
        return
    rows = [
        (key.name, key.prefix, _role(key), _instant(key.last_used_at, "never"), _life(key))
        for key in keys
    ]
    empty = "there are no keys; make one: headway key create NAME --role operator"
    table(("name", "key", "role", "last used", "works"), rows, empty=empty)


def revoke(
    which: Annotated[str, typer.Argument(help="Its name, its beginning (hw_...), or its id.")],
    *,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key, and end the sessions that were started with it."""
    from headway.operations import people

    with open_client(server) as client:
        key = client.call(people.revoke_key, which)
    if as_json:
        emit(_as_dict(key))
        return
    say(f"{key.name} ({key.prefix}…) is revoked and no longer works")


def link(
    *,
    role: RoleOption = Role.OPERATOR,
    seller: SellerOption = None,
    expires: Annotated[str, typer.Option(help="How long the link works.")] = LINK_LIFE,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Create a link that logs one browser in, once."""
    from headway.operations import people

    now = REAL_TIME.now()
    grant, until = _grant(str(role), role, seller, None), now + _span(expires)
    body = people.LoginLinkBody(role=role, seller=grant.seller, expires_at=until)
    with open_target(server, creates=True) as target:
        address = target.client.call(people.create_link, body).link or ""
        if address.startswith("/"):  # the server has no public address
            address = _page(target) + address
    if as_json:
        emit({"link": address, "role": role, "seller": grant.seller, "expires_at": until})
        return
    say(address)
    say(f"It works once, until {format_time(until, now)}; it logs its browser in as {role}.")


def _page(target: Target) -> str:
    """Return where browsers reach the page."""
    if target.session is None:
        return target.place
    settings = target.session.app.settings
    plain = f"http://{settings.web_host}:{settings.web_port}"
    return (target.session.page or plain).rstrip("/")


def _grant(name: str, role: Role, seller: str | None, expires_at: datetime | None) -> AccessGrant:
    owner = None if seller is None else seller_of(seller)
    if not name.strip() or not name.isprintable():
        raise InvalidError("give the key a name that a person can read")
    return AccessGrant(name=name.strip(), role=role, seller=owner, expires_at=expires_at)


def _body(grant: AccessGrant) -> people.KeyBody:
    from headway.operations import people

    return people.KeyBody(
        name=grant.name, role=grant.role, seller=grant.seller, expires_at=grant.expires_at
    )


def _span(text: str) -> timedelta:
    match = SPAN.fullmatch(text)
    if match is None or not int(match[1]):
        raise InvalidError("--expires: write 90d, 12h or 30m")
    return int(match[1]) * UNITS[match[2]]


def _as_dict(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "role": key.role,
        "seller": key.seller,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "last_used_at": key.last_used_at,
        "revoked_at": key.revoked_at,
    }


def _role(key: ApiKey) -> str:
    return key.role if key.seller is None else f"{key.role} of {key.seller}"


def _life(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {_instant(key.revoked_at, '')}"
    if key.expires_at is None:
        return "forever"
    is_over = key.expires_at <= REAL_TIME.now()
    return f"{'expired' if is_over else 'until'} {_instant(key.expires_at, '')}"


def _instant(at: datetime | None, never: str) -> str:
    return never if at is None else f"{at:%Y-%m-%d %H:%M} UTC"
