"""Law L13: every hour a few listings or jobs are explained, and each answer is checked."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from headway.app import App
from headway.app.supplier_queue import queue_ahead, supplier_queue
from headway.core.accounts.jobs import JobStatus, interval
from headway.core.catalog.listings import Sku
from headway.core.reasons import Explanation, ListingPosition
from headway.core.timetable.next_call import SupplierQueue
from headway.engine.explain import reasons
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
    queue = supplier_queue(app, now)
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


ASKED = 6
WAITING = (JobStatus.QUEUED, JobStatus.FAILED, JobStatus.LIMITED, JobStatus.COMPLETED)


def check_job_explanations(app: App, violations: ViolationLog) -> None:
    """Explain the front of the queue and some jobs of every status, and check the answers."""
    now = app.clock.now()
    front = app.account_queries.jobs(now, limit=ASKED)
    others = [job for one in WAITING for job in app.account_queries.jobs(now, status=one, limit=2)]
    for view in (*front, *others):
        is_history = view.status is JobStatus.COMPLETED and view.due_at is None
        if not view.reason:
            violations.add("L13", f"{view.name} has no reason")
        elif view.status in WAITING and not is_history and (view.until is None or view.until < now):
            violations.add("L13", f"{view.name} says {view.reason!r} but names no future time")


def record_job_forecasts(
    app: App, names: Sequence[str], forecasts: ForecastChecks, *, at_s: float
) -> None:
    """Ask until when these jobs wait, and record the answers."""
    now = app.clock.now()
    for view in (app.account_queries.job(now, name) for name in names):
        if view is None or view.status not in WAITING or view.until is None:
            continue
        headway_s = interval(view.tier, view.kind, app.job_rule) / SECOND
        at = at_s + (view.until - now) / SECOND
        forecasts.record(view.id, WaitForecast(state=view.state, at_s=at, headway_s=headway_s))
