"""What is wrong now and needs a person."""

from dataclasses import dataclass, replace
from datetime import datetime

from headway.app.monitoring import alert_metrics_now, alert_metrics_of
from headway.app.providers import token_prefixes
from headway.core.access import Need
from headway.core.monitoring.account_rules import TOKEN_NOTICE
from headway.core.monitoring.alerts import Alert
from headway.core.monitoring.metrics import AlertMetrics
from headway.core.monitoring.rules import current_alerts
from headway.operations.callers import Caller
from headway.operations.deployment import status
from headway.operations.operation import operation
from headway.operations.pauses import pauses
from headway.store.accounts.credentials import Credentials
from headway.store.status import Overview


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertList:
    """What is wrong now, the worst first."""

    now: datetime
    alerts: tuple[Alert, ...]
    """The alerts, the worst first."""


@operation("GET", "/api/alerts", need=Need.READ, tag="monitoring", name="list_alerts")
def alerts(caller: Caller) -> AlertList:
    """List what is wrong now and needs a person, the worst first; a seller sees the own."""
    return AlertList(now=caller.now, alerts=alerts_in(caller, None))


def alerts_in(caller: Caller, overview: Overview | None) -> tuple[Alert, ...]:
    """Return what is wrong, the worst first, with an overview that was read before."""
    thresholds = caller.shared.settings.alert_thresholds
    return tuple(current_alerts(alert_metrics(caller, overview), thresholds))


def alert_metrics(caller: Caller, overview: Overview | None = None) -> AlertMetrics:
    """Return what alerts are judged by; a seller's are in the overview, if it was read."""
    app, standing = caller.shared, pauses(caller).pauses
    if caller.seller is None:
        return alert_metrics_now(app, caller.now, pauses=standing)
    overview = overview or status(caller)
    tokens = Credentials(app.pool).ending(
        overview.now + TOKEN_NOTICE,
        prefixes=token_prefixes(app.settings),
        seller=caller.seller,
    )
    metrics = alert_metrics_of(overview, pauses=standing, tokens=tokens)
    return replace(metrics, age_max=caller.shared.policy.age_max)
