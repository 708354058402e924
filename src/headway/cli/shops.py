"""`headway connect`, `disconnect` and `shops`: sellers' shops.

A token comes from a file, from stdin or from a hidden prompt; never from an argument, which others
on the machine can read.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, collect, open_client, seller_id, server_of
from headway.core.accounts.jobs import PlatformName, platform_name
from headway.core.catalog.intake import seller_of
from headway.core.dispatch import STOREFRONT
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.config import Settings
    from headway.operations.shop_links import LinkBody
    from headway.operations.shops import ShopConnection, ShopView
    from headway.providers.provider import TokenEntry
    from headway.providers.tokens import AppClient

FAILED = 1
MainOption = Annotated[
    str | None,
    typer.Option(
        "--with",
        metavar="MAIN",
        help="The seller whose keys and logins open this shop too: another shop of one owner.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="File with its access token; - for stdin. By default: a prompt."),
]
RefreshFile = Annotated[
    Path | None, typer.Option(help="File with the refresh token, if the access token expires.")
]
SHOPS_MAX = 1_000_000


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "connect",
        epilog=_examples(
            "connect acme.myshopify.com --seller acme --client-id 0123abcd",
            "connect acme.myshopify.com --seller acme --client-id 0123abcd"
            " --client-secret-file - < secret",
            "connect acme.myshopify.com --seller acme --token-file - < token",
            "connect acme-eu.myshopify.com --seller acme/eu --with acme --client-id 0123abcd",
            "connect 12345678 --seller acme --platform printify",
            "connect etsy --seller acme",
        ),
    )(connect)
    app.command(
        "disconnect",
        epilog=_examples(
            'disconnect --seller acme --reason "the shop is closed"',
            "disconnect --seller acme --platform etsy",
        ),
    )(disconnect)
    app.command("shops", epilog=_examples("shops", "shops --seller acme --json"))(shops)


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway {line}" for line in lines)])


def connect(
    shop: Annotated[
        str, typer.Argument(help="Its address, acme.myshopify.com, or its id; etsy prints a link.")
    ],
    *,
    seller: Annotated[str, typer.Option(help="Whose shop it is.")],
    link: Annotated[
        bool, typer.Option("--link", help="Print a link where the shop's owner gives access.")
    ] = False,
    platform: Annotated[str, typer.Option(help="Its platform.")] = STOREFRONT,
    owner: Annotated[
        str, typer.Option(help="The account of several shops (Printify): the smallest shop id.")
    ] = "",
    title: Annotated[str, typer.Option(help="A name for the shop.")] = "",
    main: MainOption = None,
    token_file: TokenFile = None,
    refresh_token_file: RefreshFile = None,
    client_id: Annotated[
        str, typer.Option(help="The client id of the shop's own app; prompts for its secret.")
    ] = "",
    client_secret_file: Annotated[
        Path | None, typer.Option(help="File with that app's client secret; - for stdin.")
    ] = None,
    check: Annotated[bool, typer.Option(help="Read the locations, to check the token.")] = True,
    after_erasure: Annotated[
        bool, typer.Option("--after-erasure", help="Connect again what was erased, on purpose.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Connect a seller to a shop, or give the shop a new token.

    With the client id and secret of the shop's own app Headway fetches tokens itself. The secret
    comes from a file, from stdin, from the settings if they have that client id, or from a hidden
    prompt. Secrets and tokens are kept encrypted. A shop has one seller; a seller has one shop that
    is written to, and any number of those that are only read. Connect a second shop of one owner
    that is written to as another seller, with --with.
    """
    from headway import config
    from headway.operations import shops as shop_operations
    from headway.operations.shop_links import LinkBody

    user_id, name = seller_of(seller), platform_name(platform)
    group: dict[str, Any] = {} if main is None else {"main_seller": seller_of(main)}
    if link or _asks_for_shop(shop):
        body = LinkBody(shop=shop, seller=user_id, platform=name, **group)
        _give_link(body, server, as_json=as_json)
        return
    _refuse_platform(shop, seller)
    settings = config.load()
    is_remote = bool(server_of(server, settings))
    entry, shown = _entry_of(name, shop, is_remote=is_remote)
    files, own = (token_file, refresh_token_file), (client_id, client_secret_file)
    secrets = _read_secrets(entry, shown, settings, files, own, is_remote=is_remote)
    request = shop_operations.ConnectBody(
        shop=shop, seller=user_id, platform=name, owner=owner, title=title, check=check,
        after_erasure=after_erasure, **secrets, **group,
    )  # fmt: skip
    with open_client(server, creates=True) as client:
        connected = client.call(shop_operations.connect, request)
    is_lone = request.access_token is not None and request.refresh_token is None
    _print_connected(connected, entry.lifetime_note if is_lone else "", as_json=as_json)
    raise typer.Exit(FAILED if connected.account.reason else 0)


