"""Walks of Shopify on a paper shop that changes while it is read: nothing is ever missed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.clock import Rng, rng
from headway.core.accounts.jobs import DataKind
from headway.core.accounts.pagination import RUN, Page, PageRequest, Paginator
from headway.core.accounts.warehouse import Records, Unreadable
from headway.providers.shopify import pagination
from headway.providers.shopify.pagination import OVERLAP, STALE, paginator_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAGE = 3
MINUTE = timedelta(minutes=1)


@dataclass
class PaperShop:
    """Rows with all their changes; the list knows of them up to `lag` later, the row at once."""

    lag: timedelta = timedelta(0)
    now: datetime = START
    changes: dict[str, list[datetime]] = field(default_factory=dict)
    read_at: dict[str, datetime] = field(default_factory=dict)
    life: int = 0
    requests: list[PageRequest] = field(default_factory=list)

    def change(self, row: int) -> None:
        self.changes.setdefault(str(row), []).append(self.now)

    def places(self) -> list[tuple[datetime, str]]:
        known = {
            row: [stamp for stamp in stamps if stamp <= self.now - self.lag * (int(row) % 3) / 2]
            for row, stamps in self.changes.items()
        }
        return sorted((stamps[-1], row) for row, stamps in known.items() if stamps)

    def read(self, ask: PageRequest) -> Page:
        self.requests.append(ask)
        if ask.what.endswith("_by_id"):
            ids = ask.values["ids"]
            there = [name for name in ids if name in self.changes]
            return self._page(there, None, missing=tuple(set(ids) - set(there)))
        since = datetime.fromisoformat(ask.values["since"])
        if ask.what == "customers":
            assert since.time() == datetime.min.time()
        after = ask.values["after"]
        if after is not None and not after.startswith(f"{self.life} "):
            return Page(next=STALE)
        passed = None
        if after is not None:
            stamp, row = after.partition(" ")[2].split("|")
            passed = (datetime.fromisoformat(stamp), row)
        rows = [
            place
            for place in self.places()
            if place[0] >= since and (passed is None or place > passed)
        ]
        cursor = (
            f"{self.life} {rows[PAGE - 1][0].isoformat()}|{rows[PAGE - 1][1]}"
            if (len(rows) > PAGE)
            else None
        )
        return self._page([row for _, row in rows[:PAGE]], cursor)

    def _page(self, ids: Sequence[str], cursor: str | None, missing: tuple[str, ...] = ()) -> Page:
        for row in ids:
            self.read_at[row] = self.changes[row][-1]
        stamps = tuple(self.changes[row][-1] for row in ids)
        return Page(ids=tuple(ids), stamps=stamps, next=cursor, missing=missing)

    def lacks(self) -> set[str]:
        return {row for row, stamps in self.changes.items() if self.read_at.get(row) != stamps[-1]}


def run_whole(walk: Paginator, shop: Any, cursor: Any, wanted: Sequence[str] = ()) -> Any:
    cursor = walk.begin(cursor, shop.now, wanted)
    for _ in range(1000):
        step = walk.advance(cursor, shop.read(walk.ask(cursor)), shop.now)
        cursor = step.cursor
        if step.is_done:
            assert RUN not in cursor
            return step
    raise AssertionError("the run has no end")


WORDS = ("change", "change", "change", "wait", "read", "read", "claim", "forget", "run")


def happen(walk: Paginator, shop: PaperShop, cursor: Any, generator: Rng) -> Any:
    """Let one thing happen, and return the cursor after it."""
    what = generator.choice(WORDS)
    if what == "change":
        shop.change(generator.randrange(13))
    elif what == "wait":
        shop.now += timedelta(seconds=generator.randrange(1, 200))
    elif what == "claim":
        return walk.begin(cursor, shop.now, [str(generator.randrange(13))])
    elif what == "forget":
        shop.life += 1
        shop.now += timedelta(hours=generator.choice((0, 0, 0, 2)))
    elif what == "run":
        return run_whole(walk, shop, cursor).cursor
    else:
        cursor = walk.begin(cursor, shop.now, ())
        cursor = walk.advance(cursor, shop.read(walk.ask(cursor)), shop.now).cursor
    shop.now += timedelta(seconds=1)
    return cursor


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 1_000_000),
    length=st.integers(5, 150),
    lag_s=st.sampled_from([0, 60, 290]),
    kind=st.sampled_from([DataKind.ORDERS, DataKind.CUSTOMERS]),
)
def test_whatever_changes_while_the_shop_is_read_every_last_change_is_seen(
    seed: int, length: int, lag_s: int, kind: DataKind
) -> None:
    walk, shop = paginator_of(kind, is_backfill=False), PaperShop(lag=timedelta(seconds=lag_s))
    generator = rng(f"walk {seed}")
    cursor: Any = {}
    for _ in range(length):
        cursor = happen(walk, shop, cursor, generator)
    for _ in range(3):
        shop.now += timedelta(minutes=10)
        cursor = run_whole(walk, shop, cursor).cursor
    assert shop.lacks() == set()


def test_a_run_starts_a_little_before_the_end_of_the_last_one() -> None:
    walk, shop = paginator_of(DataKind.ORDERS, is_backfill=False), PaperShop()
    shop.change(1)
    shop.now += timedelta(hours=3)
    cursor = run_whole(walk, shop, {}).cursor
    since = (shop.now - OVERLAP).isoformat()
    assert cursor == {"newest": since}
    ask = walk.ask(walk.begin(cursor, shop.now, ()))
    assert ask == PageRequest(
        what="orders", values={"field": "updated_at", "since": since, "after": None}
    )


def test_a_customer_list_begins_at_midnight_a_day_earlier() -> None:
    walk = paginator_of(DataKind.CUSTOMERS, is_backfill=False)
    ask = walk.ask(walk.begin({"newest": "2026-03-01T00:03:00+00:00"}, START, ()))
    assert ask.values["since"] == "2026-02-28T00:00:00+00:00"


def test_wanted_rows_are_read_first_many_at_once_and_each_once() -> None:
    walk, shop = paginator_of(DataKind.ORDERS, is_backfill=False), PaperShop()
    wanted = [f"gid://shopify/Order/{number}" for number in range(60)] + ["3", "99"]
    shop.change(3)
    run_whole(walk, shop, {}, wanted)
    assert [request.what for request in shop.requests] == ["orders_by_id", "orders_by_id", "orders"]
    assert [len(request.values["ids"]) for request in shop.requests[:2]] == [50, 11]


def test_a_busy_shop_does_not_keep_one_run_for_ever() -> None:
    walk, shop = paginator_of(DataKind.ORDERS, is_backfill=False), PaperShop()
    cursor: Any = walk.begin({}, shop.now, ())
    for number in range(400):
        shop.now += MINUTE
        shop.change(number)
        shop.change(number + 1000)
        shop.change(number + 2000)
        shop.change(number + 3000)
        step = walk.advance(cursor, shop.read(walk.ask(cursor)), shop.now)
        cursor = step.cursor
        if step.is_done:
            break
    assert step.is_done
    assert number < 30


def test_a_stamp_from_the_future_does_not_move_the_start_of_the_next_run_beyond_now() -> None:
    walk = paginator_of(DataKind.ORDERS, is_backfill=False)
    cursor = walk.begin({}, START, ())
    page = Page(ids=("1",), stamps=(datetime(2099, 1, 1, tzinfo=UTC),), next="more")
    step = walk.advance(cursor, page, START)
    assert step.is_done
    assert step.cursor["newest"] == (START - timedelta(days=1)).isoformat()


def test_a_list_that_grows_too_long_for_the_platform_begins_again_at_its_stamp() -> None:
    walk = paginator_of(DataKind.ORDERS, is_backfill=False)
    cursor: Any = walk.begin({}, START, ())
    for number in range(100):
        stamp = START - timedelta(hours=1) + timedelta(seconds=number)
        page = Page(ids=("1",) * 250, stamps=(stamp,) * 250, next=f"at {number}")
        cursor = walk.advance(cursor, page, START).cursor
    afters = cursor[RUN]["rows"], cursor[RUN]["since"]
    assert afters == (20 * 250, (START - timedelta(hours=1) + timedelta(seconds=79)).isoformat())


def order_page(**fields: Any) -> Page:
    return Page(ids=("1", "2"), stamps=(START, START), **fields)


def test_an_order_that_did_not_fit_is_read_to_its_end_before_the_list_goes_on() -> None:
    walk = paginator_of(DataKind.ORDERS, is_backfill=False)
    cursor: Any = walk.begin({}, START, ())
    cursor = walk.advance(cursor, order_page(cut=("2",), next="page two"), START).cursor
    assert walk.ask(cursor) == PageRequest(what="order", values={"id": "2", "next": None})
    cursor = walk.advance(cursor, Page(ids=("2",), next="half"), START).cursor
    assert walk.ask(cursor) == PageRequest(what="order", values={"id": "2", "next": "half"})
    cursor = walk.advance(cursor, Page(ids=("2",), cut=("2",)), START).cursor
    assert walk.ask(cursor) == PageRequest(what="order", values={"id": "2", "next": None})
    cursor = walk.advance(cursor, Page(ids=("2",)), START).cursor
    assert walk.ask(cursor).values["after"] == "page two"


def test_a_run_is_not_done_while_an_order_waits_to_be_read_whole() -> None:
    for walk in (
        paginator_of(DataKind.ORDERS, is_backfill=False),
        paginator_of(DataKind.ORDERS, is_backfill=True),
    ):
        cursor: Any = walk.begin({}, START, ())
        if walk.ask(cursor).what == "scopes":
            cursor = walk.advance(cursor, Page(), START).cursor
        step = walk.advance(cursor, order_page(cut=("2",)), START)
        assert not step.is_done
        assert walk.ask(walk.begin(step.cursor, START, ())).what == "order"
        assert walk.advance(step.cursor, Page(ids=("2",)), START).is_done


@pytest.mark.parametrize(
    ("scopes", "since", "horizon"),
    (
        (("read_orders",), "2025-12-31T12:00:00+00:00", START - timedelta(days=60)),
        (("read_orders", "read_all_orders"), "2004-01-01T00:00:00+00:00", None),
    ),
)
def test_history_begins_as_far_back_as_the_app_may_see_and_says_so(
    scopes: tuple[str, ...], since: str, horizon: datetime | None
) -> None:
    walk = paginator_of(DataKind.ORDERS, is_backfill=True)
    cursor = walk.begin({}, START, ())
    assert walk.ask(cursor) == PageRequest(what="scopes")
    step = walk.advance(cursor, Page(ids=scopes), START)
    assert step.horizon_at == horizon
    assert walk.ask(step.cursor) == PageRequest(
        what="orders",
        values={
            "field": "created_at",
            "since": since,
            "after": None,
            "until": START.isoformat(),
        },
    )


def test_history_that_was_cut_off_for_long_goes_on_at_its_newest_stamp() -> None:
    walk = paginator_of(DataKind.ORDERS, is_backfill=True)
    cursor: Any = walk.advance(walk.begin({}, START, ()), Page(), START).cursor
    stamps = (START - timedelta(days=9), START - timedelta(days=8))
    cursor = walk.advance(cursor, Page(ids=("1", "2"), stamps=stamps, next="on"), START).cursor
    soon = walk.begin(cursor, START + MINUTE, ())
    assert walk.ask(soon).values["after"] == "on"
    late = walk.ask(walk.begin(cursor, START + timedelta(days=2), ()))
    assert (late.values["since"], late.values["after"]) == (stamps[1].isoformat(), None)
    assert walk.advance(soon, Page(), START).is_done


def test_customers_of_old_are_walked_by_id() -> None:
    walk = paginator_of(DataKind.CUSTOMERS, is_backfill=True)
    cursor = walk.begin({}, START, ())
    assert walk.ask(cursor) == PageRequest(what="all_customers", values={"above": "0"})
    cursor = walk.begin(walk.advance(cursor, Page(ids=("7",), next="7"), START).cursor, START, ())
    assert walk.ask(cursor) == PageRequest(what="all_customers", values={"above": "7"})
    assert walk.advance(cursor, Page(), START).is_done


def unreadable() -> Records:
    odd = Unreadable(kind="listings", external_id="7", reason="no price", raw={})
    return Records(unreadable=(odd,))


def whole_walk(*pages: Page) -> Any:
    walk = paginator_of(DataKind.LISTINGS, is_backfill=False)
    cursor = walk.begin({}, START, ())
    for page in pages:
        assert walk.ask(cursor).what == "variants"
        step = walk.advance(cursor, page, START + MINUTE)
        cursor = step.cursor
    return step


def test_the_first_walk_of_listings_is_whole_and_shows_what_is_gone() -> None:
    step = whole_walk(Page(ids=("5",), next="5"), Page(ids=("9",)))
    assert step.is_done
    assert step.gone_since == START
    newest = (START - OVERLAP).isoformat()
    assert step.cursor == {"newest": newest, "whole_at": START.isoformat()}


def test_a_whole_walk_with_a_row_that_made_no_sense_takes_nothing_for_gone() -> None:
    step = whole_walk(Page(ids=("5",), next="5", records=unreadable()), Page(ids=("9",)))
    assert step.is_done
    assert step.gone_since is None


def test_listings_are_walked_whole_twice_a_day_and_by_change_in_between() -> None:
    walk = paginator_of(DataKind.LISTINGS, is_backfill=False)
    lasting = {"newest": START.isoformat(), "whole_at": START.isoformat()}
    requests = [
        walk.ask(walk.begin(lasting, START + timedelta(hours=hours), ())).what
        for hours in (1, 11, 12)
    ]
    assert requests == ["products", "products", "variants"]


def test_a_wanted_product_that_is_gone_makes_the_walk_whole() -> None:
    walk = paginator_of(DataKind.LISTINGS, is_backfill=False)
    lasting = {"newest": START.isoformat(), "whole_at": START.isoformat()}
    cursor = walk.begin(lasting, START + MINUTE, ["gid://shopify/Product/5"])
    assert walk.ask(cursor) == PageRequest(what="products_by_id", values={"ids": ["5"]})
    step = walk.advance(cursor, Page(missing=("5",)), START + MINUTE)
    assert walk.ask(step.cursor) == PageRequest(what="variants", values={"above": "0"})
    lasting = walk.advance(step.cursor, Page(), START + MINUTE).cursor
    soon = walk.begin(lasting, START + MINUTE + timedelta(hours=5), ())
    assert walk.ask(soon).what == "variants", "another whole walk confirms it soon"


def test_a_product_that_is_wanted_during_a_whole_walk_is_read_at_once() -> None:
    walk = paginator_of(DataKind.LISTINGS, is_backfill=False)
    cursor: Any = walk.advance(walk.begin({}, START, ()), Page(ids=("5",), next="5"), START).cursor
    cursor = walk.begin(cursor, START + MINUTE, ["8"])
    assert walk.ask(cursor).what == "products_by_id"
    cursor = walk.advance(cursor, Page(ids=("8",), cut=("8",)), START).cursor
    assert walk.ask(cursor) == PageRequest(what="product", values={"id": "8", "next": None})
    cursor = walk.advance(cursor, Page(ids=("8",)), START).cursor
    assert walk.ask(cursor) == PageRequest(what="variants", values={"above": "5"})


def test_no_open_order_needs_another_look() -> None:
    for kind in (DataKind.ORDERS, DataKind.LISTINGS, DataKind.CUSTOMERS):
        assert paginator_of(kind, is_backfill=False).recheck_after is None


@pytest.mark.parametrize(
    ("kind", "is_backfill"),
    ((DataKind.PAYMENTS, False), (DataKind.LISTINGS, True), (DataKind.PAYMENTS, True)),
)
def test_what_shopify_has_no_walk_for_is_a_bug(kind: DataKind, *, is_backfill: bool) -> None:
    with pytest.raises(AssertionError):
        pagination.paginator_of(kind, is_backfill=is_backfill)
