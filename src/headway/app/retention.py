"""What deletes its old rows, and after how long."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from headway.engine.ports_limits import Ledger
from headway.store.accounts.event_deliveries import EventDeliveries
from headway.store.accounts.oauth_flows import OAuthFlows
from headway.store.accounts.records import DELETIONS_KEPT, RecordChanges
from headway.store.catalog.publishing import Publishing
from headway.store.dispatch import DispatchLeases
from headway.store.monitoring.alert_states import AlertStates
from headway.store.monitoring.outbox import Outbox
from headway.store.runs import Runs

if TYPE_CHECKING:
    from headway.app import App

BUDGETS_KEPT = timedelta(days=35)
SAMPLES_KEPT = timedelta(days=35)
# A process that was stopped for so long has surely lost its lease.
DISPATCH_LEASES_KEPT = timedelta(days=1)
# An OAuth link is valid for minutes, so one this old was abandoned.
FLOWS_KEPT = timedelta(days=1)


def old_rows(app: "App") -> Mapping[str, tuple[Ledger, timedelta]]:
    """Return each store that deletes old rows, with how long it keeps them, by name."""
    ledger_kept = timedelta(days=app.settings.ledger_retention_days)
    return {
        "budgets": (app.jobs, BUDGETS_KEPT),
        "samples": (app.freshness, SAMPLES_KEPT),
        "sign-ins": (OAuthFlows(app.pool), FLOWS_KEPT),
        "calls": (app.limiter, ledger_kept),
        "raw replies": (Publishing(app.pool), timedelta(days=app.settings.raw_retention_days)),
        "writes": (app.pushes, ledger_kept),
        "webhooks": (app.webhooks, ledger_kept),
        "deleted records": (RecordChanges(app.pool), DELETIONS_KEPT),
        "events": (
            EventDeliveries(app.pool),
            timedelta(days=app.settings.webhook_retention_days),
        ),
        "runs": (Runs(app.pool), ledger_kept),
        "dispatch leases": (DispatchLeases(app.pool, app.clock), DISPATCH_LEASES_KEPT),
        "alerts": (AlertStates(app.pool), ledger_kept),
        "messages": (Outbox(app.pool), ledger_kept),
    }
