"""Metrics as Prometheus reads them, in registries of our own.

Only cheap, bounded metrics: no label names a part or a seller. Gauges are set from the database at
each scrape; counters count what this process did itself.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    start_http_server,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from headway.core.catalog.listings import SellerId
from headway.core.monitoring.calls import ANSWERED, UNUSED, CallRecord
from headway.errors import ConfigError
from headway.observe.logs import forget_call, name_call, name_failure

if TYPE_CHECKING:
    from headway.observe.traces import Traces

CONTENT_TYPE = CONTENT_TYPE_LATEST
PREFIX = "headway_"
# The label of a route or method that we do not know, whatever its name.
UNKNOWN = "unknown"
WAITS_S = (0.1, 0.5, 1, 2, 5, 10, 20, 30, 45, 60, 90, 120, 300)
CALLS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


HEAD = """# Metrics

Written by `headway api --metrics`. No label names a part or a seller: there may be millions, and
metrics are read by people who may not read everything.

- `/metrics` of `headway run`, `headway demo` and `headway api` shows all of this. It needs a key
  that may oversee (`headway key create NAME --role reader`), or `HEADWAY_METRICS_OPEN`.
- `headway worker` shows its own deeds, the counters and histograms, on `HEADWAY_METRICS_PORT`; on
  its own host alone unless `HEADWAY_METRICS_HOST` says more. The gauges come from the database, and
  any one `headway api` tells them for all.
- Gauges are the same from every process that tells them: take the `max`, never the sum. Of counters
  take the `sum`; they start at zero with the process, as `rate` expects.
- A gauge that cannot be known is `NaN`, all of them while the database is down. In a demo, seconds
  are those of its clock.
