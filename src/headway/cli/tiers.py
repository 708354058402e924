"""`headway tier`: what a seller pays for, and what is left of the month."""

from datetime import timedelta
from typing import Annotated

import typer

from headway import config
from headway.cli.output import AsJson, emit, say
from headway.cli.session import open_session
from headway.core.intake import seller_of
from headway.core.jobs import Tier


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
    as_json: AsJson = False,
) -> None:
    """Show or set what a seller pays for.

    A new tier acts at once on all the seller's jobs: on who goes first, how often, and how many
    orders a month there may be.
    """
    user_id, lifted = seller_of(seller), 0
    with open_session(config.load()) as session:
        rule, sellers, now = session.app.job_rule, session.app.sellers, session.app.clock.now()
        quotas = rule.order_quotas
        if new is None:
            sellers.known(user_id)
        else:
            lifted = sellers.set_tier(user_id, new, quotas=quotas, now=now)
        current = sellers.tier(user_id)
        used = sellers.orders_count(user_id, now=now)
        has_account = bool(session.app.lane.accounts(user_id=user_id, limit=1))
    quota, minutes = quotas[current], rule.intervals[current] / timedelta(minutes=1)
    if as_json:
        emit(
            {
                "seller": user_id,
                "tier": current,
                "orders_quota": quota,
                "orders_used": used,
                "interval_min": minutes,
                "lifted": lifted,
            }
        )
        return
    say(
        f"{user_id} is {current}: pulled every {minutes:g} min,"
        f" {used:,} of {quota:,} orders of this month used"
    )
    if not has_account:
        say(f"no account of {user_id} is connected yet; see: headway connect --help")
    if lifted:
        say(f"{lifted} jobs that waited for the next month go on")
