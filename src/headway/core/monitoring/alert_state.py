"""The state of each alert over time, and which of its changes people are notified of.

An alert fires once its condition has held without a break for as long as its rule requires, and
resolves once it has been clear for as long. In between, only a higher severity is a change.

One that fires again within a day of its end is flapping. Each time it must be clear four times as
long as before until it resolves, six hours at most: so it soon is one alert that stays open.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from headway.core.monitoring.alerts import Alert, Severity
from headway.core.monitoring.rules import BY_NAME, RANKS

AlertKey = tuple[str, str]
# An alert that fires again within this time of its end is flapping.
FLAPPING_WITHIN = timedelta(days=1)
FLAPPING_FACTOR, CLEAR_MAX = 4, timedelta(hours=6)
REPEATS_MAX = 10


class AlertPhase(StrEnum):
    """The kinds of change of an alert that people are notified of."""

    FIRED = "fired"
    WORSE = "worse"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """An alert that is pending, firing or resolved; `clear_since` is when its condition ended.

    `repeats` counts how often it fired again within a day of its end. While it is pending again,
    `fired_at` and `resolved_at` are still those of the last time.
    """

    alert: Alert
    since: datetime
    clear_since: datetime | None = None
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    repeats: int = 0

    @property
    def is_pending(self) -> bool:
        """Whether its condition holds, but not for long enough to fire, as far as is known."""
        return not self.is_firing and (self.resolved_at is None or self.since > self.resolved_at)

    @property
    def resolves_after(self) -> timedelta:
        """How long it must be clear until it resolves."""
        usual = BY_NAME[self.alert.name].resolves_after
        longer: timedelta = usual * FLAPPING_FACTOR**self.repeats
        return max(usual, min(CLEAR_MAX, longer))

    @property
    def key(self) -> AlertKey:
        """The name and subject, which identify an alert."""
        return (self.alert.name, self.alert.subject)

    @property
    def is_firing(self) -> bool:
        """Whether the alert has fired and not resolved."""
        return self.fired_at is not None and self.resolved_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChange:
    """A change of an alert that people are notified of."""

    phase: AlertPhase
    state: AlertState


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDecision:
    """The next states: those to store, those to delete, and the changes to send."""

    kept: tuple[AlertState, ...]
    dropped: tuple[AlertKey, ...]
    changes: tuple[AlertChange, ...]


def next_states(
    states: Sequence[AlertState], current: Sequence[Alert], now: datetime
) -> AlertDecision:
    """Return what follows from the current alerts; a notice is shown on the page and never sent."""
    known = {state.key: state for state in states}
    active = {
        (alert.name, alert.subject): alert for alert in current if alert.severity != Severity.NOTICE
    }
    suppressed = _suppressed(states, active.values(), now)
    kept: list[AlertState] = []
    dropped: list[AlertKey] = []
    changes: list[AlertChange] = []
    for key in sorted(known.keys() | active.keys()):
        state, alert = known.get(key), active.get(key)
        is_firing = state is not None and state.is_firing
        after: AlertState | None
        if alert is not None and (is_firing or key not in suppressed):
            after, phase = _raised(state, alert, now)
        elif state is not None:
            after, phase = _cleared(state, now)
        else:
            continue
        if after is None:
            dropped.append(key)
        else:
            kept.append(after)
        if after is not None and phase is not None:
            changes.append(AlertChange(phase=phase, state=after))
    return AlertDecision(kept=tuple(kept), dropped=tuple(dropped), changes=tuple(changes))


def _raised(
    state: AlertState | None, alert: Alert, now: datetime
) -> tuple[AlertState, AlertPhase | None]:
    if state is None or _is_forgotten(state, now):
        state = AlertState(alert=alert, since=now)
    elif not state.is_firing and not state.is_pending:
        state = replace(state, alert=alert, since=now)
    before = state.alert.severity
    is_worse = RANKS.index(alert.severity) < RANKS.index(before)
    # A firing alert keeps its highest severity: a value that swings around a threshold would
    # otherwise be sent each time.
    worst = alert.severity if is_worse else before
    updated = replace(alert, severity=worst if state.is_firing else alert.severity)
    state = replace(state, alert=updated, clear_since=None)
    if state.is_firing:
        return state, AlertPhase.WORSE if is_worse else None
    if now - state.since < BY_NAME[alert.name].fires_after:
        return state, None
    repeats = 0 if state.fired_at is None else min(REPEATS_MAX, state.repeats + 1)
    return replace(state, fired_at=now, resolved_at=None, repeats=repeats), AlertPhase.FIRED


def _cleared(state: AlertState, now: datetime) -> tuple[AlertState | None, AlertPhase | None]:
    if state.fired_at is None:
        return None, None
    if state.resolved_at is not None:
        return replace(state, since=min(state.since, state.resolved_at)), None
    clear_since = state.clear_since or now
    state = replace(state, clear_since=clear_since)
    if now - clear_since < state.resolves_after:
        return state, None
    return replace(state, resolved_at=now), AlertPhase.RESOLVED


def _is_forgotten(state: AlertState, now: datetime) -> bool:
    """Return True if it ended so long ago that it is no longer remembered."""
    is_over = not state.is_pending and state.resolved_at is not None
    return is_over and now - (state.resolved_at or now) > FLAPPING_WITHIN


def _suppressed(
    states: Sequence[AlertState], active: Iterable[Alert], now: datetime
) -> set[AlertKey]:
    """Return the alerts that do not fire now because a present or recent one explains them."""
    alerts = list(active)
    present = {(alert.name, alert.subject) for alert in alerts}
    present |= {state.key for state in states if state.is_firing}
    resolved = {state.key: state.resolved_at for state in states if state.resolved_at is not None}

    def explains(cause: AlertKey, effect: Alert) -> bool:
        after = BY_NAME[effect.name].suppressed_for
        return cause in present or (cause in resolved and now - resolved[cause] < after)

    causes = present | resolved.keys()
    return {
        (alert.name, alert.subject)
        for alert in alerts
        for cause in causes
        if cause[0] in BY_NAME[alert.name].suppressed_by
        or (alert.under and cause == (alert.name, alert.under))
        if explains(cause, alert)
    }
