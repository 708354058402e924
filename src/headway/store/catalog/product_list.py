"""Lists of listings: by state, by seller, by text; a page at a time.

Every page is a short range of an index, whatever the filter and however far on it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

from headway.core.catalog.listings import Priority, ProductState, SellerId, Sku
from headway.errors import InvalidError
from headway.store import cursors
from headway.store.catalog.search import Piece, Search
from headway.store.pool import Pool, guarded

DAY = timedelta(days=1)
LIMIT = 50
LIMIT_MAX = 200
# How many listings one page scans for a text that is very common.
WALK_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductView:
    """One listing: what the supplier quoted, what its shop shows and should show, what comes next.

    `shop_*` is what the shop confirmed, `desired_*` what it should show. `slot` is the time of day,
    in UTC, that a once-a-day policy gave it.
    """

    seller: SellerId
    sku: Sku
    shop_sku: str | None
    """The SKU in the shop; null until the shop was read. Example: `WF338109`"""
    title: str
    """The product's title. Example: `Washer, flat`"""
    state: ProductState
    """State of the listing at its supplier."""
    priority: Priority
    slot: str
    """When it is read: a time of day, or a rule. Example: `06:30`"""
    due_at: datetime
    last_good_read_at: datetime | None
    """When the supplier last quoted it; null if it never has."""
    failures: int
    last_error: str
    supplier_price: Decimal | None
    supplier_currency: str | None
    """The currency of the supplier's price; null until it was read. Example: `USD`"""
    supplier_quantity: int | None
    """How many the supplier has; null until it was read."""
    shop_price: Decimal | None
    shop_quantity: int | None
    """How many the shop shows; null until the shop was read."""
    desired_price: Decimal | None
    desired_quantity: int | None
    """How many the shop should show; null if it is unknown."""
    held_reason: str
    """Why a change is held; empty if none is. Example: `the price would rise by 127 %`"""
    push_at: datetime | None
    """When the next write is tried; null if nothing waits."""
    push_error: str
    """Why the last write failed; empty if it did not. Example: `the product was deleted`"""
    shop_status: str | None
    """The product's status in the shop; null until the shop was read. Example: `published`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductPage:
    """A page of listings, and the cursor of the next; None at the end.

    A page may be short, or empty, though there is more: go on as long as there is a cursor.
    """

    items: tuple[ProductView, ...]
    next_cursor: str | None
    currency: str = ""


STATE = """CASE WHEN row.sync_status = 'parked' THEN 'parked'
  WHEN row.removed_at IS NOT NULL THEN 'removed' WHEN NOT row.is_active THEN 'inactive'
  WHEN row.is_paused THEN 'paused' WHEN row.sync_status = 'syncing' THEN 'reading'
  WHEN row.consecutive_failures > 0 THEN 'failing'
  WHEN row.last_successful_sync IS NULL THEN 'unread'
  WHEN row.last_successful_sync <= %(day_ago)s THEN 'stale' ELSE 'fresh' END"""
STOCK = "(SELECT sum(value::numeric)::int FROM jsonb_each_text({state} -> 'quantities'))"
# The rows are chosen first, so that the rest is read for one page only.
VIEW = f"""
SELECT row.user_id AS seller, row.sku, coalesce(product.shop_sku, staging.shop_sku) AS shop_sku,
  coalesce(nullif(product.title, ''), staging.title, '') AS title, {STATE} AS state, row.priority,
  to_char(row.hour_bucket, 'FM00') || ':' || to_char(row.minute_offset, 'FM00') AS slot,
  row.next_sync_at AS due_at, row.last_successful_sync AS last_good_read_at,
  row.consecutive_failures AS failures, coalesce(row.last_error, '') AS last_error,
  row.last_price AS supplier_price,
  state.observed ->> 'currency' AS supplier_currency, row.last_quantity AS supplier_quantity,
  (state.applied ->> 'price')::numeric AS shop_price,
  {STOCK.format(state="state.applied")} AS shop_quantity,
  (state.desired ->> 'price')::numeric AS desired_price,
  {STOCK.format(state="state.desired")} AS desired_quantity,
  coalesce(state.held_reason, '') AS held_reason, state.push_at,
  coalesce(state.push_error, '') AS push_error, product.status AS shop_status, {{marks}}
