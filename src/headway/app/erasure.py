"""What the tick erases: for a few seconds in a round, so that everything else goes on beside it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headway.clock import Clock
from headway.config import Settings
from headway.store.accounts.erasures import Erasures
from headway.store.accounts.retention import KeptKind, RecordRetention

if TYPE_CHECKING:
    from headway.app import App

ROUND_S = 5.0


def for_seconds(clock: Clock, seconds: float = ROUND_S) -> Callable[[], bool]:
    """Return a function that is True until so many seconds have passed."""
    until_s = clock.monotonic() + seconds
    return lambda: clock.monotonic() < until_s


def kept_days(settings: Settings) -> dict[KeptKind, timedelta]:
    """Return how long the records of accounts are kept, for each kind that is not kept for ever."""
    days = {
        KeptKind.ORDERS: settings.orders_retention_days,
        KeptKind.CUSTOMERS: settings.customers_retention_days,
        KeptKind.PAYMENTS: settings.payments_retention_days,
        KeptKind.LISTINGS: settings.listings_retention_days,
        KeptKind.UNREADABLE: settings.unreadable_retention_days,
    }
    return {kind: timedelta(days=kept) for kind, kept in days.items() if kept}


def erase_due(app: "App", now: datetime) -> bool:
    """Continue the erasures that are due; return True if some are left for the next round."""
    return Erasures(app.pool).work(now, goes_on=for_seconds(app.clock))


def expire_records(app: "App", now: datetime) -> bool:
    """Delete records that are older than the settings keep them; return True if more are left."""
    kept, count = kept_days(app.settings), app.process_metrics.expired
    goes_on = for_seconds(app.clock)
    return RecordRetention(app.pool).apply(kept, now, goes_on=goes_on, expired=count)
