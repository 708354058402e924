"""The walks at Printify, against lists that change between any two pages."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.pagination import RUN, Cursor, Page, PageRequest, PageStep, Paginator
from headway.core.accounts.warehouse import Records, Unreadable
from headway.providers.printify.pagination import FIRST_REACH, RECHECK_AFTER, paginator_of

START = datetime(2026, 3, 1, tzinfo=UTC)
NEW, HISTORY = (
    paginator_of(DataKind.ORDERS, is_backfill=is_backfill) for is_backfill in (False, True)
)
LISTINGS = paginator_of(DataKind.LISTINGS, is_backfill=False)
BAD = Unreadable(kind="listings", external_id="p", reason="no price", raw={})
# What happens between two readings: how many rows come, and which go, as shares of the list.
changes = st.lists(
    st.tuples(
        st.integers(0, 13), st.lists(st.floats(0, 1, exclude_max=True), max_size=13), st.booleans()
    ),
    max_size=20,
)


@dataclass(kw_only=True)
class Listed:
    """A list that shows the newest first, a page at a time, as Printify does."""

    size: int = 0
    gap: timedelta = timedelta(minutes=7)
    now: datetime = START
    rows: list[tuple[str, datetime]] = field(default_factory=list)
    numbers: "count[int]" = field(default_factory=count)
    requests: list[PageRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.come(self.size)

    def come(self, amount: int, *, late: timedelta = timedelta(0)) -> None:
        for _ in range(amount):
            self.now += self.gap
            self.rows.append((f"row {next(self.numbers)}", self.now - late))
        self.rows.sort(key=lambda row: row[1], reverse=True)

    def go(self, shares: list[float]) -> None:
        for share in shares:
            if self.rows:
                del self.rows[int(share * len(self.rows))]

    def read(self, ask: PageRequest) -> Page:
        self.requests.append(ask)
        if ask.what == "order":
            name = ask.values["id"]
            is_there = name in self.ids()
            return Page(ids=(name,) if is_there else (), missing=() if is_there else (name,))
        page, limit = ask.values["page"], ask.values["limit"]
        shown = self.rows[(page - 1) * limit : page * limit]
        has_more = page * limit < len(self.rows)
        return Page(
            ids=tuple(row[0] for row in shown),
            stamps=tuple(row[1] for row in shown),
            total=len(self.rows),
            next=str(page + 1) if has_more else None,
        )

    def ids(self) -> set[str]:
        return {row[0] for row in self.rows}


def keep(cursor: Cursor) -> Cursor:
    """Return the cursor as the store gives it back."""
    kept: Cursor = json.loads(json.dumps(cursor))
    return kept


def run(
    walk: Paginator,
    listed: Listed,
    cursor: Cursor,
    events: list[tuple[int, list[float], bool]],
    *,
    wanted: tuple[str, ...] = (),
) -> tuple[PageStep, set[str]]:
    """Walk to the end while the list changes; now and then a page is lost, and a claim ends."""
    ids_read: set[str] = set()
    events = list(events)  # so that a failing example is printed as it was
    cursor = walk.begin(cursor, listed.now, wanted)
    for _ in range(500):
        ask = walk.ask(keep(cursor))
        assert ask == walk.ask(cursor)
        page = listed.read(ask)
        come, gone, is_lost = events.pop(0) if events else (0, [], False)
        listed.come(come)
        listed.go(gone)
        if is_lost:
            cursor = walk.begin(keep(cursor), listed.now, ())
            continue
        ids_read |= set(page.ids)
        step = walk.advance(keep(cursor), page, listed.now)
        if step.is_done:
            assert RUN not in step.cursor
            return step, ids_read
        cursor = step.cursor
    pytest.fail("the walk never ends")


@given(size=st.integers(0, 70), runs=st.lists(changes, min_size=1, max_size=4))
def test_every_order_that_stays_is_found_by_new_orders(
    size: int, runs: list[list[tuple[int, list[float], bool]]]
) -> None:
    listed, cursor, known = Listed(size=size), {}, set[str]()
    for events in runs:
        before = {row[0] for row in listed.rows if row[1] > listed.now - timedelta(days=20)}
        step, ids_read = run(NEW, listed, cursor, list(events))
        known |= ids_read
        assert before & listed.ids() <= known
        cursor = keep(step.cursor)


@given(size=st.integers(0, 70), events=changes)
def test_history_holds_every_order_that_was_there_when_it_began_and_still_is(
    size: int, events: list[tuple[int, list[float], bool]]
) -> None:
    listed = Listed(size=size)
    before = listed.ids()
    step, ids_read = run(HISTORY, listed, {}, events)
    assert before & listed.ids() <= ids_read
    assert step.cursor == {}


@given(size=st.integers(0, 230), events=changes)
def test_a_product_that_stays_is_never_called_gone(
    size: int, events: list[tuple[int, list[float], bool]]
) -> None:
    listed = Listed(size=size)
    before, begun_at = listed.ids(), listed.now
    step, ids_read = run(LISTINGS, listed, {}, events)
    assert before & listed.ids() <= ids_read
    assert step.gone_since in (None, begun_at)
    if not any(come or gone for come, gone, _ in events):
        assert step.gone_since == begun_at, "a walk through a list that stands still is complete"


def test_a_walk_that_reads_fewer_products_than_the_list_has_is_not_complete() -> None:
    listed = Listed(size=60)
    cursor = LISTINGS.begin({}, listed.now, ())
    first = listed.read(LISTINGS.ask(cursor))
    cursor = LISTINGS.advance(cursor, first, listed.now).cursor
    second = replace(listed.read(LISTINGS.ask(cursor)), ids=first.ids[:10])
    step = LISTINGS.advance(cursor, second, listed.now)
    assert (step.is_done, step.gone_since) == (True, None)


def test_a_list_that_does_not_say_how_long_it_is_is_read_to_its_end_and_proves_nothing() -> None:
    listed, cursor, ids = Listed(size=120), LISTINGS.begin({}, START, ()), set[str]()
    while RUN in cursor:
        page = replace(listed.read(LISTINGS.ask(cursor)), total=None)
        ids |= set(page.ids)
        step = LISTINGS.advance(cursor, page, listed.now)
        cursor = step.cursor
    assert (ids, step.gone_since) == (listed.ids(), None)


@given(
    late=st.lists(st.integers(0, 59), max_size=8),
    size=st.integers(0, 30),
    amounts=st.lists(st.integers(0, 25), min_size=8, max_size=8),
)
def test_an_order_that_shows_up_late_is_found_by_the_overlap(
    late: list[int], size: int, amounts: list[int]
) -> None:
    listed, cursor, known = Listed(size=size, gap=timedelta(minutes=1)), {}, set[str]()
    for minutes, amount in zip(late, amounts, strict=False):
        step, ids_read = run(NEW, listed, cursor, [(amount, [], False)])
        cursor, known = keep(step.cursor), known | ids_read
        listed.come(1, late=timedelta(minutes=minutes))
    _, ids_read = run(NEW, listed, cursor, [])
    assert listed.ids() <= known | ids_read


def test_a_quiet_shop_costs_one_page() -> None:
    listed = Listed(size=40)
    step, _ = run(NEW, listed, {}, [])
    listed.requests.clear()
    run(NEW, listed, step.cursor, [])
    assert [ask.values for ask in listed.requests] == [{"page": 1, "limit": 10}]


def test_a_first_run_goes_back_a_month_and_leaves_the_rest_to_the_backfill() -> None:
    listed = Listed(size=100)
    listed.now += FIRST_REACH
    listed.come(15)
    _, ids_read = run(NEW, listed, {}, [])
    assert 15 <= len(ids_read) < 50


def test_the_boundary_moves_only_when_a_run_has_ended_whole() -> None:
    listed = Listed(size=50)
    cursor = NEW.begin({}, listed.now, ())
    boundary = cursor["boundary"]
    for _ in range(4):
        step = NEW.advance(cursor, listed.read(NEW.ask(cursor)), listed.now)
        assert step.cursor["boundary"] == boundary
        cursor = step.cursor
    newest = listed.rows[0][1]
    listed.come(30)
    step = NEW.advance(cursor, listed.read(NEW.ask(cursor)), listed.now)
    while not step.is_done:
        step = NEW.advance(step.cursor, listed.read(NEW.ask(step.cursor)), listed.now)
    assert step.cursor == {"boundary": newest.isoformat()}


def test_wanted_orders_are_read_one_by_one_before_the_list() -> None:
    listed = Listed(size=3)
    step, ids_read = run(NEW, listed, {}, [], wanted=("row 1", "gone", "row 1"))
    assert [(ask.what, ask.values.get("id")) for ask in listed.requests] == [
        ("order", "row 1"),
        ("order", "gone"),
        ("orders", None),
    ]
    assert ids_read == listed.ids()
    assert step.is_done


def test_a_run_that_is_taken_up_again_reads_the_newly_wanted_first_and_then_goes_on() -> None:
    listed = Listed(size=60)
    cursor = NEW.begin({}, listed.now, ("row 1",))
    for _ in range(3):
        cursor = NEW.advance(cursor, listed.read(NEW.ask(cursor)), listed.now).cursor
    cursor = NEW.begin(cursor, listed.now, ("row 2",))
    assert NEW.ask(cursor).values == {"id": "row 2"}
    cursor = NEW.advance(cursor, listed.read(NEW.ask(cursor)), listed.now).cursor
    assert NEW.ask(cursor).values == {"page": 3, "limit": 10}


def test_an_order_from_the_future_hides_nothing() -> None:
    listed = Listed(size=5)
    listed.rows.insert(0, ("odd", listed.now + timedelta(days=900)))
    step, _ = run(NEW, listed, {}, [])
    assert step.cursor["boundary"] == listed.now.isoformat()
    del listed.rows[0]
    listed.come(30)
    _, ids_read = run(NEW, listed, step.cursor, [])
    assert listed.ids() - ids_read <= {f"row {number}" for number in range(5)}


def test_the_walk_goes_back_as_far_as_the_list_has_shrunk() -> None:
    listed = Listed(size=60)
    cursor = HISTORY.begin({}, listed.now, ())
    for _ in range(4):
        cursor = HISTORY.advance(cursor, listed.read(HISTORY.ask(cursor)), listed.now).cursor
    del listed.rows[:11]
    cursor = HISTORY.advance(cursor, listed.read(HISTORY.ask(cursor)), listed.now).cursor
    assert HISTORY.ask(cursor).values["page"] == 3


def test_nothing_is_gone_after_a_walk_with_a_product_that_made_no_sense() -> None:
    cursor = LISTINGS.begin({}, START, ())
    first = Page(ids=("p",), total=51, next="2", records=Records(unreadable=(BAD,)))
    step = LISTINGS.advance(cursor, first, START)
    step = LISTINGS.advance(keep(step.cursor), Page(ids=("q",), total=51), START)
    assert step.is_done
    assert step.gone_since is None


@pytest.mark.parametrize(
    ("walk", "after"), ((NEW, RECHECK_AFTER), (HISTORY, None), (LISTINGS, None))
)
def test_open_orders_are_looked_at_again_by_new_orders_alone(
    walk: Paginator, after: timedelta | None
) -> None:
    assert walk.recheck_after == after


@pytest.mark.parametrize("kind", (DataKind.PAYMENTS, DataKind.CUSTOMERS))
def test_kinds_that_printify_lacks_have_no_paginator(kind: DataKind) -> None:
    with pytest.raises(AssertionError, match="Printify has no"):
        paginator_of(kind, is_backfill=False)
