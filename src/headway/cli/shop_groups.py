"""`headway group`: the shops of one owner, with one key and one login for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, open_client
from headway.core.catalog.intake import seller_of
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.operations.shop_groups import GroupShop, ShopGroup

EXAMPLES = """Examples:

headway group acme

headway group acme/eu --with acme

headway group acme/eu --alone
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("group", epilog=EXAMPLES)(group)


def group(
    seller: Annotated[str, typer.Argument(help="A seller of the group.")],
    *,
    main: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="MAIN",
            help="Let keys and logins of MAIN act for this seller too. A new name begins a seller.",
        ),
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Take the seller out of its group.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show the shops of one owner with totals, or add a seller to them.

    A seller has one shop. An owner with a second shop is a second seller, with its own parts,
    prices, currency and locations, in the group of the first one. Keys and logins of the main
    seller may act for each shop of the group, one at a time; those of the others, for theirs only.
    """
    from headway.operations import shop_groups

    if main is not None and alone:
        raise InvalidError("--with MAIN or --alone, not both")
    user_id = seller_of(seller)
    with open_client(server, creates=main is not None) as client:
        if main is None and not alone:
            shown = client.call(shop_groups.shop_group, user_id)
        else:
            body = shop_groups.GroupBody(main_seller=None if main is None else seller_of(main))
            shown = client.call(shop_groups.set_shop_group, user_id, body)
    if as_json:
        emit(shown)
    else:
        _print(shown)


def _print(group: ShopGroup) -> None:
    totals, orders = group.totals, group.orders
    rows = [_cells(shop) for shop in group.shops]
    if len(rows) > 1:
        counts = (totals.products, totals.waiting, totals.failing, totals.held, orders)
        rows.append(("all", f"{len(group.shops)} shops", "", *(f"{count:,}" for count in counts)))
    table(("seller", "shop", "status", "products", "waiting", "failing", "held", "orders"), rows)
    main = group.main_seller
    if len(group.shops) > 1:
        say(f"keys and logins of {main} may act for each of them")
    else:
        second = f"headway connect SHOP --seller {main}/2 --with {main}"
        say(f"{main} has one shop; connect another with: {second}")


def _cells(shop: GroupShop) -> tuple[str, ...]:
    status = "in rehearsal" if shop.is_in_rehearsal and not shop.reason else shop.status
    tally = shop.tally
    counts = (tally.products, tally.waiting, tally.failing, tally.held, shop.orders)
    return (shop.seller, shop.shop or "", status, *(f"{count:,}" for count in counts))
