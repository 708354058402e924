"""Records as programs read them: what changed since a cursor, deletions too, without a gap.

Each row has the transaction that changed it last (`change_xid`). A page ends before the oldest
transaction that is still open, so nothing with a smaller number can be committed behind it. The
order is by transaction, then by key, and a cursor is a place in that order. After a restore the
numbers mean something else: a cursor holds the lineage of its database, and is refused in another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, InvalidError
from headway.store import cursors
from headway.store.limits.limiter import read_lineage
from headway.store.pool import Pool, guarded
from headway.store.queries import is_uuid

# Deletions are kept so long; whoever has not read since then begins again.
DELETIONS_KEPT = timedelta(days=90)
DELETED, CHANGED = 0, 1
HORIZON = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
FORGET = "DELETE FROM record_deletions WHERE deleted_at < %(before)s"
# Numbers that another database gave: of a restored dump, whose transactions began at 1 again.
RENUMBER = """
UPDATE {table} SET change_xid = pg_current_xact_id()
WHERE change_xid >= pg_snapshot_xmax(pg_current_snapshot())
"""
BEGUN_AGAIN = "begin again without a cursor, and replace your copy"
RESTORED = f"cursor: the database was restored or failed over since; {BEGUN_AGAIN}"
EXPIRED = f"cursor: deletions are kept for {DELETIONS_KEPT.days} days; {BEGUN_AGAIN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKind:
    """A table of records: its columns, and which of them is the record's own time.

    `is_part` if it belongs to an order, whose platform and time of change are its own.
    """

    table: str
    columns: tuple[str, ...]
    at: str
    is_part: bool = False


def _kind(table: str, columns: str, *, at: str, is_part: bool = False) -> RecordKind:
    return RecordKind(table=table, columns=tuple(columns.split()), at=at, is_part=is_part)


KINDS: Mapping[str, RecordKind] = {
    kind.table: kind
    for kind in (
        _kind(
            "orders",
            "number status payment_status fulfillment_status is_open currency total current_total"
            " subtotal shipping tax discount customer_id placed_at modified_at cancelled_at",
            at="placed_at",
        ),
        _kind(
            "line_items",
            "order_id listing_id sku title quantity current_quantity price currency",
            at="parent.placed_at",
            is_part=True,
        ),
        _kind(
            "listings",
            "sku title state price currency quantity modified_at",
            at="created_at",
        ),
        _kind("customers", "name email country modified_at", at="created_at"),
        _kind(
            "payments",
            "order_id line_item_id kind status reference_type reference_id is_transfer amount"
            " currency paid_at",
            at="paid_at",
        ),
        _kind(
            "shipments",
            "order_id status carrier tracking shipped_at delivered_at",
            at="shipped_at",
            is_part=True,
        ),
        _kind(
            "refunds",
            "order_id status amount currency reason refunded_at",
            at="refunded_at",
            is_part=True,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records: of a seller, an account, a platform; of a time; changed since."""

    seller: SellerId | None = None
    account_id: str | None = None
    platform: PlatformName | None = None
    since: datetime | None = None
    changed_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRows:
    """Rows of a page as columns, the cursor after them, and whether there are more by now."""

    rows: tuple[dict[str, Any], ...]
    cursor: str
    has_more: bool


BOUNDS = {
    "change_xid": "%(change_xid)s::xid8",
    "account_id": "%(account_after)s::uuid",
    "order_id": "%(order_id)s::text",
    "external_id": "%(external_id)s::text",
}
Place = tuple[int, str, str, str, int]
START: Place = (-1, "00000000-0000-0000-0000-000000000000", "", "", CHANGED)


