"""All alert rules, and the alerts that they raise now.

Thresholds are the design documents' where they have one. Settings, the runbook's index, the values
of `headway_trouble` and the rules for Prometheus are made from this table.
"""

from collections.abc import Mapping

from headway.core.monitoring import (
    account_rules,
    housekeeping_rules,
    listing_rules,
    privacy_rules,
    supplier_rules,
    webhook_rules,
)
from headway.core.monitoring.alerts import Alert, AlertRule, Severity
from headway.core.monitoring.metrics import AlertMetrics

RULES: tuple[AlertRule, ...] = tuple(
    value
    for module in (
        supplier_rules,
        listing_rules,
        account_rules,
        privacy_rules,
        webhook_rules,
        housekeeping_rules,
    )
    for value in vars(module).values()
    if isinstance(value, AlertRule)
)
BY_NAME: Mapping[str, AlertRule] = {rule.name: rule for rule in RULES}
THRESHOLDS: Mapping[str, float] = {
    rule.name: rule.threshold for rule in RULES if rule.threshold is not None
}
RANKS = list(Severity)


def current_alerts(
    metrics: AlertMetrics, thresholds: Mapping[str, float] = THRESHOLDS
) -> list[Alert]:
    """Return the alerts, the most severe first, then those that have lasted longest."""
    alerts = [
        alert for rule in RULES for alert in rule.alerts(metrics, thresholds.get(rule.name, 0.0))
    ]
    return sorted(
        alerts,
        key=lambda alert: (RANKS.index(alert.severity), alert.since or metrics.now, alert.name),
    )


def measured(metrics: AlertMetrics) -> dict[str, float]:
    """Return the values that rules declare for themselves, by label of `headway_trouble`."""
    return {label: measure(metrics) for rule in RULES for label, measure in rule.measures.items()}
