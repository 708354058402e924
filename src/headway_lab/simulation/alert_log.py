"""The alerts of a run: which fired, turned critical and were resolved, and when."""

from dataclasses import dataclass
from typing import Any

from headway.clock import Clock
from headway.core.monitoring.alert_state import AlertChange, AlertKey, AlertPhase
from headway.core.monitoring.alerts import Severity

MOMENTS = {
    AlertPhase.FIRED: "fired_at_min",
    AlertPhase.WORSE: "worse_at_min",
    AlertPhase.RESOLVED: "resolved_at_min",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FiredAlert:
    """One change of an alert's phase, and when it happened."""

    at_s: float
    phase: AlertPhase
    name: str
    subject: str
    severity: Severity


class AlertLog:
    """Records the alerts of a run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.entries: list[FiredAlert] = []

    def record(self, change: AlertChange) -> None:
        """Record a change."""
        alert = change.state.alert
        entry = FiredAlert(
            at_s=self._clock.monotonic(),
            phase=change.phase,
            name=alert.name,
            subject=alert.subject,
            severity=alert.severity,
        )
        self.entries.append(entry)

    def figures(self) -> list[dict[str, Any]]:
        """Return the alerts that fired, in order; a moment that did not come is None."""
        alerts: list[dict[str, Any]] = []
        standing: dict[AlertKey, dict[str, Any]] = {}
        for entry in self.entries:
            key = (entry.name, entry.subject)
            if entry.phase is AlertPhase.FIRED:
                alert = {"name": entry.name, "subject": entry.subject, "severity": ""}
                standing[key] = alert | dict.fromkeys(MOMENTS.values())
                alerts.append(standing[key])
            standing[key]["severity"] = entry.severity.value
            standing[key][MOMENTS[entry.phase]] = round(entry.at_s / 60, 1)
        return alerts
