"""The warehouse: a page is stored whole, in a few statements; storing it again changes nothing.

What is there afterwards is each record as it was read last. `write` is one part of its caller's
transaction, which holds the fence; it never commits by itself. If the database refuses a row,
the page is written in groups, and what is refused is stored as unreadable, with the reason.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from math import isfinite
from typing import Any, TypeVar

from psycopg import Connection
from psycopg.rows import dict_row

from headway.core.accounts.jobs import Account, DataKind, Tier
from headway.core.accounts.pagination import Page, PageStep
from headway.core.accounts.removals import (
    WALKS_MIN,
    RemovalEvidence,
    counted_walks,
    decide_removal,
)
from headway.core.accounts.warehouse import Customer, Order, Records, Unreadable
from headway.core.catalog.listings import CLOCKS_APART_MAX, SellerId
from headway.errors import InvariantError
from headway.store.accounts import warehouse_sql as sql
from headway.store.accounts.tombstones import without_erased
from headway.store.accounts.unreadable_rows import write_rows
from headway.store.pool import Pool, guarded

# Characters that a text column cannot hold, and their replacement.
UNFIT = re.compile("[\x00\ud800-\udfff]")
UNFIT_JSON = re.compile("\\\\u0000|[\ud800-\udfff]")
INSTEAD = "\ufffd"
# A longer id of an unreadable record is shortened: an index entry has a limit.
NAME_CHARS_MAX = 300
Values = dict[str, Any]
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCounts:
    """Number of stored records of one account."""

    orders: int
    """Stored orders."""
    open_orders: int
    """Stored orders that are open."""
    listings: int
    """Stored listings."""
    customers: int
    """Stored customers."""
    payments: int
    """Stored payments."""
    unreadable: int
    """Rows that Headway could not read."""
    newest_order_at: datetime | None
    """When the newest stored order was placed; null if there is none."""


def write(
    connection: Connection[Any],
    account: Account,
    page: Page,
    step: PageStep,
    *,
    kind: DataKind,
    asked_at: datetime,
    now: datetime,
    sets_aside: bool = False,
) -> None:
    """Store a page of this kind, and remove what it reports as gone.

    Webhooks that came after `asked_at` stay open: the page may be older than they are. A row that
    the database refuses ends it, or is stored as unreadable if `sets_aside`, which is slower.
    """
    owner: Values = {
        "account_id": account.id,
        "user_id": account.user_id,
        "platform": account.platform,
        "now": now,
    }
    ours = connection.execute(sql.IS_OURS, owner).fetchone()
    if ours is None:
        raise InvariantError(f"account {account.id} is not {account.user_id}'s {account.platform}")
    records = without_erased(connection, account.platform, ours[0], page.records)
    page = replace(page, records=records)
    refused = _write_records(connection, owner, page.records, now, sets_aside=sets_aside)
    records = replace(page.records, unreadable=(*page.records.unreadable, *refused))
    _join_payments(connection, owner, records)
    # A product is readable though its own id is in no table: its variants are.
    answered = {*page.ids, *page.missing, *step.healed} - set(page.cut)
    well = _well_ids(records, kind, answered)
    _write_unreadable(connection, owner, records.unreadable, well, sets_aside=sets_aside)
    _write_gone(connection, owner, page, step, kind=kind)
    ids = _ids([*page.ids, *page.missing, *_ids_of(records, kind)])
    values = {"kind": kind.value, "ids": ids, "is_done": step.is_done, "asked_at": asked_at}
    connection.execute(sql.HANDLED, {**owner, **values})


def _write_records(
    connection: Connection[Any],
    owner: Values,
    records: Records,
    now: datetime,
    *,
    sets_aside: bool,
) -> list[Unreadable]:
    """Store the records of a page; return those that the database refuses if it `sets_aside`."""

    def upsert(statement: str, columns: Iterable[str]) -> Callable[[Sequence[Any]], None]:
        def run(rows: Sequence[Any]) -> None:
            connection.execute(statement, {**owner, "rows": _json(rows, columns)})

        return run

    def write_orders(orders: Sequence[Order]) -> None:
        _write_orders(connection, owner, orders, now)

    kinds: tuple[tuple[DataKind, Sequence[Any], Callable[[Sequence[Any]], None]], ...] = (
        (DataKind.ORDERS, _last(records.orders, _by_id), write_orders),
        (DataKind.LISTINGS, _last(records.listings, _by_id), upsert(sql.LISTINGS, sql.LISTING)),
        (DataKind.CUSTOMERS, _newest(records.customers), upsert(sql.CUSTOMERS, sql.CUSTOMER)),
        (DataKind.PAYMENTS, _last(records.payments, _by_id), upsert(sql.PAYMENTS, sql.PAYMENT)),
    )
    refused: list[Unreadable] = []
    for kind, rows, write_all in kinds:
        if rows and sets_aside:
            refused += [
                Unreadable(kind=kind, external_id=_by_id(row), reason=reason, raw=asdict(row))
                for row, reason in write_rows(connection, rows, write_all)
            ]
        elif rows:
            write_all(rows)
    return refused


def _write_orders(
    connection: Connection[Any], owner: Values, orders: Sequence[Order], now: datetime
) -> None:
    values = {**owner, **_month(now), "ids": _ids(order.external_id for order in orders)}
    counts = connection.execute(sql.ORDERS, {**values, "rows": _json(orders, sql.ORDER)}).fetchone()
    assert counts is not None, "a count always answers"
    changed: set[str] = set()
    for table, statement in sql.REPLACE.items():
        parts = [
            {"order_id": order.external_id, **_row(part, sql.PARTS[table])}
            for order in orders
            for part in _last(getattr(order, table), _by_id)
        ]
        rows = connection.execute(statement, {**values, "rows": _dump(parts)}).fetchall()
        changed |= {order_id for (order_id,) in rows}
    if changed:
        connection.execute(sql.TOUCH, {**owner, "ids": sorted(changed)})
    if counts[0]:  # most pages have no new orders, and do not lock the seller's row
        connection.execute(sql.COUNT, {**values, "more": counts[0]})


def _join_payments(connection: Connection[Any], owner: Values, records: Records) -> None:
    """Set the orders of payments: of those on this page, or by lines and replies on it."""
    lines = [line for order in records.orders for line in order.line_items]
    names = [*(line.external_id for line in lines), *(row.line_item_id for row in records.payments)]
    if ids := _ids(name for name in names if name is not None):
        connection.execute(sql.JOIN_PAYMENTS, {**owner, "line_item_ids": ids})
    if records.payment_orders:
        rows = _json(records.payment_orders, ("external_id", "order_id"))
        connection.execute(sql.LINK_PAYMENTS, {**owner, "rows": rows})


def _write_unreadable(
    connection: Connection[Any],
    owner: Values,
    unreadable: Sequence[Unreadable],
    well: Iterable[tuple[str, str]],
    *,
    sets_aside: bool,
) -> None:
    """Store unreadable records; delete those that are `well`: readable again, or gone."""

    def write_all(rows: Sequence[Unreadable]) -> None:
        columns = ("kind", "external_id", "reason", "raw")
        connection.execute(sql.UNREADABLE, {**owner, "rows": _json(rows, columns)})

    named = [replace(record, external_id=_name(record.external_id)) for record in unreadable]
    bad = _last(named, lambda record: (record.kind, record.external_id))
    if bad and sets_aside:
        refused = write_rows(connection, bad, write_all)
        write_all([replace(record, reason=reason, raw={}) for record, reason in refused])
    elif bad:
        write_all(bad)
    for statement, which in (
        (sql.LOOKED_AT_ORDERS, DataKind.ORDERS),
        (sql.LOOKED_AT_LISTINGS, DataKind.LISTINGS),
    ):
        if ids := _ids(record.external_id for record in unreadable if record.kind == which):
            connection.execute(statement, {**owner, "ids": ids})
    healed = {(kind, _name(id_)) for kind, id_ in well}
    healed -= {(record.kind, record.external_id) for record in bad}
    if rows := [{"kind": kind, "external_id": id_} for kind, id_ in sorted(healed)]:
        connection.execute(sql.HEALED, {**owner, "rows": _dump(rows)})


def _write_gone(
    connection: Connection[Any], owner: Values, page: Page, step: PageStep, *, kind: DataKind
) -> None:
    missing = _ids(set(page.missing) - set(_ids_of(page.records, kind)))
    if missing and kind is DataKind.ORDERS:
        connection.execute(sql.GONE_ORDERS, {**owner, "ids": missing})
    if missing and kind is DataKind.LISTINGS:
        connection.execute(sql.GONE_LISTINGS, {**owner, "ids": missing})
    if missing and kind is DataKind.CUSTOMERS:
        connection.execute(sql.GONE_CUSTOMERS, {**owner, "ids": missing})
    if step.gone_since is not None:
        _write_removed(connection, owner, step.gone_since, step.empty_lists)
    if step.horizon_at is not None:
        connection.execute(sql.HORIZON, {**owner, "horizon_at": step.horizon_at})


def _write_removed(
    connection: Connection[Any], owner: Values, begun_at: datetime, empty_lists: Sequence[str]
) -> None:
    """Record a complete walk of the listings; remove those that it proves to be gone."""
    (earlier,) = connection.execute(sql.WALKS, owner).fetchone() or ((),)
    walks = counted_walks(earlier, begun_at)
    # The worker that began a run and the one that read a listing may have different clocks.
    instants = {"since": walks[-WALKS_MIN:][0], "first": walks[0], "newest": begun_at}
    bounds = {name: instant - CLOCKS_APART_MAX for name, instant in instants.items()}
    values = {**owner, **bounds, "empty_lists": list(empty_lists)}
    counts = connection.execute(sql.MISSING, values).fetchone()
    assert counts is not None, "a count always answers"
    known, missing, emptied, confirmed, shown = counts
    evidence = RemovalEvidence(
        walks=walks,
        known=known,
        missing=missing,
        emptied=emptied if shown else missing,
        confirmed=confirmed,
    )
    decision = decide_removal(evidence)
    if decision.since is not None:
        connection.execute(sql.REMOVED, {**owner, "since": decision.since - CLOCKS_APART_MAX})
    result = {"known": known, "missing": missing, "held_reason": decision.held_reason}
    connection.execute(sql.SAVE_WALKS, {**owner, **result, "walks": list(walks)})


class Warehouse:
    """Queries on the stored records of an account."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def open_orders(self, account: Account, *, checked_before: datetime, limit: int) -> list[str]:
        """Return open orders that were not read since then, the longest ago first."""
        values = {**_owner(account), "checked_before": checked_before, "limit": limit}
        with guarded(), self._pool.connection() as connection:
            return [row[0] for row in connection.execute(sql.OPEN_ORDERS, values)]

    def orders_left(self, account: Account, *, now: datetime, quotas: Mapping[Tier, int]) -> int:
        """Return how many orders of this month the seller's tier still allows."""
        tier, count = orders_standing(self._pool, account.user_id, now=now)
        return max(0, quotas[tier] - count)

    def counts(self, account: Account) -> WrittenCounts:
        """Count the records of an account, for people."""
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(sql.COUNTS, _owner(account)).fetchone()
        assert row is not None, "a count always answers"
        return WrittenCounts(**dict(zip(WrittenCounts.__dataclass_fields__, row, strict=True)))

    def unreadable(self, account: Account, *, limit: int = 100) -> list[Unreadable]:
        """Return unreadable records, newest first."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(
                sql.UNREADABLES, {**_owner(account), "limit": limit}
            ).fetchall()
        return [
            Unreadable(kind=kind, external_id=external_id, reason=reason, raw=raw)
            for kind, external_id, reason, raw in rows
        ]

    def rows(self, account_id: str) -> dict[str, dict[tuple[str, ...], dict[str, Any]]]:
        """Return all that is stored of an account: table, key and column to value."""
        tables: dict[str, dict[tuple[str, ...], dict[str, Any]]] = {}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            cursor = connection.cursor(row_factory=dict_row)
            for table, key in sql.KEYS.items():
                rows = cursor.execute(sql.ROWS.format(table=table), {"account_id": account_id})
                tables[table] = {tuple(row[name] for name in key): row for row in rows}
        return tables


def orders_standing(pool: Pool, user_id: SellerId, *, now: datetime) -> tuple[Tier, int]:
    """Return a seller's tier, and the number of orders of this month."""
    with guarded(), pool.connection() as connection:
        row = connection.execute(sql.STANDING, {"user_id": user_id, **_month(now)}).fetchone()
    assert row is not None, "a count always answers"
    return Tier(row[0]), int(row[1])


