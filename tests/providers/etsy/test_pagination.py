"""Etsy's walks against a small shop in memory that changes between pages: nothing slips by."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.core.accounts.jobs import BACKFILLED, DataKind
from headway.core.accounts.pagination import RUN, Cursor, Page, PageRequest, PageStep, Paginator
from headway.core.accounts.removals import RemovalEvidence, decide_removal
from headway.errors import InvariantError
from headway.providers.etsy.pagination import LedgerWalk, ListingsWalk, ReceiptsWalk, paginator_of
from headway.providers.registry import platform_role
from headway_lab.platforms import ETSY

NOW_S = 1_780_000_000
DAY_S = 86_400
OFFSET_MAX = 12_000


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, tz=UTC)


@dataclass(frozen=True, kw_only=True)
class Row:
    id: str
    created_s: int
    updated_s: int
    version: int = 0
    state: str = "active"
    shows_s: int = 0


@dataclass(kw_only=True)
class Shop:
    """Rows of a shop, what a warehouse would hold of them, and how often it was asked."""

    now_s: int = NOW_S
    rows: dict[str, Row] = field(default_factory=dict)
    held: dict[str, Row] = field(default_factory=dict)
    asks: list[PageRequest] = field(default_factory=list)
    number: int = 0
    created_s: int | None = None

    def add(self, created_s: int, *, state: str = "active", lag_s: int = 0) -> Row:
        self.number += 1
        row = Row(
            id=str(self.number),
            created_s=created_s,
            updated_s=created_s,
            state=state,
            shows_s=created_s + lag_s,
        )
        self.rows[row.id] = row
        return row

    def touch(self, row: Row, *, is_quiet: bool = False, lag_s: int = 0, **changed: Any) -> None:
        now = self.rows[row.id]
        if not is_quiet:
            changed |= {"updated_s": self.now_s, "shows_s": self.now_s + lag_s}
        self.rows[row.id] = replace(now, version=now.version + 1, **changed)

    def answer(self, ask: PageRequest) -> Page:
        self.asks.append(ask)
        assert ask.values.get("offset", 0) + ask.values.get("limit", 0) <= OFFSET_MAX
        rows = getattr(self, f"_{ask.what}")(ask.values)
        self.held |= {row.id: row for row in rows[1]}
        return Page(
            ids=tuple(row.id for row in rows[1]),
            stamps=tuple(at(stamp) for stamp in rows[2]),
            total=rows[0],
        )

    def _shop(self, _: Mapping[str, Any]) -> Any:
        return None, [], [] if self.created_s is None else [self.created_s]

    def _receipt(self, values: Mapping[str, Any]) -> Any:
        rows = [self.rows[values["receipt_id"]]]
        return None, rows, [rows[0].updated_s]

    def _receipts(self, values: Mapping[str, Any]) -> Any:
        stamp = f"{values['sort_on']}_s"
        least = values.get("min_last_modified", values.get("min_created"))
        shown = [row for row in self.rows.values() if row.shows_s <= self.now_s]
        rows = sorted(
            (row for row in shown if getattr(row, stamp) >= least),
            key=lambda row: (getattr(row, stamp), int(row.id)),
        )
        page = rows[values["offset"] :][: values["limit"]]
        return len(rows), page, [getattr(row, stamp) for row in page]

    def _listings(self, values: Mapping[str, Any]) -> Any:
        rows = [row for row in self.rows.values() if row.state == values["state"]]
        rows.sort(key=lambda row: (-row.created_s, -int(row.id)))
        page = rows[values["offset"] :][: values["limit"]]
        return len(rows), page, [row.updated_s for row in page]

    def _ledger(self, values: Mapping[str, Any]) -> Any:
        least, most = values["min_created"], values["max_created"]
        assert most - least <= 31 * DAY_S
        assert most <= self.now_s - 60
        shown = [row for row in self.rows.values() if row.shows_s <= self.now_s]
        rows = sorted(
            (row for row in shown if least <= row.created_s <= most),
            key=lambda row: (-row.created_s, -int(row.id)),
        )
        page = rows[values["offset"] :][: values["limit"]]
        return len(rows), page, [row.created_s for row in page]


def run(
    walk: Paginator,
    shop: Shop,
    cursor: Cursor,
    *,
    wanted: tuple[str, ...] = (),
    between: Callable[[], None] = lambda: None,
    pages_max: int = 2000,
) -> PageStep:
    """Walk once; the cursor goes through JSON between pages, as if every page were the last."""
    cursor = walk.begin(cursor, at(shop.now_s), wanted)
    for _ in range(pages_max):
        cursor = json.loads(json.dumps(cursor))
        step = walk.advance(cursor, shop.answer(walk.ask(cursor)), at(shop.now_s))
        if step.is_done:
            assert RUN not in step.cursor
            return step
        cursor = step.cursor
        shop.now_s += 1
        between()
    raise AssertionError("the walk has no end")


# Each change between two pages: which of the rows, and what happens to it.
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "touch", "touch many", "quiet", "late", "nothing"]),
        st.integers(0, 10_000),
    ),
    max_size=40,
)
STAMPS = st.lists(st.tuples(st.integers(1, 4000), st.integers(1, 230)), max_size=6)


def disturb(shop: Shop, changes: list[tuple[str, int]]) -> None:
    if not changes:
        return
    what, number = changes.pop()
    rows = list(shop.rows.values())
    picked = rows[number % len(rows)] if rows else None
    if what in {"add", "late"} or picked is None:
        shop.add(shop.now_s, lag_s=number % 500 if what == "late" else 0)
    elif what == "touch many":
        for row in rows[number % len(rows) :][:12]:
            shop.touch(row)
    elif what != "nothing":
        shop.touch(picked, is_quiet=what == "quiet")


def shop_of(stamps: list[tuple[int, int]]) -> Shop:
    """Make a shop with some rows in each of a few seconds, sometimes more than fit a page."""
    shop = Shop()
    for ago_s, count in stamps:
        for _ in range(count):
            shop.add(NOW_S - ago_s)
    return shop


@settings(max_examples=150, deadline=None)
@given(stamps=STAMPS, changes=CHANGES)
def test_a_run_sees_every_row_as_it_was_or_newer(
    stamps: list[tuple[int, int]], changes: list[tuple[str, int]]
) -> None:
    shop = shop_of(stamps)
    before = dict(shop.rows)
    loud = [change for change in changes if change[0] not in {"quiet", "late"}]
    run(ReceiptsWalk(), shop, {}, between=lambda: disturb(shop, loud))
    assert all(shop.held[id_].version >= row.version for id_, row in before.items())


@settings(max_examples=150, deadline=None)
@given(stamps=STAMPS, changes=CHANGES)
def test_when_changes_cease_the_warehouse_equals_the_shop_within_a_day(
    stamps: list[tuple[int, int]], changes: list[tuple[str, int]]
) -> None:
    shop = shop_of(stamps)
    walk = ReceiptsWalk()
    cursor: Cursor = {}
    left = list(changes)  # hypothesis prints the argument, which stays as it is
    while left:
        cursor = run(walk, shop, cursor, between=lambda: disturb(shop, left)).cursor
        disturb(shop, left)
        shop.now_s += 300
    shop.now_s += 600
    cursor = run(walk, shop, cursor).cursor
    loud = {id_ for id_, row in shop.rows.items() if row.version == 0}
    assert all(shop.held[id_] == shop.rows[id_] for id_ in loud)
    shop.now_s += DAY_S
    run(walk, shop, cursor)
    assert shop.held == shop.rows


def test_a_row_that_shows_late_is_found_by_the_overlap() -> None:
    shop, walk = Shop(), ReceiptsWalk()
    late = shop.add(NOW_S - 5, lag_s=400)
    shop.add(NOW_S - 1)
    cursor = run(walk, shop, {}).cursor
    assert late.id not in shop.held
    shop.now_s += 500
    run(walk, shop, cursor)
    assert late.id in shop.held


def test_a_quiet_cancel_is_found_by_the_daily_look_at_what_is_recent() -> None:
    shop, walk = Shop(), ReceiptsWalk()
    row = shop.add(NOW_S - 30 * DAY_S)
    cursor = run(walk, shop, {"seen_s": NOW_S - 60, "rewalked_s": NOW_S - 60}).cursor
    shop.now_s += 60
    shop.touch(row, is_quiet=True)
    cursor = run(walk, shop, cursor).cursor
    assert row.id not in shop.held
    assert len(shop.asks) == 2
    shop.now_s += DAY_S
    cursor = run(walk, shop, cursor).cursor
    assert shop.held[row.id].version == 1
    shop.now_s += 300
    shop.asks.clear()
    run(walk, shop, cursor)
    assert [ask.values["sort_on"] for ask in shop.asks] == ["updated"]


def test_rows_of_one_second_that_leave_it_pull_no_other_past_the_walk() -> None:
    shop = Shop()
    for _ in range(320):
        shop.add(NOW_S - 50)
    batches = iter([list(shop.rows.values())[:40]])

    def leave() -> None:
        for row in next(batches, []):
            shop.touch(row)

    run(ReceiptsWalk(), shop, {}, between=leave)
    assert shop.held == shop.rows


def test_wanted_receipts_are_read_first_and_each_by_itself() -> None:
    shop = Shop()
    old = [shop.add(NOW_S - 300 * DAY_S).id for _ in range(2)]
    run(ReceiptsWalk(), shop, {"seen_s": NOW_S, "rewalked_s": NOW_S}, wanted=tuple(old))
    assert [ask.what for ask in shop.asks] == ["receipt", "receipt", "receipts"]
    assert set(shop.held) == set(old)


def test_a_stamp_from_the_future_does_not_hide_what_comes_after() -> None:
    shop, walk = Shop(), ReceiptsWalk()
    shop.add(NOW_S + 5 * DAY_S)
    cursor = run(walk, shop, {}).cursor
    shop.rows = {id_: replace(row, shows_s=0) for id_, row in shop.rows.items()}
    cursor = run(walk, shop, cursor).cursor
    shop.now_s += 60
    row = shop.add(shop.now_s)
    run(walk, shop, cursor)
    assert row.id in shop.held


def test_rows_without_a_stamp_do_not_stop_the_walk() -> None:
    walk = ReceiptsWalk()
    cursor = walk.begin({}, at(NOW_S), ())
    ids = tuple(str(number) for number in range(100))
    step = walk.advance(cursor, Page(ids=ids, total=250), at(NOW_S))
    assert walk.ask(step.cursor).values["offset"] == 90
    assert walk.advance(step.cursor, Page(ids=ids[90:], total=100), at(NOW_S)).is_done


def test_a_backfill_reads_all_history_oldest_first_and_never_goes_deep() -> None:
    shop = Shop()
    for number in range(15_000):
        shop.add(NOW_S - 9 * 365 * DAY_S + number * 600)
    run(ReceiptsWalk(is_backfill=True), shop, {})
    assert len(shop.held) == 15_000
    assert max(ask.values["offset"] for ask in shop.asks) == 0
    assert len(shop.asks) <= 155
    assert [int(id_) for id_ in shop.held] == sorted(int(id_) for id_ in shop.held)


LISTING_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "renew", "remove 15", "sell out", "nothing"]),
        st.integers(0, 10_000),
    ),
    max_size=12,
)


def stir(shop: Shop, changes: list[tuple[str, int]]) -> None:
    if not changes:
        return
    what, number = changes.pop()
    active = [row for row in shop.rows.values() if row.state == "active"]
    picked = active[number % len(active) :] if active else []
    if what == "add":
        shop.add(shop.now_s)
    elif what in {"remove", "remove 15"}:
        for row in picked[: 15 if what == "remove 15" else 1]:
            del shop.rows[row.id]
    elif what == "renew" and picked:
        shop.touch(picked[0], created_s=shop.now_s)
    elif what == "sell out" and picked:
        shop.touch(picked[0], state="sold_out")


def active_shop(count: int) -> Shop:
    shop = Shop()
    for number in range(count):
        shop.add(NOW_S - 1000 + number)
    return shop


def walk_disturbed(shop: Shop, changes: list[tuple[str, int]]) -> tuple[PageStep, set[str]]:
    """Walk while the shop changes; return the listings that were there all along and not seen."""
    before, left = set(shop.rows), list(changes)
    shop.held.clear()
    step = run(ListingsWalk(), shop, {}, between=lambda: stir(shop, left))
    return step, before & set(shop.rows) - set(shop.held)


# Changes from the last to the first. A listing is renewed, which brings it to
# the front, and sells out after the sold-out list was read: this walk cannot see it.
REPLAY = [("sell out", 1770), ("renew", 0), ("remove 15", 0), ("remove 15", 0)]
REPLAY += [("remove 15", 51), ("renew", 6370)]
# The same, but as many rows are read as Etsy counts: one that was read is deleted meanwhile.
REPLAY_COMPLETE = [("sell out", 0), *[("nothing", 0)] * 4, ("remove", 7629), ("renew", 0)]


@settings(max_examples=200, deadline=None)
@given(count=st.integers(0, 420), changes=LISTING_CHANGES)
@example(count=395, changes=REPLAY)
@example(count=300, changes=REPLAY_COMPLETE)
def test_a_complete_walk_misses_only_what_is_renewed_and_sells_out_meanwhile(
    count: int, changes: list[tuple[str, int]]
) -> None:
    shop = active_shop(count)
    step, missed = walk_disturbed(shop, changes)
    assert changes or step.gone_since, "a walk through a shop that stands still is complete"
    if step.gone_since is not None:
        assert step.gone_since == at(NOW_S)
        rows = [shop.rows[id_] for id_ in missed]
        assert all(row.created_s >= NOW_S and row.state == "sold_out" for row in rows)


@settings(max_examples=100, deadline=None)
@given(count=st.integers(0, 420), first=LISTING_CHANGES, second=LISTING_CHANGES)
@example(count=395, first=REPLAY, second=REPLAY)
@example(count=300, first=REPLAY_COMPLETE, second=REPLAY_COMPLETE)
def test_no_listing_that_is_there_all_the_time_is_missed_by_two_complete_walks(
    count: int, first: list[tuple[str, int]], second: list[tuple[str, int]]
) -> None:
    shop = active_shop(count)
    one, missed = walk_disturbed(shop, first)
    shop.now_s += DAY_S // 4
    other, missed_again = walk_disturbed(shop, second)
    if one.gone_since is not None and other.gone_since is not None:
        assert not missed & missed_again


@pytest.mark.parametrize(("count", "changes"), ((395, REPLAY), (300, REPLAY_COMPLETE)))
def test_a_listing_that_is_renewed_and_sells_out_during_a_walk_is_seen_by_the_next(
    count: int, changes: list[tuple[str, int]]
) -> None:
    shop = active_shop(count)
    first, missed = walk_disturbed(shop, changes)
    assert len(missed) == 1, "the replay shows what it is about"
    assert (first.gone_since is not None) is (changes is REPLAY_COMPLETE)
    begun = [walk for walk in (first.gone_since,) if walk is not None]
    one_walk = RemovalEvidence(walks=begun, known=count, missing=1, confirmed=1)
    assert decide_removal(one_walk).since is None
    second, missed_again = walk_disturbed(shop, [])
    assert (second.gone_since is not None, missed_again) == (True, set())


def test_a_shop_with_more_listings_than_etsy_shows_is_read_up_to_the_cap() -> None:
    shop = Shop()
    for number in range(15_000):
        shop.add(NOW_S - 20_000 + number)
    step = run(ListingsWalk(), shop, {})
    assert max(ask.values["offset"] for ask in shop.asks) <= OFFSET_MAX
    assert len(shop.held) >= OFFSET_MAX - 100
    assert step.is_done
    assert step.gone_since is None, "what lies beyond the cap is not called gone"


def test_a_shop_of_few_listings_is_read_in_six_calls() -> None:
    shop = Shop()
    for state in ("active", "inactive", "sold_out", "draft", "expired"):
        shop.add(NOW_S - 5, state=state)
    step = run(ListingsWalk(), shop, {"anything": 1})
    assert len(shop.asks) == 6
    assert step == PageStep(cursor={}, is_done=True, gone_since=at(NOW_S))
    assert set(shop.held) == set(shop.rows)


def test_a_listing_that_comes_back_on_sale_during_the_walk_is_seen() -> None:
    shop = Shop()
    row = shop.add(NOW_S - 5, state="expired")

    def renew() -> None:
        if shop.rows[row.id].state == "expired":
            shop.touch(row, state="active", created_s=shop.now_s)

    run(ListingsWalk(), shop, {}, between=renew)
    assert row.id in shop.held


def test_a_shop_that_changes_faster_than_it_is_read_loses_nothing_by_it() -> None:
    shop = Shop()
    for number in range(2000):
        shop.add(NOW_S - 5000 + number)

    def churn() -> None:
        for row in sorted(shop.rows.values(), key=lambda row: -row.created_s)[:20]:
            del shop.rows[row.id]

    step = run(ListingsWalk(), shop, {}, between=churn)
    assert step.gone_since is None


@settings(max_examples=100, deadline=None)
@given(
    ages_s=st.lists(st.integers(0, 20 * DAY_S), max_size=400),
    late=st.lists(st.integers(0, 3000), max_size=10),
)
def test_every_entry_of_the_ledger_is_read_though_some_show_late(
    ages_s: list[int], late: list[int]
) -> None:
    shop, walk = Shop(), LedgerWalk()
    for age_s in ages_s:
        shop.add(NOW_S - age_s)
    cursor: Cursor = {"until_s": NOW_S - 20 * DAY_S}
    for lag_s in late:
        cursor = run(walk, shop, cursor).cursor
        shop.add(shop.now_s, lag_s=lag_s)
        shop.now_s += 600
    cursor = run(walk, shop, cursor).cursor
    shop.now_s += 3600 + 61
    run(walk, shop, cursor)
    assert shop.held == shop.rows


def test_the_ledgers_backfill_begins_two_years_ago_and_ends_a_minute_ago() -> None:
    shop = Shop()
    oldest, newest = shop.add(NOW_S - 729 * DAY_S), shop.add(NOW_S - 61)
    step = run(LedgerWalk(is_backfill=True), shop, {})
    assert set(shop.held) == {oldest.id, newest.id}
    assert 24 <= len(shop.asks) <= 26
    assert step.cursor == {"until_s": NOW_S - 60}


def test_a_crowded_window_is_halved_until_its_pages_can_be_reached() -> None:
    shop = Shop()
    for number in range(14_000):
        shop.add(NOW_S - 6 * DAY_S + number * 30)
    run(LedgerWalk(), shop, {"until_s": NOW_S - 6 * DAY_S})
    assert len(shop.held) == 14_000
    assert max(ask.values["offset"] for ask in shop.asks) <= 5_000


def test_a_clock_that_was_ahead_once_leaves_no_hole_in_the_ledger() -> None:
    shop, walk = Shop(), LedgerWalk()
    cursor: Cursor = {"until_s": NOW_S + 3 * DAY_S}
    for _ in range(5):
        shop.add(shop.now_s - 100)
        shop.now_s += 1800
        cursor = run(walk, shop, cursor).cursor
    assert shop.held == shop.rows


@pytest.mark.parametrize("kind", platform_role(ETSY).kinds)
def test_every_job_of_etsy_has_a_walk(kind: DataKind) -> None:
    walk = paginator_of(kind, is_backfill=False)
    weekly = timedelta(days=7)
    assert walk.recheck_after == (weekly if kind is DataKind.ORDERS else None)
    if kind in BACKFILLED:
        assert paginator_of(kind, is_backfill=True).recheck_after is None


def test_etsy_has_no_walk_of_customers() -> None:
    with pytest.raises(InvariantError, match="no such job"):
        paginator_of(DataKind.CUSTOMERS, is_backfill=False)
