"""The rules of the watch as rules for Prometheus, from the same table.

What is a consequence there is left out here while its cause stands, and as long after.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from headway.core.monitoring.rules import LIMITS, RULES, Rule

HEAD = """\
# Written by `headway alerts --prometheus-rules`, from the table of rules; do not edit.
# keep_firing_for needs Prometheus 2.42 or newer.
groups:
  - name: headway
    interval: 1m
    rules:
"""
# That something stands, or stood within a span.
STOOD = {
    "supplier_down": "min_over_time(headway_supplier_up[{span}]) == 0",
    "paused": 'max_over_time(headway_trouble{{what="paused"}}[{span}]) > 0',
    "promise_burning": "max_over_time(headway_promise_burn_fast[{span}]) >= {limit:g}",
}


def prometheus_rules(limits: Mapping[str, float] = LIMITS) -> str:
    """Return the file, with these numbers."""
    return HEAD + "".join(line for rule in RULES for line in _lines(rule, limits))


def alert_name(name: str) -> str:
    """Return the name of a rule as Prometheus writes names."""
    return "Headway" + "".join(word.capitalize() for word in name.split("_"))


def _lines(rule: Rule, limits: Mapping[str, float]) -> Iterator[str]:
    limit = limits.get(rule.name)
    yield f"      - alert: {alert_name(rule.name)}\n"
    yield f"        expr: {_quoted(_expression(rule, limits))}\n"
    yield f"        for: {_span(rule.after)}\n"
    yield f"        keep_firing_for: {_span(rule.over)}\n"
    yield f"        labels: {{severity: {rule.severity}}}\n"
    yield "        annotations:\n"
    yield f"          summary: {_quoted(rule.what)}\n"
    if limit is not None:
        yield f"          limit: {_quoted(f'{limit:g} {rule.unit}')}\n"
    yield f"          runbook: /runbook/{rule.name}\n"


def _expression(rule: Rule, limits: Mapping[str, float]) -> str:
    limit = limits.get(rule.name, 0.0)
    query = rule.query.format(limit=f"{limit:g}")
    if not rule.hushed_by:
        return query
    span = _span(max(rule.linger, timedelta(minutes=1)))
    causes = [STOOD[each].format(span=span, limit=limits.get(each, 0.0)) for each in rule.hushed_by]
    return f"({query}) unless on () ({' or '.join(causes)})"


def _span(span: timedelta) -> str:
    return f"{span // timedelta(minutes=1)}m"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