def _owner(account: Account) -> Values:
    return {"account_id": account.id, "user_id": account.user_id}


def _month(now: datetime) -> Values:
    """Return the calendar month that orders are counted in."""
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (month + timedelta(days=32)).replace(day=1)
    # The day is given separately: from the instant it would be in the session's time zone.
    return {"month": month, "next_month": following, "first_day": month.date()}


def _by_id(record: Any) -> str:  # noqa: ANN401 - any of the records
    return str(record.external_id)


def _last(records: Iterable[Record], key: Callable[[Record], object]) -> list[Record]:
    """Return each record once, as it came last: a page may show one twice."""
    return list({key(record): record for record in records}.values())


def _newest(customers: Iterable[Customer]) -> list[Customer]:
    """Return each customer once, from the newest source."""
    newest: dict[str, Customer] = {}
    for customer in customers:
        known = newest.get(customer.external_id)
        is_older = (
            known is not None
            and known.modified_at is not None
            and customer.modified_at is not None
            and customer.modified_at < known.modified_at
        )
        if not is_older:
            newest[customer.external_id] = customer
    return list(newest.values())


def _readable(records: Records, kind: DataKind) -> list[str]:
    return [_by_id(record) for record in getattr(records, kind.value)]


def _well_ids(
    records: Records, kind: DataKind, answered: Iterable[str]
) -> Iterable[tuple[str, str]]:
    """Yield kind and id of the records that can be read, and of those that were answered."""
    for each in DataKind:
        yield from ((each.value, id_) for id_ in _readable(records, each))
    yield from ((kind.value, id_) for id_ in answered)


