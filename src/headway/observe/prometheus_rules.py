"""The alert rules as Prometheus alerting rules, and as the index of the runbook.

A rule that another one suppresses carries that condition in its expression.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from headway.core.monitoring.alerts import AlertRule
from headway.core.monitoring.rules import BY_NAME, RULES, THRESHOLDS

HEAD = """\
# Written by `headway alerts --prometheus-rules`, from the table of rules; do not edit.
# keep_firing_for needs Prometheus 2.42 or newer.
groups:
  - name: headway
    interval: 1m
    rules:
"""
INDEX_HEAD = """\
# Runbook

Written by `headway alerts --runbook`; do not edit. There is one page for each alert: what it means,
what to check, what to do, and when it resolves. Headway serves the pages at `/runbook/NAME`, and
every alert links there: in a message, on the page, in `GET /api/alerts` and in `headway alerts`.
[Get notified of alerts](../how-to/alerts.md) says how messages are sent.

The thresholds are the defaults, from the design documents where they have one. `HEADWAY_ALERTS`
sets others, for instance `HEADWAY_ALERTS="overdue=500,error_share=0.1"`. The severity is the
highest that the alert reaches; a notice is shown on the page and never sent.

| alert | severity | threshold | meaning |
|---|---|---|---|
"""


def prometheus_rules(thresholds: Mapping[str, float] = THRESHOLDS) -> str:
    """Return the rules file for Prometheus with these thresholds."""
    return HEAD + "".join(line for rule in RULES for line in _lines(rule, thresholds))


def runbook_index() -> str:
    """Return the index page of the runbook."""
    return INDEX_HEAD + "".join(
        f"| [{rule.name}]({rule.name}.md) | {rule.severity} | {rule.threshold_text}"
        f" | {rule.summary} |\n"
        for rule in RULES
    )


def alert_name(name: str) -> str:
    """Return the name of a rule in the style of Prometheus."""
    return "Headway" + "".join(word.capitalize() for word in name.split("_"))


def _lines(rule: AlertRule, thresholds: Mapping[str, float]) -> Iterator[str]:
    threshold = thresholds.get(rule.name)
    yield f"      - alert: {alert_name(rule.name)}\n"
    yield f"        expr: {_quoted(_expression(rule, thresholds))}\n"
    yield f"        for: {_minutes(rule.fires_after)}\n"
    yield f"        keep_firing_for: {_minutes(rule.resolves_after)}\n"
    yield f"        labels: {{severity: {rule.severity}}}\n"
    yield "        annotations:\n"
    yield f"          summary: {_quoted(rule.summary)}\n"
    if threshold is not None:
        yield f"          limit: {_quoted(f'{threshold:g} {rule.unit}')}\n"
    yield f"          runbook: /runbook/{rule.name}\n"


def _expression(rule: AlertRule, thresholds: Mapping[str, float]) -> str:
    def fill(template: str, name: str, **values: str) -> str:
        return template.format(threshold=f"{thresholds.get(name, 0.0):g}", **values)

    expression = fill(rule.expression, rule.name)
    if not rule.suppressed_by:
        return expression
    span = _minutes(max(rule.suppressed_for, timedelta(minutes=1)))
    causes = [fill(BY_NAME[name].recent, name, span=span) for name in rule.suppressed_by]
    return f"({expression}) unless on () ({' or '.join(causes)})"


def _minutes(span: timedelta) -> str:
    return f"{span // timedelta(minutes=1)}m"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