def _read_secrets(
    entry: TokenEntry,
    shown: str,
    settings: Settings,
    files: tuple[Path | None, Path | None],
    app: tuple[str, Path | None],
    *,
    is_remote: bool,
) -> dict[str, Any]:
    """Return the tokens, or the shop's own app; a server checks them by its own settings."""
    client_id, client_secret_file = app
    if client_id or client_secret_file is not None:
        _check_client(entry, client_id, files)
        return _read_client(entry.app(settings), shown, client_id, client_secret_file)
    _check_files(entry, *files)
    if not is_remote:  # before the token prompt
        entry.check_app(settings, files[1] is not None)
    return _read_tokens(entry, shown, *files)


def _entry_of(platform: PlatformName, shop: str, *, is_remote: bool) -> tuple[TokenEntry, str]:
    """Return which tokens a platform takes, and what it calls the shop."""
    from headway.providers.provider import TokenEntry
    from headway.providers.registry import known_platform, platform_role, platforms

    # A server may have plug-ins that are not installed here; it checks the rest.
    role = platforms().get(platform) if is_remote else platform_role(known_platform(platform))
    if role is None:
        return TokenEntry(takes_client=is_remote), shop
    return role.tokens, role.shop_name(shop)


def _asks_for_shop(shop: str) -> bool:
    """Return True if this is a platform whose consent page asks which shop."""
    from headway.providers.registry import platforms

    role = platforms().get(PlatformName(shop))
    return role is not None and role.consent is not None and role.consent.asks_for_shop


def _give_link(body: LinkBody, server: str | None, *, as_json: bool) -> None:
    """Print a link to a platform's consent page that works once, for an hour."""
    from headway.operations.shop_links import connect_link

    with open_client(server, creates=True) as client:
        made = client.call(connect_link, body)
    if as_json:
        emit({name: value for name, value in asdict(made).items() if name != "callback"})
        return
    say(made.link or "")
    say(f"it works once, until {made.expires_at:%H:%M} UTC, and connects a shop to {body.seller}")
    say(
        f"the address that {made.platform} sends people back to must be known there:"
        f" {made.callback}"
    )


def _check_client(
    entry: TokenEntry, client_id: str, files: tuple[Path | None, Path | None]
) -> None:
    """Raise InvalidError if the shop's own app is incomplete, or is not the only way in."""
    if not client_id:
        raise InvalidError("--client-secret-file needs --client-id ID, the app's client id")
    if not entry.takes_client:
        raise InvalidError("--client-id works only for shops whose platform issues tokens for it")
    if any(files):
        raise InvalidError("connect with --client-id or with tokens, not with both")


def _read_client(
    configured: AppClient | None, shown: str, client_id: str, path: Path | None
) -> dict[str, Any]:
    """Return the shop's own app; its secret is in a file, in the settings, or asked for."""
    from pydantic import SecretStr

    if path is None and configured is not None and client_id == configured.client_id:
        secret = configured.client_secret
    else:
        question = f"Client secret of the app of {shown}"
        secret = _read_secret(path, question, "--client-secret-file")
    return {"client_id": client_id, "client_secret": SecretStr(secret)}


def _read_tokens(
    entry: TokenEntry, shown: str, token_file: Path | None, refresh_file: Path | None
) -> dict[str, Any]:
    """Return the tokens that the platform needs."""
    from pydantic import SecretStr

    access = _read_secret(token_file, f"Access token of {shown}", "--token-file")
    tokens = {"access_token": SecretStr(access)}
    if refresh_file is not None or entry.refresh_required:
        refresh = _read_secret(refresh_file, f"Refresh token of {shown}", "--refresh-token-file")
        tokens["refresh_token"] = SecretStr(refresh)
    return tokens


def _check_files(entry: TokenEntry, token_file: Path | None, refresh: Path | None) -> None:
    """Raise InvalidError if a refresh token is missing, or would be of no use."""
    from headway.cli.secret_files import STDIN

    if token_file == refresh == STDIN:
        raise InvalidError("stdin holds one token; give the other one as a file")
    if entry.refresh_required and refresh is None and not sys.stdin.isatty():
        raise InvalidError(f"{entry.refresh_required}; add --refresh-token-file FILE")
    if entry.refresh_refused and refresh is not None:
        raise InvalidError(entry.refresh_refused)


def _refuse_platform(shop: str, seller: str) -> None:
    """Refuse the name of a platform where a shop's is needed."""
    from headway.providers.registry import platforms

    if shop in platforms():
        raise InvalidError(f"which shop? headway connect SHOP --seller {seller} --platform {shop}")


