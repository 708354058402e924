"""`headway tier`: what a seller pays for, and what is left of the month."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from headway.cli.output import AsJson, emit, say
from headway.cli.target import Server, open_client
from headway.core.accounts.jobs import Tier
from headway.core.catalog.intake import seller_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    examples = ["Examples:", "headway tier acme", "headway tier acme pro"]
    app.command("tier", epilog="\n\n".join(examples))(tier)


def tier(
    seller: Annotated[str, typer.Argument(help="Whose.")],
    new: Annotated[
        Tier | None, typer.Argument(metavar="TIER", help="free, starter, growth or pro.")
    ] = None,
    *,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show or set a seller's tier.

    A new tier applies to all the seller's jobs immediately: their order, their interval, and the
    number of orders a month.
    """
    from headway.operations import shops

    user_id = seller_of(seller)
    with open_client(server) as client:
        view = (
            client.call(shops.tier, user_id)
            if new is None
            else client.call(shops.set_tier, user_id, shops.TierBody(tier=new))
        )
    if as_json:
        emit({name: value for name, value in asdict(view).items() if name != "has_account"})
        return
    say(
        f"{user_id} is {view.tier}: pulled every {view.interval_min:g} min,"
        f" {view.orders_used:,} of {view.orders_quota:,} orders of this month used"
    )
    if not view.has_account:
        say(f"no account of {user_id} is connected yet; see: headway connect --help")
    if view.lifted:
        say(f"{view.lifted} jobs that waited for the next month go on")
