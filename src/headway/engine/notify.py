"""Notify: send waiting messages, one at a time; any number of processes may do so at once.

Delivery is at least once per address: after a crash between sending and recording it, the message
is sent again, and the mark in its text identifies the duplicate.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from headway.clock import Clock
from headway.core.catalog.listings import Done, Wait
from headway.core.monitoring.alerts import Severity
from headway.core.monitoring.messages import ClaimedMessage

POLL = timedelta(seconds=10)


class OutboxPort(Protocol):
    """Messages that wait to be sent."""

    def claim(self, now: datetime) -> ClaimedMessage | None:
        """Lease the message that has been due longest; None if none is."""

    def next_at(self) -> datetime | None:
        """Return when the next message may be sent; None if none waits."""

    def note(self, message: ClaimedMessage, target: str) -> bool:
        """Record the delivery to an address; return False if the lease was lost."""

    def settle(self, message: ClaimedMessage, error: str, *, now: datetime) -> bool:
        """End it, or try again later what failed; return whether it has ended."""


class MessageSender(Protocol):
    """Addresses of people, each known by a digest: an address may hold a secret."""

    @property
    def targets(self) -> Sequence[str]:
        """The digests of the addresses."""

    def send(
        self, target: str, *, title: str, body: str, severity: Severity, is_resolved: bool = False
    ) -> str:
        """Send a message to one address; return the error, or an empty text."""


class Notify:
    """Sends messages, in a step of its own, so that a slow address delays no other work."""

    def __init__(self, *, clock: Clock, outbox: OutboxPort, messenger: MessageSender) -> None:
        self._clock = clock
        self._outbox = outbox
        self._messenger = messenger

    def step(self) -> Done | Wait:
        """Send the message that has been due longest, or return when to check again."""
        now = self._clock.now()
        message = self._outbox.claim(now)
        if message is None:
            next_at = self._outbox.next_at() or now + POLL
            return Wait(until=max(now, min(next_at, now + POLL)), why="no message waits")
        errors = []
        for target in self._messenger.targets:
            if target in message.delivered:
                continue
            error = self._messenger.send(
                target,
                title=message.title,
                body=message.body,
                severity=message.severity,
                is_resolved=message.is_resolved,
            )
            if error:
                errors.append(error)
            elif not self._outbox.note(message, target):
                return Done(what="another sends this message")
        error = "; ".join(errors)
        has_ended = self._outbox.settle(message, error, now=self._clock.now())
        if not error:
            return Done(what=f"sent: {message.title}")
        return Done(what=f"not sent ({error}){', given up' if has_ended else ''}: {message.title}")
