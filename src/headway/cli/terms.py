"""`headway terms`: a seller's price rule and guard."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, open_client
from headway.core.catalog.listings import SellerId
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.operations.terms import TermsView

SHARE = re.compile(r"([+-]?\d{1,6}(?:\.\d{1,6})?) ?(%?)")
# Column of `profiles` → its label, and whether it is a share.
TERMS = {
    "price_basis": ("price made from", False),
    "markup": ("markup", True),
    "rounding": ("rounding", False),
    "margin_min": ("least margin on cost", True),
    "compare_at": ("crossed-out price", False),
    "channels": ("published on", False),
    "oversell": ("sells at zero stock", False),
    "description_template": ("description of new products", False),
    "guard_move": ("price moves held beyond", True),
    "guard_share": ("mass changes held beyond", True),
    "currency": ("sells in", False),
    "locations": ("sells from", False),
    "markups": ("groups with a markup", False),
}
Oversell = Annotated[
    Literal["keep", "deny"] | None,
    typer.Option(help="Variants that sell at zero stock: keep and report them, or deny it."),
]
Template = Annotated[
    str | None,
    typer.Option(help="HTML for new products, with {name}, {description}, {sku} and others."),
]
Currency = Annotated[str | None, typer.Option(help="Currency that the shop sells in: EUR.")]
Locations = Annotated[
    str | None, typer.Option(help='Where stock is sold from: "Supplier place=Shop place, ...".')
]
GroupMarkups = Annotated[
    str | None, typer.Option(help='Markups of groups: "WF*=12%, family:Hardware=8%".')
]
CompareAt = Annotated[
    Literal["keep", "clear", "list"] | None,
    typer.Option(help="Crossed-out price: the merchant's own, none, or the list price."),
]
Channels = Annotated[
    str | None,
    typer.Option(help="Sales channels that published parts are visible on, or none."),
]
GuardMove = Annotated[str | None, typer.Option(help="Hold price changes beyond this share: 50%.")]
GuardShare = Annotated[
    str | None, typer.Option(help="Hold changes of a larger share of a catalog a day: 25%.")
]
EXAMPLES = """Examples:

headway terms acme

headway terms acme --basis net --markup 12% --rounding 99

headway terms acme --channels "Online Store, Point of Sale" --compare-at clear

headway terms acme --description-template "{description} Condition: {condition}."

headway terms acme --currency EUR --locations "Dallas Central=Warehouse, Chicago IL=Warehouse"

headway terms acme --markups "WF*=12%, family:Hardware=8%"

headway terms acme --reset
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("terms", epilog=EXAMPLES)(terms)


def terms(
    seller: Annotated[str | None, typer.Argument(help="The seller; else the deployment.")] = None,
    *,
    basis: Annotated[
        Literal["list", "net"] | None, typer.Option(help="Quoted price to calculate from.")
    ] = None,
    markup: Annotated[str | None, typer.Option(help="What is added to it: 12% or 0.12.")] = None,
    rounding: Annotated[
        Literal["cent", "whole", "99"] | None,
        typer.Option(help="To the nearest cent or unit, or up to the next .99."),
    ] = None,
    min_margin: Annotated[
        str | None, typer.Option(help="Least markup on what a part costs us: 5% or 0.05.")
    ] = None,
    compare_at: CompareAt = None,
    channels: Channels = None,
    oversell: Oversell = None,
    description_template: Template = None,
    guard_move: GuardMove = None,
    guard_share: GuardShare = None,
    currency: Currency = None,
    locations: Locations = None,
    markups: GroupMarkups = None,
    reset: Annotated[bool, typer.Option("--reset", help="Remove the seller's own values.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show or set a seller's price rule, guard and sales channels.

    Without values of their own, the deployment's apply. New terms act when a part is next read.
    """
    from headway.operations import terms as term_operations
    from headway.operations.terms import TermsBody

    body = TermsBody(
        price_basis=basis,
        markup=_share("markup", markup),
        rounding=rounding,
        margin_min=_share("min-margin", min_margin),
        compare_at=compare_at,
        channels=channels,
        oversell=oversell,
        description_template=description_template,
        guard_move=_share("guard-move", guard_move),
        guard_share=_share("guard-share", guard_share),
        currency=currency,
        locations=locations,
        markups=markups,
        reset=reset,
    )
    is_change = body != TermsBody()
    if is_change and seller is None:
        raise InvalidError("say whose terms: headway terms SELLER --markup 12%")
    with open_client(server) as client:
        if seller is None:
            view = client.call(term_operations.deployment_terms)
        elif is_change:
            view = client.call(term_operations.set_terms, SellerId(seller), body)
        else:
            view = client.call(term_operations.terms, SellerId(seller))
    if as_json:
        emit(view)
        return
    _print(view)
    if is_change:
        say("new terms take effect when a part is next read")


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


def _print(view: TermsView) -> None:
    rows = []
    for name, (words, is_share) in TERMS.items():
        value = getattr(view.terms, name)
        shown = f"{(value * 100).normalize():f} %" if is_share else value
        owner = f"{view.seller}'s own" if name in view.own else "the deployment's"
        rows.append((words, shown, owner))
    table(("term", "value", "whose"), rows)
