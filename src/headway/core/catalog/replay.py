"""A live shop's past as a world for `headway simulate --changes`, from its events."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headway.core.catalog.listings import Sku
from headway.core.catalog.price_history import OBSERVATIONS, SeriesPoint, price_points

IMPORTED = "part_imported"
KINDS = (*OBSERVATIONS, IMPORTED)
HEADER = ("t_min", "sku", "price", "quantity", "family")
# A change in the minute of the start still comes after the start.
FIRST_CHANGE_MIN = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayEvent:
    """An event of a part: what the supplier quoted, or what an import says of it."""

    at: datetime
    sku: Sku
    kind: str
    new: Mapping[str, Any] | None


def replay_rows(events: Iterable[ReplayEvent]) -> Iterator[tuple[str, ...]]:
    """Yield rows under `HEADER` from events, the oldest first.

    Every part is there from the start, with the first price that was read of it: before that
    nobody knows. A part that several sellers list is one part of the supplier. A part without a
    price is left out until it has one.
    """
    families: dict[Sku, str] = {}
    quoted: dict[Sku, list[tuple[datetime, str, Mapping[str, Any] | None]]] = {}
    for event in events:
        if event.kind == IMPORTED:
            families[event.sku] = (event.new or {}).get("family") or families.get(event.sku, "")
        else:
            quoted.setdefault(event.sku, []).append((event.at, event.kind, event.new))
    begin = min((seen[0][0] for seen in quoted.values()), default=None)
    if begin is None:
        return
    later: list[tuple[float, tuple[str, ...]]] = []
    for sku, seen in sorted(quoted.items()):
        points = _distinct(price_points(seen), gone=_gone(seen))
        for point in points[:1]:
            yield ("0", *_cells(sku, point, families))
        for point in points[1:]:
            t_min = max(FIRST_CHANGE_MIN, round((point.at - begin) / timedelta(minutes=1), 3))
            later.append((t_min, (f"{t_min:g}", *_cells(sku, point, families))))
    yield from (cells for _, cells in sorted(later))


def _gone(seen: Iterable[tuple[datetime, str, Any]]) -> set[datetime]:
    """Return when the supplier did not list the part."""
    return {at for at, kind, _ in seen if kind == "not_listed"}


def _distinct(points: Iterable[SeriesPoint], *, gone: set[datetime]) -> list[SeriesPoint]:
    """Return the points with a price that differ from the one before."""
    kept: list[SeriesPoint] = []
    for point in points:
        if point.supplier_price is None:
            continue
        quantity = 0 if point.at in gone else point.supplier_quantity or 0
        now = SeriesPoint(
            at=point.at, supplier_price=point.supplier_price, supplier_quantity=quantity
        )
        if not kept or (kept[-1].supplier_price, kept[-1].supplier_quantity) != (
            now.supplier_price,
            now.supplier_quantity,
        ):
            kept.append(now)
    return kept


def _cells(sku: Sku, point: SeriesPoint, families: Mapping[Sku, str]) -> tuple[str, ...]:
    quantity = max(0, point.supplier_quantity or 0)
    return (sku, f"{point.supplier_price:f}", str(quantity), families.get(sku, ""))
