"""`headway connect`, `disconnect`, `shops` and `terms`: sellers' shops and their price rules.

A token comes from a file, from stdin or from a hidden prompt; never from an argument, which others
on the machine can read.
"""

import re
import sys
from collections.abc import Collection, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from headway import config
from headway.app import App
from headway.cli.connect_link import give_link
from headway.cli.output import AsJson, emit, say, table
from headway.cli.secret_files import STDIN, secret_text
from headway.cli.session import open_session
from headway.cli.shop_tokens import forget_tokens, keep_tokens
from headway.cli.target import Server, open_operations, seller_id
from headway.config import Settings
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.intake import seller_of
from headway.core.catalog.listings import SellerId, Wait
from headway.errors import ConfigError, InvalidError, NotFoundError
from headway.operations.shops import ShopView, unknown_locations
from headway.providers.tokens import is_usable
from headway.store.accounts.connections import ConnectedShop, ConnectedShops, shop_name

FAILED = 1
GREET_S = 20.0
SHOPS_MAX = 1_000_000
SHARE = re.compile(r"([+-]?\d{1,6}(?:\.\d{1,6})?) ?(%?)")
# Column of `profiles` → what a person calls it, and whether it is a share.
TERMS = {
    "price_basis": ("price made from", False),
    "markup": ("markup", True),
    "rounding": ("rounding", False),
    "margin_min": ("least margin on cost", True),
    "compare_at": ("crossed-out price", False),
    "guard_move": ("price moves held beyond", True),
    "guard_share": ("mass changes held beyond", True),
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "connect",
        epilog=_examples(
            "connect acme.myshopify.com --seller acme",
            "connect acme.myshopify.com --seller acme --token-file - < token",
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
    app.command(
        "terms",
        epilog=_examples(
            "terms acme", "terms acme --basis net --markup 12% --rounding 99", "terms acme --reset"
        ),
    )(terms)


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway {line}" for line in lines)])


def connect(
    shop: Annotated[
        str,
        typer.Argument(help="The shop's address, acme.myshopify.com, or id; etsy prints a link."),
    ],
    *,
    seller: Annotated[str, typer.Option(help="Whose shop it is.")],
    link: Annotated[
        bool, typer.Option("--link", help="Print a link where the shop's owner lets us in.")
    ] = False,
    platform: Annotated[PlatformName, typer.Option(help="Where it is.")] = PlatformName.SHOPIFY,
    owner: Annotated[
        str, typer.Option(help="Printify's account, if it has several shops: the smallest id.")
    ] = "",
    title: Annotated[str, typer.Option(help="What people call the shop.")] = "",
    token_file: Annotated[
        Path | None, typer.Option(help="Where its access token is; - for stdin. Else it is asked.")
    ] = None,
    refresh_token_file: Annotated[
        Path | None, typer.Option(help="Where the refresh token is, if the access token expires.")
    ] = None,
    check: Annotated[
        bool, typer.Option(help="Ask the shop for its locations, to see that the token is good.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Connect a seller to a shop, or give the shop a new token.

    The tokens are kept encrypted. A seller has one shop on a platform, and a shop one seller.
    """
    settings = config.load()
    if link or shop == PlatformName.ETSY:
        give_link(settings, shop, seller, as_json=as_json)
        return
    _refuse_platform(shop, seller)
    name, user_id = shop_name(platform, shop), seller_of(seller)
    if token_file == refresh_token_file == STDIN:
        raise InvalidError("stdin holds one token; give the other one as a file")
    _check_refresh(settings, platform, refresh_token_file)
    owner_id = owner and shop_name(platform, owner)
    if platform is PlatformName.PRINTIFY:
        owner_id = owner_id or name
    access = _token(token_file, f"Access token of {name}")
    refresh = None
    if refresh_token_file is not None or platform is PlatformName.ETSY:
        refresh = _token(refresh_token_file, f"Refresh token of {name}")
    with open_session(settings) as session:
        app, accounts = session.app, ConnectedShops(session.app.pool)

        def join() -> ConnectedShop:
            return accounts.connect(
                user_id, name, platform=platform, owner_id=owner_id, title=title,
                now=app.clock.now(),
            )  # fmt: skip

        keep_tokens(app, join(), access, refresh)
        # A push or a pull that came in between found no token, and turned away.
        account = join()
        if platform is not PlatformName.SHOPIFY:
            _say_connected(account, as_json=as_json)
            return
        if check:
            account = _greet(app, account)
        if as_json:
            emit(account)
        else:
            _say_greeting(app, account)
        if account.status != "connected":
            raise typer.Exit(FAILED)


def _check_refresh(settings: Settings, platform: PlatformName, file: Path | None) -> None:
    """Raise if a refresh token is lacking, or would be of no use."""
    if platform is PlatformName.ETSY and file is None and not sys.stdin.isatty():
        raise InvalidError("Etsy's access tokens live an hour; add --refresh-token-file FILE")
    if platform is PlatformName.PRINTIFY and file is not None:
        raise InvalidError("a personal token of Printify lives a year and is not refreshed")
    if platform is PlatformName.ETSY and not settings.etsy_keystring:
        raise ConfigError("Etsy's tokens work only with HEADWAY_ETSY_KEYSTRING; set it")
    can_refresh = settings.shopify_client_id and settings.shopify_client_secret
    if platform is PlatformName.SHOPIFY and file is not None and not can_refresh:
        raise ConfigError(
            "a refresh token works only with HEADWAY_SHOPIFY_CLIENT_ID and"
            " HEADWAY_SHOPIFY_CLIENT_SECRET; set both"
        )


def _refuse_platform(shop: str, seller: str) -> None:
    """Refuse the name of a platform where a shop's is needed."""
    if shop in tuple(PlatformName):
        raise InvalidError(f"which shop? headway connect SHOP --seller {seller} --platform {shop}")


def _say_connected(account: ConnectedShop, *, as_json: bool) -> None:
    if as_json:
        emit(account)
        return
    say(
        f"{account.platform} shop {account.shop} is connected to {account.user_id}; the token"
        " is tried, and its orders come, when headway runs"
    )
    say("see how it goes with: headway shops")


def _greet(app: App, account: ConnectedShop) -> ConnectedShop:
    """Let the shop tell its locations, which proves the token; whoever runs may be faster."""
    push, accounts = app.push("connect", only=account.id), ConnectedShops(app.pool)
    give_up_s = app.clock.monotonic() + GREET_S
    while account.status == "connected" and account.locations_at is None:
        if app.clock.monotonic() > give_up_s:
            break
        result = push.step()
        account = accounts.of_seller(account.user_id)
        if isinstance(result, Wait):
            wait_s = (result.until - app.clock.now()).total_seconds()
            app.clock.sleep(min(max(wait_s, 0), GREET_S))
    return account


def _say_greeting(app: App, account: ConnectedShop) -> None:
    if account.status != "connected":
        say(f"{account.shop} refused: {account.reason}")
    elif account.locations_at is None:
        say(
            f"{account.shop} is connected to {account.user_id}; it tells its locations, and"
            " whether the token is good, when headway runs"
        )
    else:
        unknown = unknown_locations(account, list(app.settings.locations.values()))
        said = _said(account.locations, unknown)
        say(f"{account.shop} is connected to {account.user_id}: {said}")
        if unknown:
            say("stock there is not sold; see HEADWAY_LOCATIONS")
    say("see how it goes with: headway shops")


def disconnect(
    *,
    seller: Annotated[str, typer.Option(help="Whose shop.")],
    platform: Annotated[PlatformName, typer.Option(help="Where it is.")] = PlatformName.SHOPIFY,
    reason: Annotated[str, typer.Option(help="Why; `headway shops` shows it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Stop reading and writing a seller's shop, and forget its tokens.

    Its parts are still read at the supplier; what changes waits until the shop is connected again.
    Its orders are no longer pulled; they go on from where they stopped.
    """
    with open_session(config.load()) as session:
        app, now, user_id = session.app, session.app.clock.now(), seller_of(seller)
        _require_there(app, user_id, platform)
        account = ConnectedShops(app.pool).disconnect(
            user_id, reason or "disconnected by a person", platform=platform, now=now
        )
        forget_tokens(app, account)
        if as_json:
            emit(account)
            return
        say(f"{account.shop} of {user_id} is disconnected, and its tokens are forgotten")


def _require_there(app: App, user_id: SellerId, platform: PlatformName) -> None:
    """Raise NotFoundError if all the seller's shops are on other platforms."""
    found = app.account_queries.accounts(user_id=user_id, limit=len(PlatformName))
    others = sorted({each.platform for each in found})
    if others and platform not in others:
        raise NotFoundError(
            f"{user_id} has no shop on {platform}, but on {' and '.join(others)}; add --platform"
        )


def shops(
    *,
    seller: Annotated[str | None, typer.Option(help="Only this seller's.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show every seller's shop, and what waits to get there."""
    with open_operations(server) as operations:
        found = operations.shops.some(seller=seller_id(seller), limit=SHOPS_MAX)
    if as_json:
        emit(found)
        return
    table(
        (
            "seller", "shop", "status", "platform", "orders", "locations", "products", "waiting",
            "failing", "held",
        ),
        [_cells(each) for each in found],
        empty="no shop is connected; connect one with: headway connect SHOP --seller SELLER",
    )  # fmt: skip
    for each in found:
        if each.reason:  # too long for a cell
            say(f"{each.shop} is {each.status}: {each.reason}")


def _cells(shop: ShopView) -> tuple[str, ...]:
    tally = shop.tally
    first = (shop.seller, shop.shop, shop.status, shop.platform.value)
    orders = f"{shop.counts.orders:,}"
    if tally is None:
        return (*first, orders, "", "", "", "", "")
    numbers = (tally.products, tally.waiting, tally.failing, tally.held)
    known = _said(shop.locations, shop.unknown_locations)
    return (*first, orders, known, *(f"{each:,}" for each in numbers))


def terms(
    seller: Annotated[str | None, typer.Argument(help="Whose; without, the deployment's.")] = None,
    *,
    basis: Annotated[
        Literal["list", "net"] | None, typer.Option(help="The quoted price that ours is made from.")
    ] = None,
    markup: Annotated[str | None, typer.Option(help="What is added to it: 12% or 0.12.")] = None,
    rounding: Annotated[
        Literal["cent", "whole", "99"] | None,
        typer.Option(help="To the nearest cent or unit, or up to the next .99."),
    ] = None,
    min_margin: Annotated[
        str | None, typer.Option(help="Least markup on what a part costs us: 5% or 0.05.")
    ] = None,
    compare_at: Annotated[
        Literal["none", "list"] | None,
        typer.Option(help="Show the list price crossed out where ours is lower."),
    ] = None,
    guard_move: Annotated[
        str | None, typer.Option(help="Hold price moves beyond this share: 50%.")
    ] = None,
    guard_share: Annotated[
        str | None, typer.Option(help="Hold changes of more of the catalogue in a day: 25%.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Back to the deployment's.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show or set a seller's price rule and guard.

    What a seller has not set is the deployment's. New terms act at each part's next read.
    """
    given = {
        "price_basis": basis,
        "markup": _share("markup", markup),
        "rounding": rounding,
        "margin_min": _share("min-margin", min_margin),
        "compare_at": compare_at,
        "guard_move": _share("guard-move", guard_move),
        "guard_share": _share("guard-share", guard_share),
    }
    changes: dict[str, Any] = dict.fromkeys(TERMS) if reset else {}
    changes |= {name: value for name, value in given.items() if value is not None}
    if changes and seller is None:
        raise InvalidError("say whose terms: headway terms SELLER --markup 12%")
    with open_session(config.load()) as session:
        sellers, user_id = session.app.sellers, SellerId(seller or "")
        if changes:
            sellers.set_terms(user_id, changes, now=session.app.clock.now())
        own = {} if seller is None else sellers.own_terms(user_id)
        _print_terms(session.app.settings, seller, own, as_json=as_json)
        if changes and not as_json:
            say("new terms act at each part's next read")


def _token(path: Path | None, question: str) -> str:
    """Read a token from a file, from stdin, or from a person who types it unseen."""
    if path is not None:
        text = secret_text(path)
    elif sys.stdin.isatty():
        text = typer.prompt(question, hide_input=True, err=True)
    else:
        raise InvalidError("there is nobody to ask for the access token; add --token-file FILE")
    if not is_usable(text.strip()):
        raise InvalidError(
            f"{path or 'what was typed'} holds no token; it is one word, on one line"
        )
    return text.strip()


def _said(locations: Collection[str] | None, unknown: Collection[str] | None) -> str:
    if locations is None or unknown is None:
        return "not read yet"
    known = f"{len(locations)} known"
    return f"{known}, none named {', '.join(unknown)}" if unknown else f"{known}, all mapped"


def _share(option: str, text: str | None) -> Decimal | None:
    """Read 12% or 0.12; raises InvalidError."""
    if text is None:
        return None
    written = SHARE.fullmatch(text.strip())
    if written is None:
        raise InvalidError(f"--{option}: {text!r} is no share; write 12% or 0.12")
    number = Decimal(written[1])
    if written[2]:
        return number / 100
    if abs(number) > 1:
        raise InvalidError(f"--{option}: write {text}% if that is meant, or a share such as 0.12")
    return number


def _print_terms(
    settings: Settings, seller: str | None, own: Mapping[str, Any], *, as_json: bool
) -> None:
    chosen = {name: own.get(name) for name in TERMS}
    values = {name: getattr(settings, name) if own is None else own for name, own in chosen.items()}
    if as_json:
        is_own = [name for name, value in chosen.items() if value is not None]
        emit({"seller": seller, "terms": values, "own": is_own})
        return
    rows = [
        (
            words,
            f"{(values[name] * 100).normalize():f} %" if is_share else values[name],
            "the deployment's" if chosen[name] is None else f"{seller}'s own",
        )
        for name, (words, is_share) in TERMS.items()
    ]
    table(("term", "value", "whose"), rows)
