"""Price and stock of a part over time, at its supplier and in its shop, from its events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

OBSERVATIONS = ("first_observed", "price_changed", "cost_changed", "quantity_changed", "not_listed")
SHOWN = ("product_published", "shopify_updated", "drift_found")

# When, which kind, and the new value.
PriceEvent = tuple[datetime, str, Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint:
    """Known from this instant on: the supplier's price and stock, and the shop's."""

    at: datetime
    """The instant."""
    supplier_price: Decimal | None = None
    supplier_quantity: int | None = None
    """How many the supplier had; null if it is unknown."""
    shop_price: Decimal | None = None
    shop_quantity: int | None = None
    """How many the shop showed; null if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the events up to here have shown."""

    list_price: Decimal | None = None
    net_price: Decimal | None = None
    quantities: Mapping[str, int] | None = None
    shop_price: Decimal | None = None
    shop_quantities: Mapping[str, int] | None = None

    def with_event(self, kind: str, new: Mapping[str, Any]) -> "_Known":
        """Return what is known after one more event; values it does not name stay."""
        quantities = new.get("quantities")
        if kind in SHOWN:
            price = _decimal(new.get("price"))
            return replace(
                self,
                shop_price=self.shop_price if price is None else price,
                shop_quantities=self.shop_quantities if quantities is None else quantities,
            )
        return replace(
            self,
            list_price=_decimal(new["list_price"]) if "list_price" in new else self.list_price,
            net_price=_decimal(new["net_price"]) if "net_price" in new else self.net_price,
            quantities=self.quantities if quantities is None else quantities,
        )

    def at(self, at: datetime) -> SeriesPoint:
        """Return it as a point of the series."""
        return SeriesPoint(
            at=at,
            supplier_price=self.list_price or self.net_price,
            supplier_quantity=_sum(self.quantities),
            shop_price=self.shop_price,
            shop_quantity=_sum(self.shop_quantities),
        )


def price_points(events: Iterable[PriceEvent], known: _Known | None = None) -> list[SeriesPoint]:
    """Return a point for each event, the oldest first."""
    points, known = [], known or _Known()
    for at, kind, new in events:
        known = known.with_event(kind, new or {})
        points.append(known.at(at))
    return points


def price_series(
    events: Sequence[PriceEvent], *, before: Sequence[PriceEvent], begin: datetime
) -> list[SeriesPoint]:
    """Return a point for each instant, beginning with what the events `before` had shown."""
    known = _Known()
    for _, kind, new in before:
        known = known.with_event(kind, new or {})
    points = [known.at(begin)] if before else []
    points += price_points(events, known)
    return list({point.at: point for point in points}.values())


def thin(points: Sequence[SeriesPoint], most: int) -> tuple[SeriesPoint, ...]:
    """Return at most so many points: the last of each equal span."""
    if len(points) <= most:
        return tuple(points)
    first, *rest = points
    span = (rest[-1].at - first.at) / (most - 1)
    last_of = {-((first.at - sample.at) // span): sample for sample in rest}
    return (first, *last_of.values())


def _decimal(text: Any) -> Decimal | None:  # noqa: ANN401 - JSON's word for a number
    return None if text is None else Decimal(str(text))


def _sum(quantities: Mapping[str, int] | None) -> int | None:
    return None if quantities is None else sum(quantities.values())
