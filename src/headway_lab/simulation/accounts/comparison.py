"""The warehouse against a platform's truth, row for row and column for column."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from headway.core.accounts.warehouse import Records

Key = tuple[str, ...]
Rows = Mapping[str, Mapping[Any, Mapping[str, Any]]]
PARTS = ("line_items", "shipments", "refunds")
TABLES = ("orders", *PARTS, "listings", "customers", "payments")
REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where one account's rows differ from the platform's data, with a short description each."""

    missing: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    hidden: int = 0


@dataclass(slots=True)
class _Found:
    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    hidden: int = 0


def rows_of(records: Records) -> dict[str, dict[Key, dict[str, Any]]]:
    """Return records as the tables hold them."""
    rows: dict[str, dict[Key, dict[str, Any]]] = {table: {} for table in TABLES}
    for order in records.orders:
        rows["orders"][(order.external_id,)] = _columns(order, without=PARTS)
        for part in PARTS:
            for record in getattr(order, part):
                key = (order.external_id, record.external_id)
                rows[part][key] = {**_columns(record), "order_id": order.external_id}
    for table in ("listings", "customers", "payments"):
        for record in getattr(records, table):
            rows[table][(record.external_id,)] = _columns(record)
    return rows


def compare(actual: Rows, true: Rows, *, horizon_at: datetime | None = None) -> Difference:
    """Compare all tables; an order from before the horizon may be missing, but not be wrong."""
    result = _Found()
    hidden = _before(keyed(true["orders"]), horizon_at)
    offered = {key[0] for key in keyed(true.get("listings", {}))}
    for table in TABLES:
        have, want = actual.get(table, {}), keyed(true.get(table, {}))
        for key, row in want.items():
            _compare_row(
                result,
                f"{table} {'/'.join(key)}",
                have.get(key),
                row,
                is_hidden=bool({key[0], row.get("order_id")} & hidden),
                offered=offered,
            )
        for key in have.keys() - want.keys():
            if have[key].get("state") != REMOVED:
                result.extra.append(f"{table} {'/'.join(key)}")
    return Difference(
        missing=tuple(result.missing),
        wrong=tuple(result.wrong),
        extra=tuple(result.extra),
        hidden=result.hidden,
    )


def keyed(rows: Mapping[Any, Mapping[str, Any]]) -> Mapping[Key, Mapping[str, Any]]:
    """Return rows by keys as the tables have them, however a platform's truth writes them."""
    return {key if isinstance(key, tuple) else (key,): row for key, row in rows.items()}


def _compare_row(
    result: _Found,
    name: str,
    have: Mapping[str, Any] | None,
    want: Mapping[str, Any],
    *,
    is_hidden: bool,
    offered: Collection[str],
) -> None:
    if have is None:
        if is_hidden:
            result.hidden += 1
        elif want.get("state") != REMOVED:
            result.missing.append(name)
        return
    for column, value in want.items():
        # A platform no longer lists a listing that is gone; rows read before stay.
        is_unnamed = column == "listing_id" and have[column] is None and value not in offered
        if have[column] != value and not is_unnamed:
            result.wrong.append(f"{name}: {column} is {have[column]!r}, true is {value!r}")
            return


def _columns(record: Any, without: Collection[str] = ()) -> dict[str, Any]:  # noqa: ANN401
    return {
        field.name: getattr(record, field.name)
        for field in fields(record)
        if field.name not in without
    }


def _before(orders: Mapping[Key, Mapping[str, Any]], horizon_at: datetime | None) -> set[str]:
    if horizon_at is None:
        return set()
    return {key[0] for key, row in orders.items() if row["placed_at"] < horizon_at}
