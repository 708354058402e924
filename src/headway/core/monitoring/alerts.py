"""Alerts, and the rules that raise them.

A rule is one declaration: what it measures, from which threshold on, for how long, the message, and
the same condition for Prometheus. The declarations are in `supplier_rules`, `listing_rules`,
`account_rules` and `housekeeping_rules`; `rules` collects them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from headway.core.catalog.listings import SellerId
from headway.core.monitoring.metrics import AlertMetrics

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
# How many culprits an alert names.
NAMES_SHOWN = 5


class Severity(StrEnum):
    """The severity of an alert, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One violation that a rule's check found; without a severity it has that of its rule.

    `subject` distinguishes several findings of one rule: a shop, a tier, a pause. `under` is the
    subject of the finding that would explain this one if it exists: a shop's platform.
    """

    sentence: str
    """What is wrong, in a sentence. Example: `3 accounts are disconnected.`"""
    severity: Severity | None = None
    since: datetime | None = None
    """Since when it holds; null if that is unknown."""
    count: int = 1
    """How many things it is about."""
    seller: SellerId | None = None
    """The seller it concerns; null if it concerns no seller alone. Example: `acme`"""
    subject: str = ""
    """What it is about; empty if it is about everything. Example: `acme.myshopify.com`"""
    under: str = ""
    """The subject of the alert that would explain this one; empty if there is none.
    Example: `shopify`
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(Finding):
    """A finding with the name of its rule; `link` is the page where a person can act on it."""

    name: str
    """The rule's name. Example: `disconnected`"""
    severity: Severity
    """How bad it is."""
    link: str = "/"
    """The page where a person can act on it. Example: `/changes`"""
    runbook: str = field(init=False, default="")
    """The page of the runbook. Example: `/runbook/disconnected`"""

    def __post_init__(self) -> None:
        """Set the address of the page that explains what to do."""
        object.__setattr__(self, "runbook", f"/runbook/{self.name}")


Check = Callable[[AlertMetrics, float], Iterator[Finding]]
Measure = Callable[[AlertMetrics], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """One condition that raises alerts.

    `check` yields the findings beyond `threshold` (in `unit`; a deployment may choose another). An
    alert fires once the condition has held for `fires_after`, and resolves once it has not held for
    `resolves_after`. While a rule of `suppressed_by` fires, and `suppressed_for` after it, a new
    alert is its consequence and is not raised; the same is true of the subject it is `under`.

    `expression` is the condition in PromQL. `measures` are the values that only this rule needs:
    they are exported as `headway_trouble{what=…}`, and the expression defaults to the first of
    them. `recent` is the PromQL for "fired within {span}", for rules that suppress others.
    `severity` is the worst that the rule raises.
    """

    name: str
    summary: str
    severity: Severity
    check: Check
    link: str = "/"
    threshold: float | None = None
    unit: str = ""
    fires_after: timedelta = 2 * MINUTE
    resolves_after: timedelta = 3 * MINUTE
    suppressed_by: tuple[str, ...] = ()
    suppressed_for: timedelta = timedelta(0)
    measures: Mapping[str, Measure] = field(default_factory=dict)
    expression: str
    recent: str = ""

    def alerts(self, metrics: AlertMetrics, threshold: float) -> Iterator[Alert]:
        """Yield the alerts of this rule."""
        for finding in self.check(metrics, threshold):
            yield Alert(
                name=self.name,
                severity=finding.severity or self.severity,
                link=self.link,
                sentence=finding.sentence,
                since=finding.since,
                count=finding.count,
                seller=finding.seller,
                subject=finding.subject,
                under=finding.under,
            )

    @property
    def threshold_text(self) -> str:
        """The default threshold with its unit."""
        return "" if self.threshold is None else f"{self.threshold:g} {self.unit}"


def alert_rule(
    summary: str,
    severity: Severity,
    *,
    link: str = "/",
    threshold: float | None = None,
    unit: str = "",
    fires_after: timedelta = 2 * MINUTE,
    resolves_after: timedelta = 3 * MINUTE,
    suppressed_by: tuple[str, ...] = (),
    suppressed_for: timedelta = timedelta(0),
    measures: Mapping[str, Measure] | None = None,
    expression: str = "",
    recent: str = "",
) -> Callable[[Check], AlertRule]:
    """Return a decorator that makes a check a rule named like the function."""
    values = measures or {}

    def declare(check: Check) -> AlertRule:
        return AlertRule(
            name=check.__name__,
            summary=summary,
            severity=severity,
            check=check,
            link=link,
            threshold=threshold,
            unit=unit,
            fires_after=fires_after,
            resolves_after=resolves_after,
            suppressed_by=suppressed_by,
            suppressed_for=suppressed_for,
            measures=values,
            expression=expression or f'headway_trouble{{{{what="{next(iter(values))}"}}}} > 0',
            recent=recent,
        )

    return declare


def warning_or_critical(*, is_critical: bool) -> Severity:
    """Return the severity of a rule that has a second, worse threshold."""
    return Severity.CRITICAL if is_critical else Severity.WARNING


def listed(names: Sequence[str], count: int) -> str:
    """Return " (a, b and 3 more)", or nothing if no name is known."""
    shown = [name for name in names if name][:NAMES_SHOWN]
    if not shown:
        return ""
    more = f" and {count - len(shown):,} more" if count > len(shown) else ""
    return f" ({', '.join(shown)}{more})"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return "1 part is" or "3 parts are"."""
    return f"1 {noun} is" if count == 1 else f"{count:,} {plural or noun + 's'} are"
