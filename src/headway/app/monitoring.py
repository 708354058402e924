"""The watch of one application, and who is told of it."""

from collections.abc import Callable
from datetime import datetime, timedelta

from headway.app import App
from headway.app.alert_metrics import alert_metrics_now
from headway.config import Settings
from headway.core.monitoring.alert_state import News
from headway.core.monitoring.alerts import alerts
from headway.core.monitoring.messages import Message, Quiet, message_of
from headway.engine.notify import Notify
from headway.observe.notify import AppriseMessenger
from headway.store.monitoring.alert_states import AlertStates
from headway.store.monitoring.outbox import Outbox
from headway.store.pauses import Pauses

EVERY = timedelta(minutes=1)
ACTOR = "watch"


def alert_watch(
    app: App, *, hears: Callable[[News], None] = lambda _news: None
) -> Callable[[datetime], datetime]:
    """Make what a tick does each minute: judge what is wrong, and write down whom to tell what.

    Where nobody is to be told, nothing is written to tell: who is set later hears no old news.
    """
    app = app.as_person(actor=ACTOR)
    states, outbox = AlertStates(app.pool), Outbox(app.pool)
    settings, quiet = app.settings, quiet_of(app.settings)
    base, tells = settings.public_url.rstrip("/"), bool(notify_urls(settings))

    def look(now: datetime) -> datetime:
        def write(news: News) -> Message | None:
            return message_of(news, now, base=base, quiet=quiet) if tells else None

        metrics = alert_metrics_now(
            app, app.clock.now(), pauses=Pauses(app.pool).standing(app.clock.now())
        )
        current = alerts(metrics, settings.alert_limits)
        for news in states.update(current, now, write=write) or ():
            hears(news)
        if tells:
            outbox.gather(now, quiet=quiet)
        return now + EVERY

    return look


def notify_of(app: App) -> Notify | None:
    """Make what sends messages; None if nobody is to be told. Raises ConfigError."""
    urls = notify_urls(app.settings)
    if not urls:
        return None
    return Notify(clock=app.clock, outbox=Outbox(app.pool), messenger=AppriseMessenger(urls))


def notify_urls(settings: Settings) -> list[str]:
    """Return the addresses, each once."""
    return list(dict.fromkeys(settings.notify_urls.get_secret_value().split()))


def quiet_of(settings: Settings) -> Quiet | None:
    """Return the quiet hours, if there are any."""
    if settings.notify_quiet is None:
        return None
    begins, ends = settings.notify_quiet
    return Quiet(begins=begins, ends=ends)