FROM ({{chosen}}) AS row
LEFT JOIN listing_state AS state USING (user_id, sku)
LEFT JOIN product USING (user_id, sku)
LEFT JOIN product_staging AS staging USING (user_id, sku)
ORDER BY {{order}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSort:
    """One way to list: which listings, sorted by what, in which direction.

    With `only`, so many as one page may look through are walked, and some of those are shown.
    """

    name: str
    where: str
    by: tuple[str, ...] = ("user_id", "sku")
    kinds: tuple[type, ...] = (str, str)
    is_descending: bool = False
    table: str = "product_sync_schedule"
    is_schedule: bool = True
    only: str = ""

    @property
    def sorting(self) -> str:
        """The ORDER BY columns."""
        return ", ".join(
            f"row.{column}{' DESC' if self.is_descending else ''}" for column in self.by
        )

    def walked(self, *, goes_on: bool, rows: str) -> str:
        """Return the statement that reads the next rows of this list."""
        sign = "<" if self.is_descending else ">"
        places = ", ".join(f"%(after_{number})s" for number in range(len(self.by)))
        after = f" AND ({', '.join(f'row.{column}' for column in self.by)}) {sign} ({places})"
        return (
            f"SELECT * FROM {self.table} AS row WHERE {self.where}{after if goes_on else ''}"
            f" ORDER BY {self.sorting} LIMIT %({rows})s"
        )

    def view(self, *, goes_on: bool) -> str:
        """Return the statement that reads a page, and what its rows are sorted by."""
        chosen = self.walked(goes_on=goes_on, rows="walk" if self.only else "rows")
        if self.only:
            chosen = f"SELECT * FROM ({chosen}) AS row WHERE {self.only} ORDER BY {self.sorting} LIMIT %(rows)s"  # noqa: E501
        if not self.is_schedule:
            marks = ", ".join(
                f"match.{column}" for column in self.by if column not in ("user_id", "sku")
            )
            chosen = f"SELECT row.*, {marks} FROM ({chosen}) AS match JOIN product_sync_schedule AS row USING (user_id, sku)"  # noqa: E501
        marks = ", ".join(f"row.{name} AS mark_{number}" for number, name in enumerate(self.by))
        return VIEW.format(chosen=chosen, order=self.sorting, marks=marks)

    def of(self, seller: SellerId | None) -> "ProductSort":
        """Return the same list for one seller."""
        if seller is None:
            return self
        kept = [pair for pair in zip(self.by, self.kinds, strict=True) if pair[0] != "user_id"]
        return replace(
            self,
            where=f"{self.where} AND row.user_id = %(seller)s",
            by=tuple(by for by, _ in kept),
            kinds=tuple(kind for _, kind in kept),
        )


GOING = "row.is_active AND NOT row.is_paused"
PLAIN = f"{GOING} AND row.sync_status <> 'syncing' AND row.consecutive_failures = 0"
FAILING = f"{GOING} AND row.consecutive_failures > 0 AND row.sync_status <> 'syncing'"
STOPPED = "NOT row.is_active AND row.sync_status <> 'parked'"
TIMED: Mapping[str, Any] = {
    "by": ("last_successful_sync", "user_id", "sku"),
    "kinds": (datetime, str, str),
}
ALL = ProductSort(name="all", where="true")
OF_SKU = ProductSort(name="sku", where="row.sku = %(sku)s")
# The oldest of the stale come first, and the newest of the fresh: whatever becomes stale meanwhile
# is behind a reader of the one, and before a reader of the other.
ORDERS = {
    ProductState.PARKED: ProductSort(name="parked", where="row.sync_status = 'parked'"),
    ProductState.REMOVED: ProductSort(
        name="removed", where=f"{STOPPED} AND row.removed_at IS NOT NULL"
    ),
    ProductState.INACTIVE: ProductSort(
        name="inactive", where=f"{STOPPED} AND row.removed_at IS NULL"
    ),
    ProductState.PAUSED: ProductSort(name="paused", where="row.is_active AND row.is_paused"),
    ProductState.READING: ProductSort(
        name="reading", where=f"{GOING} AND row.sync_status = 'syncing'"
    ),
    ProductState.FAILING: ProductSort(name="failing", where=FAILING),
    ProductState.UNREAD: ProductSort(
        name="unread", where=f"{PLAIN} AND row.last_successful_sync IS NULL"
    ),
    ProductState.STALE: ProductSort(
        name="stale", where=f"{PLAIN} AND row.last_successful_sync <= %(day_ago)s", **TIMED
    ),
    ProductState.FRESH: ProductSort(
        name="fresh",
        where=f"{PLAIN} AND row.last_successful_sync > %(day_ago)s",
        is_descending=True,
        **TIMED,
    ),
}
MATCHES = """(SELECT *, CASE WHEN starts_with(sku_lower, %(piece)s) THEN 0 ELSE 1 END AS rank
  FROM listing_search_matches(%(piece)s, %(seller)s))"""
MATCHED_ROWS = f"""(SELECT row.*, match.rank, match.sku_lower FROM {MATCHES} AS match
  JOIN product_sync_schedule AS row USING (user_id, sku))"""
LOOKED_UP = ProductSort(
    name="found",
    table=MATCHES,
    is_schedule=False,
    where="true",
    by=("rank", "sku_lower", "user_id", "sku"),
    kinds=(int, str, str, str),
)
BEGINNING = ProductSort(
    name="beginning",
    table="listing_search",
    is_schedule=False,
    where="row.sku_lower >= %(piece)s AND row.sku_lower < %(end)s",
    by=("sku_lower", "user_id", "sku"),
    kinds=(str, str, str),
)
ELSEWHERE = ProductSort(
    name="elsewhere",
    table="listing_search",
    is_schedule=False,
    where="true",
    by=("sample_key", "user_id", "sku"),
    kinds=(int, str, str),
    only="strpos(row.search_text, %(piece)s) > 0 AND NOT starts_with(row.sku_lower, %(piece)s)",
)
HOLDS = """(SELECT strpos(search_text, %(piece)s) > 0 FROM listing_search AS search
  WHERE search.user_id = row.user_id AND search.sku = row.sku)"""


class ProductQueries:
    """The listings, a page at a time."""

    def __init__(
        self, pool: Pool, *, search: Search | None = None, walk_max: int = WALK_MAX
    ) -> None:
        self._pool = pool
        self._search = search or Search()
        self._walk_max = walk_max

    def page(
        self,
        now: datetime,
        *,
        q: str = "",
        state: ProductState | None = None,
        seller: SellerId | None = None,
        cursor: str | None = None,
        limit: int = LIMIT,
    ) -> ProductPage:
        """Return the next listings that match; raise InvalidError for an invalid cursor or text."""
        limit = max(1, min(limit, LIMIT_MAX))
        values: dict[str, Any] = {"day_ago": now - DAY, "seller": seller, "walk": self._walk_max}
        plain = ALL if state is None else ORDERS[state]
        with guarded(), self._pool.connection() as connection:
            if not q:
                return _page(connection, plain.of(seller), values, cursor, limit)
            piece = self._search.probe_text(connection, q, seller)
            values |= {"piece": piece.text, "end": piece.end}
            order = _way(piece, plain, cursor).of(seller)
            page = _page(connection, order, values, cursor, limit)
            if order.name != BEGINNING.name or len(page.items) == limit:
                return page
            others = ELSEWHERE.of(seller)
            more = _page(connection, others, values, None, limit - len(page.items))
            return replace(more, items=page.items + more.items)

    def of_sku(
        self, now: datetime, sku: Sku, *, seller: SellerId | None = None
    ) -> tuple[ProductView, ...]:
        """Return every listing of this SKU, of one seller or of all, as far as a page goes."""
        values = {"day_ago": now - DAY, "seller": seller, "sku": sku}
        with guarded(), self._pool.connection() as connection:
            return _page(connection, OF_SKU.of(seller), values, None, LIMIT_MAX).items


def _way(piece: Piece, plain: ProductSort, cursor: str | None) -> ProductSort:
    """Choose how to search for a text; a list keeps the way it started with."""
    ways: tuple[ProductSort, ...] = (LOOKED_UP, BEGINNING, ELSEWHERE)
    if plain is not ALL:
        matches = replace(LOOKED_UP, table=MATCHED_ROWS, is_schedule=True, where=plain.where)
        ways = (matches, replace(plain, only=HOLDS))
    if cursor is None:
        return ways[1 if piece.is_common else 0]
    name = cursors.name(cursor)
    for way in ways:
        if way.name == name:
            return way
    raise InvalidError(cursors.INVALID)


def _page(
    connection: Connection,
    order: ProductSort,
    values: Mapping[str, Any],
    cursor: str | None,
    limit: int,
) -> ProductPage:
    after = _after(cursor, order)
    bound = {**values, **after, "rows": limit + 1}
    with connection.cursor(row_factory=dict_row) as reader:
        rows = reader.execute(order.view(goes_on=bool(after)), bound).fetchall()
        marks = [_marks(row) for row in rows]
        items = tuple(ProductView(**_typed(row)) for row in rows[:limit])
        if len(rows) > limit or (order.name == BEGINNING.name and len(rows) == limit):
            return ProductPage(
                items=items, next_cursor=cursors.encode(order.name, *marks[limit - 1])
            )
        if not order.only:
            return ProductPage(items=items, next_cursor=None)
        # The list ended before the page was full, or too many rows were read.
        way = order.walked(goes_on=bool(after), rows="one") + " OFFSET %(walk)s - 1"
        last = reader.execute(way, {**bound, "one": 1}).fetchone()
    end = None if last is None else cursors.encode(order.name, *(last[by] for by in order.by))
    return ProductPage(items=items, next_cursor=end)


def _after(cursor: str | None, order: ProductSort) -> dict[str, Any]:
    """Return where a cursor points, as the statement's values."""
    if cursor is None:
        return {}
    name, *parts = cursors.decode(cursor, str, *order.kinds)
    if name != order.name:
        raise InvalidError(cursors.INVALID)
    return {f"after_{number}": part for number, part in enumerate(parts)}


def _marks(row: dict[str, Any]) -> list[Any]:
    """Remove the sort columns from a row, and return them."""
    names = [name for name in row if name.startswith("mark_")]
    return [row.pop(name) for name in names]


def _typed(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "state": ProductState(row["state"]), "priority": Priority(row["priority"])}
