"""`headway removals`: listings that a platform no longer shows, and whether they are removed."""

from __future__ import annotations

from typing import Annotated

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, collect, open_client, seller_id
from headway.core.accounts.jobs import platform_name
from headway.errors import InvalidError
from headway.web.formatting import ago

EXAMPLES = """Examples:

headway removals

headway removals acme --platform etsy --confirm 15 --reason "the shop was cleared"

headway removals acme --platform etsy --dismiss 15
"""
SHOWN_MAX = 500


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("removals", epilog=EXAMPLES)(removals)


def removals(
    seller: Annotated[str | None, typer.Argument(help="Only this seller's.")] = None,
    *,
    platform: Annotated[str | None, typer.Option(help="Where the listings are missing.")] = None,
    confirm: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Remove the N missing listings now.")
    ] = None,
    dismiss: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep the N missing listings: they are still there."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show removals of listings that are held, and decide about one.

    If most listings of an account are missing at once, Headway keeps them until five complete
    pulls agree. N is the number that this command or the alert shows; if another number is missing
    meanwhile, the decision is refused.
    """
    from headway.operations import removals as removal_operations
    from headway.operations.removals import RemovalBody

    missing = confirm or dismiss
    if missing is None:
        _list(seller, server, as_json=as_json)
        return
    if confirm and dismiss:
        raise InvalidError("--confirm or --dismiss, not both")
    if seller is None or platform is None:
        raise InvalidError("name the seller and --platform whose removal is decided")
    body = RemovalBody(
        seller=seller_id(seller), platform=platform_name(platform), missing=missing, reason=reason
    )
    decide = removal_operations.confirm_removal if confirm else removal_operations.dismiss_removal
    with open_client(server) as client:
        ruling = client.call(decide, body)
    if as_json:
        emit(ruling)
    else:
        say(ruling.message)


def _list(seller: str | None, server: str | None, *, as_json: bool) -> None:
    from headway.operations import removals as removal_operations

    with open_client(server) as client:
        views, _ = collect(
            client, removal_operations.removals, seller=seller_id(seller), limit=SHOWN_MAX
        )
        now = client.now
    if as_json:
        emit(views)
        return
    table(
        ("seller", "platform", "shop", "missing", "of", "held"),
        [
            (
                view.seller, view.platform, view.shop, str(view.missing), str(view.known),
                ago(view.since, now),
            )
            for view in views
        ],
        empty="no removal is held",
    )  # fmt: skip
    for view in views:
        say(f"{view.seller} {view.platform} {view.shop}: {view.reason}")
    if views:
        say("look at the shop; then decide with --confirm or --dismiss and the number missing")