class RecordChanges:
    """The records of all tables, in the order in which they changed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def page(
        self,
        name: str,
        filters: RecordFilter,
        *,
        cursor: str | None,
        limit: int,
        now: datetime,
    ) -> RecordRows:
        """Return what changed after a cursor, the longest ago first.

        Raises InvalidError for a cursor of another list, ConflictError for one that is too old.
        """
        kind = KINDS[name]
        with guarded(), self._pool.connection() as connection:
            lineage = read_lineage(connection)
            place = START if cursor is None else _place(cursor, name, lineage, now)
            ((horizon,),) = connection.execute(HORIZON).fetchall()
            # Later statements see at least what the one that fixed the horizon saw.
            values = {
                "horizon": horizon,
                "limit": limit + 1,
                "kind": name,
                "seller": filters.seller,
                "account_id": filters.account_id,
                "platform": filters.platform,
                "since": filters.since,
                "changed_since": filters.changed_since,
                **_values(place),
            }
            changed = _read(connection, _changed(kind, filters, place), values)
            deleted = _read(connection, _deleted(kind, filters), values)
        rows = list(islice(merge(changed, deleted, key=_key), limit + 1))
        shown = rows[:limit]
        after = _key(shown[-1]) if shown else place
        return RecordRows(
            rows=tuple(shown),
            cursor=cursors.encode(name, lineage, now, str(after[0]), *after[1:]),
            has_more=len(rows) > limit,
        )

    def forget(self, before: datetime) -> int:
        """Delete old deletions, and renumber what another database numbered; return how many."""
        with guarded(), self._pool.connection() as connection:
            for table in (*KINDS, "record_deletions"):
                connection.execute(RENUMBER.format(table=table))
            return connection.execute(FORGET, {"before": before}).rowcount


def _read(
    connection: Connection[Any], statement: str, values: Mapping[str, Any]
) -> Sequence[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement, values).fetchall()


def _changed(kind: RecordKind, filters: RecordFilter, place: Place) -> str:
    """Return the statement for rows after a place, as one range of an index."""
    keys = ["change_xid", "account_id", *(["order_id"] if kind.is_part else []), "external_id"]
    order = ", ".join(_ordered(f"row.{name}") for name in keys)
    bound = ", ".join(BOUNDS[name] for name in keys)
    # A record may be deleted and stored again in one transaction: the deletion was shown first.
    operator = ">=" if place[-1] == DELETED else ">"
    source = "parent" if kind.is_part else "row"
    at = kind.at if "." in kind.at else f"row.{kind.at}"
    join = (
        " JOIN orders AS parent ON parent.account_id = row.account_id"
        " AND parent.external_id = row.order_id"
        if kind.is_part
        else ""
    )
    names = ", ".join(f"row.{name}" for name in kind.columns)
    conditions = _conditions(filters, platform=f"{source}.platform", changed=f"{source}.updated_at")
    if filters.since is not None:
        conditions += f" AND {at} >= %(since)s"
    return f"""
SELECT row.change_xid::text AS change_xid, row.account_id::text AS account_id,
  {"row.order_id" if kind.is_part else "''"} AS key_order, row.external_id AS id, {CHANGED} AS rank,
  row.user_id AS seller, {source}.platform, {source}.updated_at AS changed_at,
  false AS is_deleted, {names}
FROM {kind.table} AS row{join}
WHERE ({order}) {operator} ({bound}) AND row.change_xid < %(horizon)s::xid8{conditions}
ORDER BY {order} LIMIT %(limit)s"""


def _deleted(kind: RecordKind, filters: RecordFilter) -> str:
    """Return the statement for deletions after a place; they have no data, and no own time."""
    order = 'row.change_xid, row.account_id, row.order_id COLLATE "C", row.external_id COLLATE "C"'
    nothing = ", ".join(
        "nullif(row.order_id, '') AS order_id" if name == "order_id" else f"NULL AS {name}"
        for name in kind.columns
    )
    conditions = _conditions(filters, platform="account.platform", changed="row.deleted_at")
    return f"""
SELECT row.change_xid::text AS change_xid, row.account_id::text AS account_id,
  row.order_id AS key_order, row.external_id AS id, {DELETED} AS rank, row.user_id AS seller,
  account.platform, row.deleted_at AS changed_at, true AS is_deleted, {nothing}
FROM record_deletions AS row JOIN connected_accounts AS account ON account.id = row.account_id
WHERE row.kind = %(kind)s
  AND ({order}) > ({", ".join(BOUNDS.values())})
  AND row.change_xid < %(horizon)s::xid8{conditions}
ORDER BY {order} LIMIT %(limit)s"""


def _conditions(filters: RecordFilter, *, platform: str, changed: str) -> str:
    chosen = {
        "row.user_id = %(seller)s": filters.seller,
        "row.account_id = %(account_id)s::uuid": filters.account_id,
        f"{platform} = %(platform)s": filters.platform,
        f"{changed} >= %(changed_since)s": filters.changed_since,
    }
    return "".join(f" AND {sql}" for sql, value in chosen.items() if value is not None)


def _ordered(name: str) -> str:
    is_text = name in {"row.order_id", "row.external_id"}
    return f'{name} COLLATE "C"' if is_text else name


def _key(row: Mapping[str, Any]) -> Place:
    return (int(row["change_xid"]), row["account_id"], row["key_order"], row["id"], row["rank"])


def _values(place: Place) -> Mapping[str, Any]:
    xid, account_id, order_id, external_id, _ = place
    return {
        "change_xid": str(max(xid, 0)),
        "account_after": account_id,
        "order_id": order_id,
        "external_id": external_id,
    }


def _place(cursor: str, name: str, lineage: str, now: datetime) -> Place:
    """Return where to go on; raises InvalidError or ConflictError."""
    kind, database, at, xid, account_id, order_id, external_id, rank = cursors.decode(
        cursor, str, str, datetime, str, str, str, str, int
    )
    is_odd = not xid.removeprefix("-").isdecimal() or int(xid) > cursors.BIGINT_MAX
    if kind != name or is_odd or not is_uuid(account_id):
        raise InvalidError(cursors.INVALID)
    if database != lineage:
        raise ConflictError(RESTORED)
    if now - at > DELETIONS_KEPT:
        raise ConflictError(EXPIRED)
    return int(xid), account_id, order_id, external_id, rank
