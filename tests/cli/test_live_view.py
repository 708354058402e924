"""The live view in the terminal: at 80 columns no number is cut."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import cast

import pytest
from rich.console import Console

from headway.cli.live_view import LiveView, draw
from headway.core.catalog.change_outcomes import ChangeOutcome
from headway.core.catalog.listings import SellerId, Sku
from headway.core.limits.breaker import Breaker
from headway.core.timetable.next_call import NextCall, NextCallReason
from headway.runners.worker_processes import WorkerProcesses
from headway.store.catalog.change_list import ObservedChange
from headway.store.catalog.listing_counts import ListingCounts
from headway.store.catalog.shop_status import ShopStatus, StorefrontStatus, WriteStatistics
from headway.store.status import Overview, PermitStatus, RecentCall, SupplierUsage
from headway.web.live import Feed, Scene, Snapshot
from headway_lab.virtual_clock import VirtualClock

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
HELD = "the price is missing from the reply, so the last one stays until a person has looked"


WRITTEN = {"fate": ChangeOutcome.WRITTEN, "written_at": NOW + timedelta(seconds=2.9)}
NOTHING = WriteStatistics(count=0, p50_s=None, p95_s=None, is_partial=False)


def change(sku: str, kind: str = "changed", note: str = "", **facts: object) -> ObservedChange:
    return ObservedChange(
        at=NOW, seller=SellerId("acme"), sku=Sku(sku), kind=kind, note=note, **facts
    )  # type: ignore[arg-type]  # the fields differ


CHANGES = (
    change(
        "NAS0272F2032P=7A", price_old=Decimal("12503.7"), price_new=Decimal(12318),
        shop_new=Decimal("13549.80"), stock_old=1064, stock_new=2106, **WRITTEN,
    ),
    change(
        "MS21214AD3-79=3G", note="cost 2277.30 to 2108.76", stock_old=1064, stock_new=2106,
        shop_new=Decimal("2505.03"), fate=ChangeOutcome.WAITING,
    ),
    change("MS98592AD0-93=9B", "not listed", stock_old=154, stock_new=0, **WRITTEN),
    change("703A4108-906=9B", "held", HELD, shop_new=Decimal("10.00"), fate=ChangeOutcome.HELD),
)  # fmt: skip


def storefront(**changed: object) -> StorefrontStatus:
    values: dict[str, object] = {
        "shops": (), "shops_count": 0, "is_estimate": False, "held": (), "held_count": 0,
        "failing": (), "written": NOTHING,
    }  # fmt: skip
    return StorefrontStatus(**(values | changed))  # type: ignore[arg-type]


def shop(**changed: object) -> ShopStatus:
    values: dict[str, object] = {
        "seller": "acme", "shop": "acme.myshopify.com", "is_connected": True, "trouble": "",
        "listed": 9, "in_step": 8, "waiting": 1, "failing": 0, "failing_reason": "", "held": 0,
        "points_used": None, "points_max": None, "pushed_at": None, "pushed": "",
        "is_in_rehearsal": False, "waits_until": None,
    }  # fmt: skip
    return ShopStatus(**(values | changed))  # type: ignore[arg-type]


def overview(**changed: object) -> Overview:
    values: dict[str, object] = {
        "now": NOW,
        "next_call": NextCall(leaves_at=NOW, why=NextCallReason.NOW, seats=(), seats_max=10),
        "spent": SupplierUsage(
            minute_count=0, minute_limit=2, day_count=0, day_limit=2880, fill=None
        ),
        "counts": ListingCounts(
            total=4, fresh=4, stale=0, unread=0, parked=0, failing=0, overdue=0, in_call=0,
            is_estimate=False,
        ),
        "oldest_read_at": NOW, "ages_h": (), "breaker": Breaker(),
        "gate": PermitStatus(free_at=NOW),
        "changes": CHANGES, "storefront": storefront(), "calls": (), "trouble": (),
        "calls_per_hour": (), "currency": "USD",
    }  # fmt: skip
    return Overview(**(values | changed))  # type: ignore[arg-type]


def render(overview_shown: Overview, *, crew: WorkerProcesses | None = None) -> str:
    """Return the view as a terminal of 80 by 24 shows it."""
    # Drawing does not read the feed: the snapshot is passed in.
    feed = cast("Feed", None)
    watch = LiveView(feed=feed, clock=VirtualClock(NOW), speed=60, url="http://x/", crew=crew)
    console = Console(width=80, height=24, force_terminal=False)
    with console.capture() as captured:
        console.print(draw(watch, Snapshot(scene=Scene(overview=overview_shown)), height=24))
    return captured.get()


@pytest.mark.parametrize(
    "expected",
    (
        ("NAS0272F2032P=7A", "12,503.70 → 12,318.00", "13,549.80", "1064 → 2106", "2.9 s"),
        ("MS21214AD3-79=3G", "cost 2277.30 to 2108.76", "2,505.03", "1064 → 2106", "waiting"),
        ("MS98592AD0-93=9B", "not listed", "154 → 0", "2.9 s"),
        ("703A4108-906=9B", "the price is missing", "…", "10.00", "held"),
    ),
)
def test_at_80_columns_only_a_long_reason_of_a_change_is_cut(expected: tuple[str, ...]) -> None:
    line = next(line for line in render(overview()).splitlines() if line.startswith(expected[0]))
    assert [word for word in expected if word not in line] == []


def test_a_long_result_does_not_cut_the_time_of_its_call() -> None:
    call = RecentCall(
        at=NOW, result="HTTP 503: " + "the supplier says it is busy, " * 3, is_good=False,
        is_over=True, seats_used=10, seats_paid=10, duration_s=31.5,
    )  # fmt: skip
    line = next(line for line in render(overview(calls=(call,))).splitlines() if "HTTP 503" in line)
    assert line.startswith("12:00:00")
    assert line.rstrip().endswith("31.5 s")
    assert "10 of 10" in line


def test_a_wait_shows_its_reason() -> None:
    later = NOW + timedelta(minutes=1)
    overview_shown = overview(
        next_call=NextCall(
            leaves_at=later, why=NextCallReason.RATE_LIMITED, seats=(), seats_max=10
        ),
        gate=PermitStatus(free_at=later, paused_until=later, pause_reason="history unknown"),
    )
    assert "Calls must wait until then: history unknown" in render(overview_shown)


def test_the_line_of_the_shops_shows_speed_and_problems() -> None:
    front = storefront(
        shops=(shop(is_connected=False, trouble="no grant"), shop(failing=2)),
        shops_count=2,
        held_count=3,
        written=WriteStatistics(count=1234, p50_s=1.2, p95_s=4.8, is_partial=False),
    )
    line = next(
        line for line in render(overview(storefront=front)).splitlines() if line.startswith("Shops")
    )
    assert "2, 1 disconnected, 2 refused, 3 held; 1,234 written in 24 h, 95 % with" in line


def test_without_a_shop_it_shows_how_to_connect_one() -> None:
    assert "headway connect SHOP --seller SELLER" in render(overview())


def test_each_worker_process_has_a_line_and_the_view_still_fits() -> None:
    crew = WorkerProcesses(3, options=(), environ={}, report=lambda _name, _text: None)
    lines = render(overview(), crew=crew).splitlines()
    assert [line.split() for line in lines if line.startswith("Worker")] == [
        ["Worker", "1", "starts"], ["Worker", "2", "starts"], ["Worker", "3", "starts"],
    ]  # fmt: skip
    assert len(lines) <= 24
