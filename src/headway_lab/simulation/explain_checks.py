"""Law L13: every hour a few listings are explained, and each answer is checked."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from headway.app import App
from headway.core.catalog.listings import Sku
from headway.core.reasons import Explanation, ListingPosition
from headway.core.timetable.next_call import SupplierQueue
from headway.engine.explain import reasons
from headway.operations.outlook import queue_ahead
from headway.store.timetable.positions import ListingPositions
from headway_lab.simulation.forecast_checks import ForecastChecks, WaitForecast
from headway_lab.simulation.violation_log import ViolationLog

ASKED_PER_QUEUE = 2
SECOND = timedelta(seconds=1)
Explain = Callable[[ListingPosition, SupplierQueue, datetime], Explanation]


def check_explanations(app: App, violations: ViolationLog, explain: Explain = reasons) -> None:
    """Explain both ends of every queue; a waiting row needs a sentence and a future moment."""
    violations.enable(("L13",))
    now = app.clock.now()
    queue = app.supplier_queue(now)
    for position in ListingPositions(app.pool).sample(now, limit=ASKED_PER_QUEUE):
        answer = explain(position, queue, now)
        is_waiting = position.is_active and position.sync_status != "syncing"
        if not answer.sentence:
            violations.add("L13", f"{position.sku} has no reason")
        elif is_waiting and answer.is_mute(now):
            violations.add(
                "L13", f"{position.sku} says {answer.sentence!r} but names no future time"
            )


def record_forecasts(
    app: App, skus: Sequence[Sku], forecasts: ForecastChecks, *, at_s: float
) -> None:
    """Ask until when these parts wait, and record the answers."""
    now = app.clock.now()
    queue = queue_ahead(app, now, skus)
    for standing in (
        position for sku in skus for position in ListingPositions(app.pool).of_sku(sku, now)
    ):
        answer = reasons(standing, queue, now)
        is_waiting = standing.is_active and standing.sync_status != "syncing"
        if not is_waiting or answer.until is None:
            continue
        in_s = (answer.until - now) / SECOND
        forecasts.record(standing.id, WaitForecast(state=answer.state, at_s=at_s + in_s))