- `ended` is `answered`, or how the call failed: `failed` (5xx), `timed_out`, `unsent`,
  `unreadable`, `throttled`, `unauthorized`, `refused`, `app_refused`, `bug`. `verb` is `fetch`,
  `push`, `pull`, or `connect` for a seller who connects a shop.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The description of a metric, and its labels."""

    says: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _spec(says: str, *labels: str, buckets: tuple[float, ...] = ()) -> Spec:
    return Spec(says=says, labels=labels, buckets=buckets)


GAUGES: Mapping[str, Spec] = {
    "database_up": _spec("Whether the database answered this scrape."),
    "supplier_up": _spec("Whether the supplier is believed to answer."),
    "supplier_calls_day": _spec("Calls to the supplier in the last 24 h."),
    "supplier_calls_day_limit": _spec("Calls that its limit allows in 24 h: the budget."),
    "supplier_calls_minute": _spec("Calls to the supplier in the last minute."),
    "fill_ratio": _spec("Seats used of seats paid for, in the last 24 h."),
    "next_call_seconds": _spec("Seconds until the next call leaves."),
    "listings": _spec("Listings by how they stand.", "state"),
    "listing_age_listings": _spec(
        "Listings by the age of their last good read, in hours.", "hours"
    ),
    "oldest_read_seconds": _spec("Age of the oldest good read of a listing that does not fail."),
    "fresh_ratio": _spec(
        "Share of a tier's listings that were read within a day, at the last sample.", "tier"
    ),
    "promise_kept_ratio": _spec(
        "Share of a tier's listings younger than promised, at the last sample.", "tier"
    ),
    "changes_waiting": _spec(
        "Listings whose shop does not show yet what we know: the staleness that can be seen."
    ),
    "pushes_day": _spec("Changes written to shops in the last 24 h."),
    "push_lag_seconds": _spec("From seen to written, in the last 24 h.", "quantile"),
    "changes_held": _spec("Changes that wait for a person."),
    "failures": _spec("Current failures, by what caused them.", "blame"),
    "jobs": _spec("Jobs of accounts by how they stand.", "status"),
    "jobs_due": _spec("Jobs that are due.", "platform", "kind", "tier"),
    "jobs_overdue": _spec(
        "Jobs that have been due for as long as their interval.", "platform", "kind", "tier"
    ),
    "job_delay_seconds": _spec(
        "For how long the job that waits longest has been due.", "platform", "kind", "tier"
    ),
    "job_promise_kept_ratio": _spec(
        "Share of the jobs that are not overdue.", "platform", "kind", "tier"
    ),
    "accounts_disconnected": _spec(
        "Accounts that wait to be connected again, though nobody asked for it."
    ),
    "sellers_at_quota": _spec("Sellers whose month's orders are used up."),
    "quota_ratio": _spec("Share of a platform's day that is used or reserved.", "platform"),
    "permit_delay_seconds": _spec("How much longer the next permit takes than the pace explains."),
    "tick_age_seconds": _spec("Seconds since the last round of the housekeeping."),
    "webhook_endpoints": _spec("Endpoints that events are sent to, by how they stand.", "status"),
    "webhook_events_waiting": _spec("Events that wait to be sent to an endpoint."),
    "webhook_oldest_seconds": _spec(
        "Age of the oldest event that waits for an endpoint which is not disabled."
    ),
    "hour": _spec(
        "The last hour: calls and reads, failed ones, and what is overdue since.", "what"
    ),
    "trouble": _spec("What stands wrong, counted by what it is.", "what"),
    "promise_burn_fast": _spec("How fast a tier's promise is broken, over 15 min and 1 h.", "tier"),
    "promise_burn_slow": _spec("How fast a tier's promise is broken, over 1 h and 6 h.", "tier"),
    "alerts": _spec("What is wrong now, by how bad it is.", "severity"),
}
COUNTERS: Mapping[str, Spec] = {
    "calls": _spec("Calls that this process made, by how they ended.", "provider", "verb", "ended"),
    "seats_used": _spec("Seats taken in this process's calls to the supplier."),
    "seats_paid": _spec("Seats that those calls had."),
    "leases_rescued": _spec("Leases that ran out and were given back, by what they held.", "what"),
    "records_expired": _spec("Records deleted because they are too old, by kind.", "kind"),
    "http_requests": _spec("Requests by route and status.", "route", "method", "status"),
}
HISTOGRAMS: Mapping[str, Spec] = {
    "permit_wait_seconds": _spec(
        "From asking for a permit to its begin.", "provider", "verb", buckets=WAITS_S
    ),
    "call_seconds": _spec(
        "From a permit's begin to the call's end.", "provider", "verb", buckets=CALLS_S
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValues:
    """The values from the database at one scrape: plain numbers, and numbers by label."""

    plain: Mapping[str, float] = field(default_factory=dict)
    by_label: Mapping[str, Mapping[str, float] | Mapping[tuple[str, ...], float]] = field(
        default_factory=dict
    )


class Metrics:
    """The metrics of one process: gauges from the database, and in `own` what it did itself."""

    def __init__(self) -> None:
        self._gauge_registry, self.own = CollectorRegistry(), CollectorRegistry()
        self._lock = Lock()
        self._gauges = {
            name: Gauge(PREFIX + name, spec.says, spec.labels, registry=self._gauge_registry)
            for name, spec in GAUGES.items()
        }
        self._counters = {
            name: Counter(PREFIX + name, spec.says, spec.labels, registry=self.own)
            for name, spec in COUNTERS.items()
        }
        self._spans = {
            name: Histogram(
                PREFIX + name, spec.says, spec.labels, registry=self.own, buckets=spec.buckets
            )
            for name, spec in HISTOGRAMS.items()
        }

    def count_request(self, route: str | None, method: str, status: int) -> None:
        """Count one request; a route is a pattern, never the requested path."""
        is_known = method in {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}
        labels = (route or UNKNOWN, method if is_known else UNKNOWN, status)
        self._counters["http_requests"].labels(*labels).inc()

    def count_call(self, call: CallRecord) -> None:
        """Count one call; a permit that was not used was waited for all the same."""
        labels = (call.provider, call.verb)
        self._spans["permit_wait_seconds"].labels(*labels).observe(call.waited_s)
        if call.ended == UNUSED:
            return
        self._counters["calls"].labels(*labels, call.ended).inc()
        self._spans["call_seconds"].labels(*labels).observe(call.took_s)
        self._counters["seats_used"].inc(call.seats_used if call.seats_paid else 0)
        self._counters["seats_paid"].inc(call.seats_paid)

    def count_rescued(self, what: str, count: int) -> None:
        """Count leases that were given back."""
        self._counters["leases_rescued"].labels(what).inc(count)

    def count_expired(self, kind: str, count: int) -> None:
        """Count records that were deleted because they are too old."""
        self._counters["records_expired"].labels(kind).inc(count)

    def render(self, figures: MetricValues | None) -> bytes:
        """Return all metrics; without figures the database is reported as down."""
        with self._lock:
            for name, gauge in self._gauges.items():
                if GAUGES[name].labels:
                    gauge.clear()
                    for label, value in (figures or MetricValues()).by_label.get(name, {}).items():
                        labels = (label,) if isinstance(label, str) else label
                        gauge.labels(*labels).set(value)
                else:
                    gauge.set((figures or MetricValues()).plain.get(name, float("nan")))
            self._gauges["database_up"].set(0 if figures is None else 1)
            return generate_latest(self._gauge_registry) + generate_latest(self.own)


def reference() -> str:
    """Return the page of metrics."""
    parts = [
        ("Gauges: how all is", GAUGES, ""),
        ("Counters: what one process did", COUNTERS, "_total"),
        ("Histograms: how long it took one process", HISTOGRAMS, ""),
    ]
    lines = [HEAD]
    for title, specs, ending in parts:
        lines += [f"## {title}", "", "| metric | labels | says |", "|---|---|---|"]
        lines += [_row(name + ending, spec) for name, spec in specs.items()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(name: str, spec: Spec) -> str:
    labels = ", ".join(f"`{label}`" for label in spec.labels)
    return f"| `{PREFIX}{name}` | {labels} | {spec.says} |"


@contextmanager
def exported(metrics: Metrics, host: str, port: int) -> Iterator[str]:
    """Serve until the end; yield the address. Raises ConfigError where it cannot be had."""
    try:
        server, thread = start_http_server(port, addr=host, registry=metrics.own)
    except OSError as error:
        raise ConfigError(
            f"no metrics on {host}:{port}: {error.strerror}; correct HEADWAY_METRICS_PORT or"
            " HEADWAY_METRICS_HOST"
        ) from None
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class ProcessMetrics:
    """Counts calls, API requests and rescued leases."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        # A process that stays and is to be traced sets this when it starts.
        self.traces: Traces | None = None

    def begun(self, call_id: str, seller: SellerId | None) -> None:
        """Name the call in what this thread logs."""
        name_call(call_id, seller)

    def ended(self, call: CallRecord) -> None:
        """Count and trace a call; one that was not made is not named any more."""
        self.metrics.count_call(call)
        if call.ended == UNUSED:
            forget_call()
            return
        if call.ended != ANSWERED:
            name_failure(call.ended)
        if self.traces is not None:
            self.traces.call(call)

    def answered(
        self, route: str | None, method: str, status: int, *, began_at: datetime, took_s: float
    ) -> None:
        """Count and trace a request to the API."""
        self.metrics.count_request(route, method, status)
        if self.traces is not None:
            self.traces.request(route or UNKNOWN, method, status, began_at=began_at, took_s=took_s)

    def rescued(self, what: str, count: int) -> None:
        """Count leases that ran out."""
        self.metrics.count_rescued(what, count)

    def expired(self, kind: str, count: int) -> None:
        """Count records that were deleted because they are too old."""
        self.metrics.count_expired(kind, count)