def _name(external_id: str) -> str:
    """Return the name of an unreadable record; a very long id ends in a digest of it."""
    if len(external_id) <= NAME_CHARS_MAX:
        return external_id
    digest = sha256(external_id.encode(errors="replace")).hexdigest()
    return f"{external_id[: NAME_CHARS_MAX // 2]}…{digest[:32]}"


def _ids_of(records: Records, kind: DataKind) -> list[str]:
    """Return the ids of this kind on a page, readable or not."""
    bad = [record.external_id for record in records.unreadable if record.kind == kind]
    return [*_readable(records, kind), *bad]


def _ids(ids: Iterable[str]) -> list[str]:
    return sorted({_fit(id_) for id_ in ids})


def _json(records: Iterable[Any], columns: Iterable[str]) -> str:
    return _dump([_row(record, columns) for record in records])


def _row(record: Any, columns: Iterable[str]) -> Values:  # noqa: ANN401 - any of the records
    return {name: getattr(record, name) for name in columns}


def _dump(rows: Sequence[Values]) -> str:
    """Return rows as JSON that the database accepts; cleaning is slow, and done only if needed."""
    try:
        text = json.dumps(rows, ensure_ascii=False, allow_nan=False, default=_json_value)
    except ValueError:  # a number that is none
        text = ""
    if text and not UNFIT_JSON.search(text):
        return text
    return json.dumps(_clean(rows), ensure_ascii=False, allow_nan=False, default=_json_value)


def _json_value(value: object) -> Any:  # noqa: ANN401 - whatever JSON takes
    """Return money by its digits, and instants in ISO format."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def _clean(value: Any) -> Any:  # noqa: ANN401 - whatever JSON a platform sent
    """Return this without what the database cannot hold."""
    if isinstance(value, str):
        return _fit(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {_fit(str(name)): _clean(content) for name, content in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def _fit(text: str) -> str:
    return UNFIT.sub(INSTEAD, text)
