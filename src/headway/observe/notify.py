"""Messages to people through Apprise: mail, Slack, Teams, a webhook, and some hundred others.

An address holds secrets (a token, a password). It is never logged or shown; Apprise's own log,
which may contain pieces of it, is read for a status and goes nowhere else.
"""

import hashlib
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headway.core.monitoring.alerts import Severity
from headway.errors import ConfigError

if TYPE_CHECKING:
    from apprise import NotifyBase

DIGEST_CHARS = 16
LOGGER = "apprise"
# Both write addresses, or pieces of them, into their logs.
HUSHED = (LOGGER, "urllib3")
STATUS = re.compile(r"error=(\d{3})\b")
SILENT = "could not be reached"
REFUSED = "refused the message"


class AppriseSender:
    """Addresses as Apprise writes them, each known by its digest."""

    def __init__(self, urls: Sequence[str]) -> None:
        for name in HUSHED:
            logger = logging.getLogger(name)
            logger.setLevel(logging.WARNING)
            logger.propagate = False
        self._services = {_digest(url): _open(url, place) for place, url in enumerate(urls, 1)}
        self._names = {
            _digest(url): f"{url.partition(':')[0]} ({place} of {len(urls)})"
            for place, url in enumerate(urls, 1)
        }

    @property
    def targets(self) -> Sequence[str]:
        """The digests of the addresses."""
        return tuple(self._services)

    def name(self, target: str) -> str:
        """Return the public name of an address: its service, and its place in the setting."""
        return self._names[target]

    def send(
        self, target: str, *, title: str, body: str, severity: Severity, is_resolved: bool = False
    ) -> str:
        """Send a message to one address; return what went wrong, or nothing."""
        from apprise import NotifyType  # noqa: PLC0415 - slow, and only needed to send

        kinds = {
            Severity.CRITICAL: NotifyType.FAILURE,
            Severity.WARNING: NotifyType.WARNING,
            Severity.NOTICE: NotifyType.INFO,
        }
        with _captured_messages() as messages:
            try:
                kind = NotifyType.SUCCESS if is_resolved else kinds[severity]
                is_sent = self._services[target].notify(body=body, title=title, notify_type=kind)
            except Exception as error:  # noqa: BLE001 - a plugin's bug; its text may hold the address
                return f"{self.name(target)}: failed with {type(error).__name__}"
        return "" if is_sent else f"{self.name(target)}: {_why(messages)}"


def _open(url: str, place: int) -> "NotifyBase":
    from apprise import Apprise  # noqa: PLC0415 - slow, and only needed to send

    with _captured_messages(), warnings.catch_warnings():
        # Raised by imports of services that are not used here.
        warnings.simplefilter("ignore", DeprecationWarning)
        service = Apprise.instantiate(url, suppress_exceptions=True)
    if service is None:
        raise ConfigError(
            f"setting HEADWAY_NOTIFY_URLS: the address at place {place} is none that Apprise knows;"
            " it is not shown, for it may hold a secret"
        )
    return service


def _digest(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:DIGEST_CHARS]


def _why(messages: Sequence[str]) -> str:
    """Return the status of a refusal; the rest of the messages may hold secrets."""
    for line in messages:
        if match := STATUS.search(line):
            return f"HTTP {match[1]}"
    return SILENT if any("onnection" in line for line in messages) else REFUSED


@contextmanager
def _captured_messages() -> Iterator[list[str]]:
    """Capture Apprise's log messages, and keep them from other handlers."""
    messages: list[str] = []

    class MessageCapture(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler, logger = MessageCapture(logging.WARNING), logging.getLogger(LOGGER)
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
