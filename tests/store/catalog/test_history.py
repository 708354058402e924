"""A listing's history: every event once, the chart as the events show it, exports in chunks."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import LimitKey, SellerId, Sku
from headway.core.catalog.price_history import SeriesPoint
from headway.errors import InvalidError
from headway.store.catalog.history import HistoryEvent, HistoryQueries
from headway.store.cursors import encode

START = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ACME, BOLT = SellerId("acme"), SellerId("bolt")
P1 = Sku("P=1")
QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

INSERT_EVENT = """
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value, new_value,
  error_message, actor) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""
CALL = """
INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until, status,
  http_status,
  seats_paid, skus) VALUES (gen_random_uuid(), %s, 'w', 1, %s, %s, 'sent', 200, 10, %s)
"""

prices = st.sampled_from((None, "0", "1.50", "12"))
stocks = st.dictionaries(st.sampled_from(("Dallas", "Miami")), st.integers(0, 5), max_size=2)
news = st.one_of(
    st.builds(lambda p: ("price_changed", {"list_price": p, "currency": "USD"}), prices),
    st.builds(lambda p: ("cost_changed", {"net_price": p}), prices),
    st.builds(lambda q: ("quantity_changed", {"quantities": q}), stocks),
    st.builds(
        lambda p, n, q: ("first_observed", {"list_price": p, "net_price": n, "quantities": q}),
        prices,
        prices,
        stocks,
    ),
    st.builds(lambda q: ("shopify_updated", {"price": "3.00", "quantities": q}), stocks),
    st.just(("sync_failed", {"failures": 1})),
    st.just(("lease_rescued", None)),
)
events = st.lists(
    st.tuples(st.sampled_from((ACME, BOLT)), st.sampled_from((P1, "P2", None)), news), max_size=30
)


def add_events(pool: ConnectionPool, rows: Sequence[Any], *, apart: timedelta = MINUTE) -> None:
    with pool.connection() as connection, connection.transaction():
        connection.execute("TRUNCATE sync_audit_log")
        for number, (seller, sku, (kind, new)) in enumerate(rows):
            at = START + number * apart
            values = (seller, sku, at, kind, None, None if new is None else Jsonb(new), None, "me")
            connection.execute(INSERT_EVENT, values)


def leaf(views: HistoryQueries, **filters: Any) -> list[HistoryEvent]:
    """Go through all pages."""
    events: list[HistoryEvent] = []
    cursor: str | None = None
    for _ in range(100):
        page = views.page(P1, cursor=cursor, **filters)
        events += page.items
        cursor = page.next_cursor
        if cursor is None:
            return events
    raise AssertionError("it never ends")


@given(
    rows=events,
    seller=st.sampled_from((None, ACME)),
    kinds=st.sets(st.sampled_from(("price_changed", "sync_failed"))),
    limit=st.integers(1, 5),
    apart=st.sampled_from((timedelta(0), MINUTE)),
)
@QUICK
def test_pages_and_exports_hold_each_event_once(
    pool: ConnectionPool,
    *,
    rows: Sequence[Any],
    seller: SellerId | None,
    kinds: set[str],
    limit: int,
    apart: timedelta,
) -> None:
    add_events(pool, rows, apart=apart)
    expected = [
        (user_id, sku, kind)
        for user_id, sku, (kind, _) in rows
        if seller in {None, user_id} and (not kinds or kind in kinds)
    ]
    views = HistoryQueries(pool, chunk=limit)
    page = leaf(views, seller=seller, kinds=kinds, limit=limit)
    assert len({event.id for event in page}) == len(page)
    assert sorted((event.seller, event.sku, event.kind) for event in page) == sorted(
        event for event in expected if event[1] == P1
    )
    assert [event.at for event in page] == sorted((event.at for event in page), reverse=True)
    exported = list(views.export(seller=seller, kinds=kinds))
    assert len({event.id for event in exported}) == len(exported)
    assert sorted(map(str, expected)) == sorted(
        str((event.seller, event.sku, event.kind)) for event in exported
    )


