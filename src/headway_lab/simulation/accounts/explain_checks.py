"""Law L13: every hour a few jobs are explained, and each answer is checked."""

from collections.abc import Sequence
from datetime import timedelta

from headway.app import App
from headway.core.accounts.jobs import JobStatus, interval
from headway_lab.simulation.forecast_checks import ForecastChecks, WaitForecast
from headway_lab.simulation.violation_log import ViolationLog

ASKED = 6
SECOND = timedelta(seconds=1)
WAITING = (JobStatus.QUEUED, JobStatus.FAILED, JobStatus.LIMITED, JobStatus.COMPLETED)


def check_explanations(app: App, violations: ViolationLog) -> None:
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


def record_forecasts(
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
