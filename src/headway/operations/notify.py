"""A message to everybody who is notified of alerts, to see that it arrives."""

from dataclasses import dataclass

from headway.app.monitoring import notify_urls
from headway.clock import fresh_id
from headway.config import Settings
from headway.core.access import Need
from headway.core.monitoring.alerts import Severity
from headway.core.monitoring.messages import message_mark
from headway.errors import ConflictError
from headway.operations.callers import REAL_TIME, OperatorCaller
from headway.operations.operation import operation


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyResult:
    """One address, by a name that holds no secret, and its error if the message did not leave."""

    to: str
    """The address, without its secret. Example: `slack`"""
    is_sent: bool
    """True if the message was accepted."""
    error: str
    """Why it was not; empty if it was. Example: `403 Forbidden`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyReport:
    """What each address answered."""

    sent: tuple[NotifyResult, ...]
    """The answer of each address."""


@operation(
    "POST", "/api/notify/test", need=Need.OPERATE, tag="monitoring", name="send_test_notification"
)
def send_test(caller: OperatorCaller) -> NotifyReport:
    """Send one message to each address of HEADWAY_NOTIFY_URLS, whatever the quiet hours."""
    return send_test_message(caller.app.settings)


def send_test_message(settings: Settings) -> NotifyReport:
    """Send the message to each address of these settings; raises ConflictError if there is none."""
    urls = notify_urls(settings)
    if not urls:
        raise ConflictError("nobody is notified of alerts; set HEADWAY_NOTIFY_URLS")
    from headway.observe.notify import AppriseSender  # noqa: PLC0415 - slow to import

    sender, now = AppriseSender(urls), REAL_TIME.now()
    base = settings.public_url.rstrip("/")
    lines = [f"Sent by headway notify test at {now:%Y-%m-%d %H:%M:%S} UTC. Alerts come like this."]
    lines += [f"Page: {base}/"] * bool(base)
    body = "\n".join([*lines, f"Message {message_mark(fresh_id())}"])
    errors = {
        sender.name(target): sender.send(
            target, title="headway: a test", body=body, severity=Severity.NOTICE
        )
        for target in sender.targets
    }
    return NotifyReport(
        sent=tuple(
            NotifyResult(to=name, is_sent=not error, error=error) for name, error in errors.items()
        )
    )
