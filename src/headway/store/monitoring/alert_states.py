"""Alert states, updated each minute together with their messages, in one transaction.

An advisory lock is held until the transaction ends; another tick skips the update meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from headway.core.monitoring.alert_state import AlertChange, AlertPhase, AlertState, next_states
from headway.core.monitoring.alerts import Alert, Severity
from headway.core.monitoring.messages import Message
from headway.core.monitoring.rules import BY_NAME
from headway.store.monitoring.outbox import post, withdraw
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

# Alerts that ended longer ago are no longer relevant.
REMEMBERED = timedelta(days=1)
ALONE = "SELECT pg_try_advisory_xact_lock(hashtextextended('headway watch', 0))"
LOAD = """
SELECT name, subject, severity, sentence, link, count, seller, since, well_since, fired_at,
  resolved_at, repeats
FROM alert_states WHERE resolved_at IS NULL OR resolved_at > %(after)s ORDER BY name, subject
"""
SAVE = """
INSERT INTO alert_states (name, subject, severity, sentence, link, count, seller, since, well_since,
  fired_at, resolved_at, repeats)
VALUES (%(name)s, %(subject)s, %(severity)s, %(sentence)s, %(link)s, %(count)s, %(seller)s,
  %(since)s, %(well_since)s, %(fired_at)s, %(resolved_at)s, %(repeats)s)
ON CONFLICT (name, subject) DO UPDATE SET severity = excluded.severity,
  sentence = excluded.sentence, link = excluded.link, count = excluded.count,
  seller = excluded.seller, since = excluded.since, well_since = excluded.well_since,
  fired_at = excluded.fired_at, resolved_at = excluded.resolved_at,
  repeats = excluded.repeats
"""
DROP = "DELETE FROM alert_states WHERE name = %(name)s AND subject = %(subject)s"
FORGET = "DELETE FROM alert_states WHERE resolved_at < %(before)s"
# The seller of what concerns everybody is ''.
ADD_EVENT = """
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value, actor, created_at)
VALUES (%(seller)s, %(now)s, %(kind)s, %(value)s, 'watch', %(now)s)
"""
Write = Callable[[AlertChange], Message | None]


class AlertStates(Queries):
    """Table `alert_states`."""

    def update(
        self, alerts: Sequence[Alert], now: datetime, *, write: Write = lambda _change: None
    ) -> Sequence[AlertChange] | None:
        """Update the states; return the changes, or None if another process is updating them.

        States, events and the messages that `write` returns are stored in one transaction.
        """
        with guarded(), self._pool.connection() as connection, connection.transaction():
            if connection.execute(ALONE).fetchone() != (True,):
                return None
            states = _load(connection, now)
            decision = next_states(states, alerts, now)
            before = {state.key: state for state in states}
            for state in decision.kept:
                if before.get(state.key) != state:
                    connection.execute(SAVE, _values(state))
            for name, subject in decision.dropped:
                connection.execute(DROP, {"name": name, "subject": subject})
            for change in decision.changes:
                _log_change(connection, change, now)
                _queue_message(connection, change, write)
        return decision.changes

    def all(self, now: datetime) -> list[AlertState]:
        """Return alerts that are firing, pending, or ended within the last day."""
        with guarded(), self._pool.connection() as connection:
            return _load(connection, now)

    def forget(self, before: datetime) -> int:
        """Remove what was over before that instant; return how many."""
        return self._write(FORGET, {"before": before})


def _load(connection: Connection[Any], now: datetime) -> list[AlertState]:
    states = read_as(connection, _state, LOAD, {"after": now - REMEMBERED})
    # A rule that a later release removed leaves a row that no rule updates.
    return [state for state in states if state.alert.name in BY_NAME]


def _state(
    *,
    severity: str,
    since: datetime,
    well_since: datetime | None,
    fired_at: datetime | None,
    resolved_at: datetime | None,
    repeats: int,
    **alert: Any,  # noqa: ANN401 - the other columns
) -> AlertState:
    return AlertState(
        alert=Alert(severity=Severity(severity), since=since, **alert),
        since=since,
        clear_since=well_since,
        fired_at=fired_at,
        resolved_at=resolved_at,
        repeats=repeats,
    )


def _values(state: AlertState) -> dict[str, Any]:
    instants = {"fired_at": state.fired_at, "resolved_at": state.resolved_at}
    states = {"since": state.since, "well_since": state.clear_since, "repeats": state.repeats}
    return asdict(state.alert) | instants | states


def _log_change(connection: Connection[Any], change: AlertChange, now: datetime) -> None:
    alert = change.state.alert
    details = {
        "alert": alert.name,
        "subject": alert.subject,
        "severity": alert.severity.value,
        "text": alert.sentence,
    }
    kind = "alert_resolved" if change.phase is AlertPhase.RESOLVED else "alert_fired"
    values = {"seller": alert.seller or "", "now": now, "kind": kind, "value": Jsonb(details)}
    connection.execute(ADD_EVENT, values)


def _queue_message(connection: Connection[Any], change: AlertChange, write: Write) -> None:
    message = write(change)
    if message is None:
        return
    # An alert that ended before its message was sent needs no two messages in the morning.
    if change.phase is AlertPhase.RESOLVED and withdraw(connection, message.begins_with):
        return
    post(connection, message)
