"""How the deployment is doing: the first screen, freshness over time, and the timetable."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from headway.core.access import Need
from headway.core.catalog.listings import SupplierName
from headway.core.timetable.day import DayTimetable
from headway.operations.callers import Caller, OperatorCaller
from headway.operations.inputs import Days
from headway.operations.operation import operation
from headway.operations.status import day_of, look
from headway.store.monitoring.freshness import Freshness
from headway.store.status import Overview

TAG = "monitoring"
DAYS_SHOWN = 7.0
SupplierQuery = Annotated[
    SupplierName | None,
    Field(description="Which supplier's queue; a seller sees the seller's own."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessSeries:
    """How fresh all listings were over time, the oldest first."""

    now: datetime
    samples: tuple[Freshness, ...]
    """One sample for each measurement, the oldest first."""


@operation(
    "GET", "/api/sync/status", need=Need.READ, tag="status", errors=(404, 503), name="get_status"
)
def status(caller: Caller, supplier: SupplierQuery = None) -> Overview:
    """Return everything the first screen shows; a seller sees that of the seller's own."""
    return look(caller.on_queue(supplier), seller=caller.seller, seller_app=caller.own)


@operation(
    "GET", "/api/sync/freshness", need=Need.OVERSEE, tag=TAG, errors=(422,), name="get_freshness"
)
def freshness(caller: OperatorCaller, days: Days = DAYS_SHOWN) -> FreshnessSeries:
    """Show how fresh listings were over time, and whether each tier's promise was kept."""
    now = caller.now
    samples = caller.app.freshness.series(now - timedelta(days=days))
    return FreshnessSeries(now=now, samples=samples)


@operation("GET", "/api/sync/timetable", need=Need.OVERSEE, tag=TAG, name="get_timetable")
def timetable(caller: OperatorCaller) -> DayTimetable:
    """Show calls planned for the next 24 hours, those made in the last, and retry windows."""
    return day_of(caller.app, caller.now)
