"""What a part that is being published brings into its shop, or why it may not go there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from headway.core.catalog.change_detection import Observed, Terms
from headway.core.catalog.description_template import render
from headway.core.catalog.guard import Weighed
from headway.core.catalog.listings import Quote
from headway.core.catalog.product_details import ProductDetails, read_details, without_brackets

TITLE_CHARS_MAX = 255
REJECTED = "its quote was rejected; it is published when the supplier quotes something else"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """A row of `product_staging` after a read, in its columns, and the raw quote."""

    status: Literal["normalized", "blocked", "failed"]
    reason: str = ""
    title: str = ""
    description_html: str = ""
    vendor: str = ""
    list_price: Decimal | None = None
    net_price: Decimal | None = None
    price: str | None = None
    cost_per_item: str | None = None
    currency: str | None = None
    inventory_quantity: int | None = None
    inventory_status: str | None = None
    location_summary: str | None = None
    details: ProductDetails = field(default_factory=ProductDetails)
    raw: Mapping[str, Any] | None = None


def stage(
    quote: Quote,
    observed: Observed,
    weighed: Weighed,
    terms: Terms,
    raw: Mapping[str, Any] | None,
) -> Staging:
    """Normalize a part that was read well, or block it with the reason."""
    reason = _unmapped(quote, terms)
    if weighed.desired is None:
        reason = weighed.held_reason or REJECTED
    shown = weighed.desired or {}
    details = read_details(quote, images=terms.images)
    return Staging(
        status="blocked" if reason else "normalized",
        reason=reason or "",
        title=_title(quote, observed, terms),
        description_html=_description(quote, observed, terms, details),
        vendor=without_brackets(quote.vendor),
        list_price=quote.list_price,
        net_price=quote.net_price,
        price=shown.get("price"),
        cost_per_item=shown.get("cost"),
        currency=quote.currency,
        inventory_quantity=observed.quantity,
        inventory_status="in_stock" if observed.quantity else "out_of_stock",
        location_summary="; ".join(
            f"{place}: {n}" for place, n in sorted(quote.quantities.items())
        ),
        details=details,
        raw=raw,
    )


def _title(quote: Quote, observed: Observed, terms: Terms) -> str:
    """Return the product's title, which says how many pieces its price is for."""
    title = without_brackets(quote.name or quote.sku)
    pieces = _pieces(observed, terms)
    mark = f" (pack of {pieces:,})" if pieces > 1 else ""
    return title[: TITLE_CHARS_MAX - len(mark)] + mark


def _description(quote: Quote, observed: Observed, terms: Terms, details: ProductDetails) -> str:
    pieces = _pieces(observed, terms)
    values = {
        "name": quote.name,
        "description": quote.description,
        "sku": quote.sku,
        "vendor": quote.vendor,
        "condition": details.condition,
        "unit": details.unit,
        "pack": f"{pieces:,}" if pieces > 1 else "",
        "origin": details.origin,
    }
    return render(terms.description_template, values)


def _pieces(observed: Observed, terms: Terms) -> int:
    """Return how many pieces the price is for."""
    return observed.minimum * terms.units.get(observed.unit, 1)


def _unmapped(quote: Quote, terms: Terms) -> str | None:
    """Return a message if there is stock, but only at unmapped locations; otherwise None."""
    places = sorted(place for place, quantity in quote.quantities.items() if quantity > 0)
    if not places or any(terms.place(place) for place in places):
        return None
    are = "is" if len(places) == 1 else "are"
    named = ", ".join(places)
    return f"stocked only at {named}, which {are} not mapped; see HEADWAY_LOCATIONS"