@given(rows=events, first=st.integers(0, 30))
@QUICK
def test_the_series_is_what_the_events_say(
    pool: ConnectionPool, rows: Sequence[Any], first: int
) -> None:
    add_events(pool, rows)
    since = START + first * MINUTE
    known: dict[str, Any] = {}
    expected: dict[datetime, SeriesPoint] = {}
    for number, (seller, sku, (kind, new)) in enumerate(rows):
        if (seller, sku) != (ACME, P1) or kind in {"sync_failed", "lease_rescued"}:
            continue
        side = "shop " if kind == "shopify_updated" else ""
        known |= {side + name: value for name, value in new.items()}
        expected[max(since, START + number * MINUTE)] = SeriesPoint(
            at=max(since, START + number * MINUTE),
            supplier_price=_price(known.get("list_price")) or _price(known.get("net_price")),
            supplier_quantity=_stock(known.get("quantities")),
            shop_price=_price(known.get("shop price")),
            shop_quantity=_stock(known.get("shop quantities")),
        )
    assert HistoryQueries(pool).series(P1, ACME, since) == tuple(expected.values())


def _price(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _stock(quantities: dict[str, int] | None) -> int | None:
    return None if quantities is None else sum(quantities.values())


def test_a_long_series_is_thinned_to_the_last_of_each_span(pool: ConnectionPool) -> None:
    rows = [(ACME, P1, ("quantity_changed", {"quantities": {"D": n}})) for n in range(100)]
    add_events(pool, rows)
    views = HistoryQueries(pool)
    whole, thin = views.series(P1, ACME, START), views.series(P1, ACME, START, points_max=11)
    assert len(whole) == 100
    assert [point.supplier_quantity for point in thin] == [0, 9, 19, 29, 39, 49, 59, 69, 79, 89, 99]


def test_an_export_takes_since_and_leaves_until(pool: ConnectionPool) -> None:
    add_events(pool, [(ACME, P1, ("sync_failed", None)), (BOLT, "P2", ("sync_failed", None))] * 3)
    views = HistoryQueries(pool, chunk=2)
    ats = [event.at for event in views.export(since=START + MINUTE, until=START + 4 * MINUTE)]
    assert ats == [START + number * MINUTE for number in (1, 2, 3)]
    assert {event.sku for event in views.export(sku=Sku("P2"))} == {"P2"}
    assert [event.actor for event in views.export(sku=P1, seller=BOLT)] == []


def test_what_is_written_while_an_export_runs_is_in_it(pool: ConnectionPool) -> None:
    add_events(pool, [(ACME, P1, ("sync_failed", None))] * 4)
    reader = HistoryQueries(pool, chunk=2).export()
    first = list(itertools.islice(reader, 2))
    with pool.connection() as connection:
        later = (ACME, P1, START + 9 * MINUTE, "listing_revived", None, None, None, None)
        connection.execute(INSERT_EVENT, later)
    assert [event.kind for event in [*first, *reader]] == ["sync_failed"] * 4 + ["listing_revived"]


def test_latest_reads_are_the_calls_that_carried_the_part(pool: ConnectionPool) -> None:
    limit_key = LimitKey("boeing:test")
    with pool.connection() as connection:
        for minutes, skus in ((1, [P1, "P2"]), (2, ["P2"]), (3, [P1]), (9999, [P1])):
            at = START - minutes * MINUTE
            connection.execute(CALL, (limit_key, at, at, skus))
    reads = HistoryQueries(pool).latest_reads(P1, keys=[limit_key], now=START)
    assert [(read.at, read.seats_used) for read in reads] == [
        (START - MINUTE, 2),
        (START - 3 * MINUTE, 1),
    ]


@pytest.mark.parametrize(
    "cursor", (encode("history", START, "no uuid"), encode("other", START, "0" * 32), "?")
)
def test_a_strange_cursor_is_refused(pool: ConnectionPool, cursor: str) -> None:
    with pytest.raises(InvalidError, match=r"^cursor: "):
        HistoryQueries(pool).page(P1, cursor=cursor)
