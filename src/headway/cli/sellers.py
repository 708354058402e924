"""`headway sellers`: the tenants of an application that runs Headway for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, collect, open_client
from headway.core.accounts.jobs import Tier
from headway.core.catalog.intake import seller_of

if TYPE_CHECKING:
    from headway.operations.sellers import SellerDetails

SUMMARY = "Create, list or show sellers."
SELLERS_MAX = 1_000_000
Seller = Annotated[str, typer.Argument(help="The seller's name, of your choice.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: headway sellers list", no_args_is_help=True)
    group.command("create", epilog=_examples("create acme --tier growth"))(create)
    group.command("list", epilog=_examples("list", "list --json"))(list_sellers)
    group.command("show", epilog=_examples("show acme"))(show)
    app.add_typer(group, name="sellers")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway sellers {line}" for line in lines)])


def create(
    seller: Seller,
    *,
    tier: Annotated[Tier, typer.Option(help="What the seller pays for.")] = Tier.FREE,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Create a seller; for one that exists, nothing changes."""
    from headway.operations import sellers

    body = sellers.SellerBody(seller=seller_of(seller), tier=tier)
    with open_client(server, creates=True) as client:
        created = client.call(sellers.create_seller, body)
    if as_json:
        emit(created)
    elif created.is_new:
        say(f"{created.seller.seller} is created, with the tier {created.seller.tier}")
    else:
        say(f"there is a seller {created.seller.seller} already; nothing was changed")


def list_sellers(*, server: Server = None, as_json: AsJson = False) -> None:
    """List all sellers by name."""
    from headway.operations import sellers

    with open_client(server) as client:
        rows, _ = collect(client, sellers.sellers, limit=SELLERS_MAX)
    if as_json:
        emit(rows)
        return
    _print(rows)


def show(seller: Seller, *, server: Server = None, as_json: AsJson = False) -> None:
    """Show one seller."""
    from headway.operations import sellers

    with open_client(server) as client:
        row = client.call(sellers.seller, seller_of(seller))
    if as_json:
        emit(row)
        return
    _print([row])


def _print(rows: list[SellerDetails]) -> None:
    cells = [
        (
            row.seller,
            row.tier,
            f"{row.connected} of {row.accounts}",
            f"{row.listings:,}",
            f"{row.orders_used:,} of {row.orders_quota:,}",
        )
        for row in rows
    ]
    headings = ("seller", "tier", "connected", "listings", "orders of the month")
    empty = "there is no seller; create one with: headway sellers create NAME"
    table(headings, cells, empty=empty, right={2, 3, 4})