def _print_connected(connected: ShopConnection, note: str, *, as_json: bool) -> None:
    account = connected.account
    if as_json:
        emit({**asdict(account), "missing_scopes": connected.missing_scopes})
        return
    if account.platform == STOREFRONT:
        _print_greeting(connected)
    else:
        say(
            f"{account.platform} shop {account.shop} is connected to {account.seller}; the token"
            " is tried, and its orders come, when headway runs"
        )
    if note and not account.reason:
        say(note)
    say("see how it goes with: headway shops")


def _print_greeting(connected: ShopConnection) -> None:
    from headway.providers.access_scopes import list_scopes

    account, unknown = connected.account, connected.unknown_locations
    if account.reason:
        say(f"{account.shop} refused: {account.reason}")
    elif account.locations_at is None:
        say(
            f"{account.shop} is connected to {account.seller}; it tells its locations, and"
            " whether the token is good, when headway runs"
        )
    else:
        known = _locations(account.locations, unknown)
        say(f"{account.shop} is connected to {account.seller}: {known}")
        if unknown:
            say("stock there is not sold; see HEADWAY_LOCATIONS")
        if connected.missing_scopes:
            say(f"it has not granted {list_scopes(connected.missing_scopes)}")
            say(connected.scope_advice)
        if account.is_in_rehearsal:
            say(
                "nothing is written to it yet; import or publish parts, then see what would be:"
                f" headway rehearse {account.seller}"
            )


def disconnect(
    *,
    seller: Annotated[str, typer.Option(help="Whose shop.")],
    platform: Annotated[str, typer.Option(help="Its platform.")] = STOREFRONT,
    reason: Annotated[str, typer.Option(help="Why; `headway shops` shows it.")] = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Stop reading and writing a seller's shop, and forget its tokens.

    Its parts are still read at the supplier; what changes waits until the shop is connected again.
    Its orders are no longer pulled; they go on from where they stopped.
    """
    from headway.operations import shops as shop_operations

    body = shop_operations.DisconnectBody(
        seller=seller_of(seller), platform=platform_name(platform), reason=reason
    )
    with open_client(server) as client:
        account = client.call(shop_operations.disconnect, body)
    if as_json:
        emit(account)
        return
    say(f"{account.shop} of {account.seller} is disconnected, and its tokens are forgotten")


def shops(
    *,
    seller: Annotated[str | None, typer.Option(help="Only this seller's.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show every seller's shop, and what waits to get there."""
    from headway.operations import shops as shop_operations
    from headway.providers.access_scopes import list_scopes

    with open_client(server) as client:
        views, _ = collect(client, shop_operations.shops, seller=seller_id(seller), limit=SHOPS_MAX)
    if as_json:
        emit(views)
        return
    table(
        (
            "seller", "shop", "status", "platform", "orders", "locations", "products", "waiting",
            "failing", "held",
        ),
        [_cells(view) for view in views],
        empty="no shop is connected; connect one with: headway connect SHOP --seller SELLER",
    )  # fmt: skip
    for view in views:
        if view.reason:  # too long for a cell
            say(f"{view.shop} is {view.status}: {view.reason}")
        elif view.is_in_rehearsal:
            say(f"{view.shop} is not written yet; see: headway rehearse {view.seller}")
        if view.missing_scopes:
            say(f"{view.shop} has not granted {list_scopes(view.missing_scopes)}")
            say(view.scope_advice)


def _cells(shop: ShopView) -> tuple[str, ...]:
    tally = shop.tally
    status = "in rehearsal" if shop.is_in_rehearsal and not shop.reason else shop.status
    first = (shop.seller, shop.shop, status, shop.platform)
    orders = f"{shop.counts.orders:,}"
    if tally is None:
        return (*first, orders, "", "", "", "", "")
    numbers = (tally.products, tally.waiting, tally.failing, tally.held)
    known = _locations(shop.locations, shop.unknown_locations)
    return (*first, orders, known, *(f"{count:,}" for count in numbers))


def _read_secret(path: Path | None, question: str, option: str) -> str:
    """Read a token or a secret from a file, from stdin, or from a hidden prompt."""
    from headway.cli.secret_files import secret_text
    from headway.providers.tokens import is_usable

    if path is not None:
        text = secret_text(path)
    elif sys.stdin.isatty():
        text = typer.prompt(question, hide_input=True, err=True)
    else:
        raise InvalidError(f"there is nobody to ask: {question}; add {option} FILE")
    if not is_usable(text.strip()):
        raise InvalidError(
            f"{path or 'what was typed'} holds no token; it is one word, on one line"
        )
    return text.strip()


def _locations(locations: Collection[str] | None, unknown: Collection[str] | None) -> str:
    if locations is None or unknown is None:
        return "not read yet"
    known = f"{len(locations)} known"
    return f"{known}, none named {', '.join(unknown)}" if unknown else f"{known}, all mapped"
