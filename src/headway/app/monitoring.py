"""The check of the alert rules that each tick makes, and the notifications that follow."""

from collections.abc import Callable
from datetime import datetime, timedelta

from headway.app import App
from headway.app.alert_metrics import alert_metrics_now
from headway.config import Settings
from headway.core.monitoring.alert_state import AlertChange
from headway.core.monitoring.messages import Message, QuietHours, alert_message
from headway.core.monitoring.rules import current_alerts
from headway.engine.notify import Notify
from headway.observe.notify import AppriseSender
from headway.store.monitoring.alert_states import AlertStates
from headway.store.monitoring.outbox import Outbox
from headway.store.pauses import Pauses

EVERY = timedelta(minutes=1)
ACTOR = "watch"


def alert_monitor(
    app: App, *, on_change: Callable[[AlertChange], None] = lambda _change: None
) -> Callable[[datetime], datetime]:
    """Return the step that checks the alert rules each minute and queues messages.

    Without an address to notify, no message is queued: an address that is added later gets no old
    messages.
    """
    app = app.as_person(actor=ACTOR)
    states, outbox = AlertStates(app.pool), Outbox(app.pool)
    settings, quiet = app.settings, quiet_hours(app.settings)
    base, has_targets = settings.public_url.rstrip("/"), bool(notify_urls(settings))

    def check(now: datetime) -> datetime:
        def write(change: AlertChange) -> Message | None:
            return alert_message(change, now, base=base, quiet=quiet) if has_targets else None

        metrics = alert_metrics_now(
            app, app.clock.now(), pauses=Pauses(app.pool).standing(app.clock.now())
        )
        alerts = current_alerts(metrics, settings.alert_thresholds)
        for change in states.update(alerts, now, write=write) or ():
            on_change(change)
        if has_targets:
            outbox.gather(now, quiet=quiet)
        return now + EVERY

    return check


def notify_of(app: App) -> Notify | None:
    """Return the step that sends messages; None without an address. Raises ConfigError."""
    urls = notify_urls(app.settings)
    if not urls:
        return None
    return Notify(clock=app.clock, outbox=Outbox(app.pool), messenger=AppriseSender(urls))


def notify_urls(settings: Settings) -> list[str]:
    """Return the addresses without duplicates."""
    return list(dict.fromkeys(settings.notify_urls.get_secret_value().split()))


def quiet_hours(settings: Settings) -> QuietHours | None:
    """Return the quiet hours, if the settings have any."""
    if settings.notify_quiet is None:
        return None
    begins, ends = settings.notify_quiet
    return QuietHours(begins=begins, ends=ends)
