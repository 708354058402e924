"""`headway connect`, `disconnect`, `shops` and `terms`: sellers' shops and their price rules.

A token comes from a file, from stdin or from a hidden prompt; never from an argument, which others
on the machine can read.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from headway import config
from headway.app import App, shared_vault
from headway.cli.output import AsJson, emit, say, table
from headway.cli.session import open_session
from headway.config import Settings
from headway.connectors.shopify import shop_scope, store_tokens
from headway.connectors.tokens import is_usable
from headway.core.intake import seller_of
from headway.core.model import SellerId, Wait
from headway.errors import ConfigError, InvalidError
from headway.store.accounts import Account, Accounts, shop_domain
from headway.store.credentials import Credentials

STDIN = Path("-")
FAILED = 1
GREET_S = 20.0
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
        ),
    )(connect)
    app.command(
        "disconnect", epilog=_examples('disconnect --seller acme --reason "the shop is closed"')
    )(disconnect)
    app.command("shops", epilog=_examples("shops", "shops --json"))(shops)
    app.command(
        "terms",
        epilog=_examples(
            "terms acme", "terms acme --basis net --markup 12% --rounding 99", "terms acme --reset"
        ),
    )(terms)


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway {line}" for line in lines)])


def connect(
    shop: Annotated[str, typer.Argument(help="The shop's address, such as acme.myshopify.com.")],
    *,
    seller: Annotated[str, typer.Option(help="Whose shop it is.")],
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

    The tokens are kept encrypted. A seller has one shop and a shop one seller.
    """
    settings = config.load()
    domain, user_id = shop_domain(shop), seller_of(seller)
    if token_file == refresh_token_file == STDIN:
        raise InvalidError("stdin holds one token; give the other one as a file")
    can_refresh = settings.shopify_client_id and settings.shopify_client_secret
    if refresh_token_file is not None and not can_refresh:
        raise ConfigError(
            "a refresh token works only with HEADWAY_SHOPIFY_CLIENT_ID and"
            " HEADWAY_SHOPIFY_CLIENT_SECRET; set both"
        )
    access = _token(token_file, f"Access token of {domain}")
    refresh = None if refresh_token_file is None else _token(refresh_token_file, "")
    with open_session(settings) as session:
        app, accounts = session.app, Accounts(session.app.pool)
        accounts.connect(user_id, domain, now=app.clock.now())
        _keep(app, domain, access, refresh)
        # A push that came in between found no token, and turned away.
        account = accounts.connect(user_id, domain, now=app.clock.now())
        if check:
            account = _greet(app, account)
        if as_json:
            emit(account)
        else:
            _say_greeting(app, account)
        if account.status != "connected":
            raise typer.Exit(FAILED)


def _greet(app: App, account: Account) -> Account:
    """Let the shop tell its locations, which proves the token; whoever runs may be faster."""
    push, accounts = app.push("connect", only=account.id), Accounts(app.pool)
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


def _say_greeting(app: App, account: Account) -> None:
    if account.status != "connected":
        say(f"{account.shop} refused: {account.reason}")
    elif account.locations_at is None:
        say(
            f"{account.shop} is connected to {account.user_id}; it tells its locations when"
            " headway runs"
        )
    else:
        unknown = _unknown(account, list(app.settings.locations.values()))
        say(f"{account.shop} is connected to {account.user_id}: {_said(account, unknown)}")
        if unknown:
            say("stock there is not sold; see HEADWAY_LOCATIONS")
    say("see how it goes with: headway shops")


def disconnect(
    *,
    seller: Annotated[str, typer.Option(help="Whose shop.")],
    reason: Annotated[str, typer.Option(help="Why; `headway shops` shows it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Stop writing to a seller's shop, and forget its tokens.

    Its listings are still read; what changes waits until the shop is connected again.
    """
    with open_session(config.load()) as session:
        app, now = session.app, session.app.clock.now()
        account = Accounts(app.pool).disconnect(
            SellerId(seller), reason or "disconnected by a person", now=now
        )
        _forget(app, account)
        if as_json:
            emit(account)
            return
        say(f"{account.shop} of {seller} is disconnected, and its tokens are forgotten")


def shops(*, as_json: AsJson = False) -> None:
    """Show every seller's shop, and what waits to get there."""
    with open_session(config.load()) as session:
        accounts = Accounts(session.app.pool)
        tallies, wanted = accounts.tally(), session.app.settings.locations.values()
        found = [
            (each, tallies[each.user_id], _unknown(each, list(wanted))) for each in accounts.list()
        ]
        if as_json:
            emit(
                [
                    {
                        "seller": each.user_id,
                        "shop": each.shop,
                        "status": each.status,
                        "reason": each.reason,
                        "locations": each.locations and sorted(each.locations),
                        "unknown_locations": unknown,
                        "tally": tally,
                    }
                    for each, tally, unknown in found
                ]
            )
            return
        rows = [
            (
                each.user_id,
                each.shop,
                each.status,
                _said(each, unknown),
                f"{tally.products:,}",
                f"{tally.waiting:,}",
                f"{tally.failing:,}",
                f"{tally.held:,}",
            )
            for each, tally, unknown in found
        ]
        table(
            ("seller", "shop", "status", "locations", "products", "waiting", "failing", "held"),
            rows,
            empty="no shop is connected; connect one with: headway connect SHOP --seller SELLER",
        )
        for each, _, _ in found:
            if each.reason:  # too long for a cell
                say(f"{each.shop} is {each.status}: {each.reason}")


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
    if path == STDIN:
        text = sys.stdin.read()
    elif path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not plain text"
            raise ConfigError(f"{path}: {why}") from None
    elif sys.stdin.isatty():
        text = typer.prompt(question, hide_input=True, err=True)
    else:
        raise InvalidError("there is nobody to ask for the access token; add --token-file FILE")
    if not is_usable(text.strip()):
        raise InvalidError(
            f"{path or 'what was typed'} holds no token; it is one word, on one line"
        )
    return text.strip()


def _keep(app: App, domain: str, access: str, refresh: str | None) -> None:
    settings = app.settings
    store_tokens(
        Credentials(app.pool),
        shared_vault(settings),
        shop_scope(settings.shopify_client_id, domain),
        clock=app.clock,
        access=access,
        refresh=refresh,
    )


def _forget(app: App, account: Account) -> None:
    """Write over the tokens: a row that is removed would give its version to a later token."""
    settings, now = app.settings, app.clock.now()
    store_tokens(
        Credentials(app.pool),
        shared_vault(settings),
        shop_scope(settings.shopify_client_id, account.shop),
        clock=app.clock,
        access="forgotten",
        expires_at=now,
        refresh="forgotten",
        refresh_expires_at=now,
    )


def _unknown(account: Account, wanted: Sequence[str]) -> list[str] | None:
    """Return the locations that stock is mapped to and the shop does not have."""
    if account.locations is None:
        return None
    return sorted(set(wanted) - set(account.locations))


def _said(account: Account, unknown: Sequence[str] | None) -> str:
    if account.locations is None or unknown is None:
        return "not read yet"
    known = f"{len(account.locations)} known"
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
