"""A seller's price rule, guard and sales channels; what is not set is the deployment's."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from headway.core.access import Need
from headway.core.catalog.listings import SellerId
from headway.core.catalog.term_tables import write_table
from headway.core.catalog.terms import TERMS
from headway.operations.callers import Caller, OperatorCaller
from headway.operations.inputs import RequestBody, SellerPath, example
from headway.operations.operation import operation

TAG = "shops"
PATH = "/api/sellers/{seller:path}/terms"
Share = Annotated[
    Decimal,
    Field(examples=["0.12"]),
    WithJsonSchema({"type": "string", "format": "decimal", "examples": ["0.12"]}),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTerms:
    """How a price is made from a quote, which changes are held, and what else of a shop is ours.

    Shares are not per cent. `channels` are separated by commas, or `none`.
    """

    price_basis: str
    """Which price of the supplier is used: `list` or `net`. Example: `net`"""
    markup: Decimal
    """Share that is added to the supplier's price. Example: `0.12`"""
    rounding: str
    """How prices are rounded: `cent`, `whole` or `99`. Example: `99`"""
    margin_min: Decimal
    """The smallest share of the price above cost. Example: `0.05`"""
    compare_at: str
    """What happens to the compare-at price: `keep`, `clear` or `list`. Example: `keep`"""
    channels: str
    """Sales channels to publish on, separated by commas; `none` for none.
    Example: `Online Store, Point of Sale`
    """
    oversell: str
    """What happens to selling at zero stock: `keep` or `deny`. Example: `keep`"""
    description_template: str
    """The template of a new product's description. Example: `<p>{description}</p>`"""
    guard_move: Decimal
    """A price that moves by a larger share is held. Example: `0.5`"""
    guard_share: Decimal
    """If a larger share of listings changes at once, all are held. Example: `0.2`"""
    currency: str
    """The currency the shop sells in. Example: `EUR`"""
    locations: str
    """The shop's location for each of the supplier's that is sold from.
    Example: `Dallas Central=Warehouse, Chicago IL=Warehouse`
    """
    markups: str
    """Markups of groups of parts, by number or family; the first that matches holds.
    Example: `WF*=12%, family:Hardware=8%`
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsView:
    """The terms that hold for a seller, and the names of those that are the seller's own."""

    seller: SellerId | None
    """The seller; null for the deployment's terms."""
    terms: PriceTerms
    """The terms that hold."""
    own: tuple[str, ...]
    """Names of the terms that are the seller's own. Example: `["markup"]`"""


class TermsBody(RequestBody):
    """Terms to set; those left out stay. `reset` first goes back to the deployment's."""

    model_config = example({"price_basis": "net", "markup": "0.12", "rounding": "99"})
    price_basis: Literal["list", "net"] | None = None
    """Which price of the supplier is used. Example: `net`"""
    markup: Share | None = None
    """Share that is added to the supplier's price. Example: `0.12`"""
    rounding: Literal["cent", "whole", "99"] | None = None
    """How prices are rounded. Example: `99`"""
    margin_min: Share | None = None
    """The smallest share of the price above cost. Example: `0.05`"""
    compare_at: Literal["keep", "clear", "list"] | None = None
    """What happens to the compare-at price. Example: `keep`"""
    channels: Annotated[str, Field(examples=["Online Store, Point of Sale"])] | None = None
    """Sales channels to publish on, separated by commas; `none` for none."""
    oversell: Literal["keep", "deny"] | None = None
    """What happens to selling at zero stock. Example: `keep`"""
    description_template: Annotated[str, Field(examples=["<p>{description}</p>"])] | None = None
    """The template of a new product's description."""
    guard_move: Share | None = None
    """A price that moves by a larger share is held. Example: `0.5`"""
    guard_share: Share | None = None
    """If a larger share of listings changes at once, all are held. Example: `0.2`"""
    currency: Annotated[str, Field(examples=["EUR"])] | None = None
    """The currency the shop sells in, as three letters."""
    locations: Annotated[str, Field(examples=["Dallas Central=Warehouse"])] | None = None
    """The shop's location for each of the supplier's; others are not sold from."""
    markups: Annotated[str, Field(examples=["WF*=12%, family:Hardware=8%"])] | None = None
    """Markups of groups of parts, by number or family; the first that matches holds."""
    reset: bool = False
    """True to go back to the deployment's terms first."""


@operation("GET", "/api/terms", need=Need.OVERSEE, tag=TAG, name="get_default_terms")
def deployment_terms(caller: OperatorCaller) -> TermsView:
    """Show the deployment's price rule and guard, which hold where a seller has set none."""
    return _view(caller, None, {})


@operation("GET", PATH, need=Need.READ, tag=TAG, errors=(404, 422), name="get_terms")
def terms(caller: Caller, seller: SellerPath) -> TermsView:
    """Show a seller's price rule and guard."""
    named = caller.known(seller)
    assert named is not None, "a seller was named"
    return _view(caller, named, caller.own.sellers.own_terms(named))


@operation("PUT", PATH, need=Need.OPERATE, tag=TAG, errors=(404,))
def set_terms(caller: OperatorCaller, seller: SellerPath, body: TermsBody) -> TermsView:
    """Set a seller's price rule and guard; they act at each part's next read."""
    caller.known(seller)
    changes: dict[str, Any] = dict.fromkeys(TERMS) if body.reset else {}
    changes |= body.model_dump(exclude={"reset"}, exclude_none=True)
    caller.app.sellers.set_terms(seller, changes, now=caller.now)
    return terms(caller, seller)


def _view(caller: Caller, seller: SellerId | None, own: Mapping[str, Any]) -> TermsView:
    chosen = {name: value for name, value in own.items() if value is not None}
    settings = caller.shared.settings
    values: dict[str, Any] = {name: chosen.get(name, getattr(settings, name)) for name in TERMS}
    if "locations" not in chosen:
        values["locations"] = write_table(settings.locations)
    return TermsView(seller=seller, terms=PriceTerms(**values), own=tuple(chosen))
