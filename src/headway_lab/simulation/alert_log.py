"""What the watch told in a run: what fired, turned critical and was over, and when."""

from dataclasses import dataclass
from typing import Any

from headway.clock import Clock
from headway.core.monitoring.alert_state import AlertPhase, Key, News
from headway.core.monitoring.rules import Severity

INSTANTS = {
    AlertPhase.FIRED: "fired_at_min",
    AlertPhase.WORSE: "worse_at_min",
    AlertPhase.RESOLVED: "resolved_at_min",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FiredAlert:
    """One word of the watch, and when it was told."""

    at_s: float
    word: AlertPhase
    name: str
    subject: str
    severity: Severity


class AlertLog:
    """Listens to the watch of a run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.told: list[FiredAlert] = []

    def hear(self, news: News) -> None:
        """Take a word."""
        alert = news.state.alert
        told = FiredAlert(
            at_s=self._clock.monotonic(),
            word=news.word,
            name=alert.name,
            subject=alert.subject,
            severity=alert.severity,
        )
        self.told.append(told)

    def figures(self) -> list[dict[str, Any]]:
        """Return each alert that fired, in that order: an instant that did not come is None."""
        alerts: list[dict[str, Any]] = []
        standing: dict[Key, dict[str, Any]] = {}
        for each in self.told:
            key = (each.name, each.subject)
            if each.word is AlertPhase.FIRED:
                alert = {"name": each.name, "subject": each.subject, "severity": ""}
                standing[key] = alert | dict.fromkeys(INSTANTS.values())
                alerts.append(standing[key])
            standing[key]["severity"] = each.severity.value
            standing[key][INSTANTS[each.word]] = round(each.at_s / 60, 1)
        return alerts
