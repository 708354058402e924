"""Metrics as Prometheus reads them, in a registry of our own.

Only what is cheap and bounded: no label names a part or a seller. What the database knows is given
at each scrape, as gauges; only what this process did itself is counted here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
# What was asked for and is nowhere, whatever it was called.
UNKNOWN = "unknown"
# Name → what it says, and the label that divides it, if any.
GAUGES: Mapping[str, tuple[str, str | None]] = {
    "database_up": ("Whether the database answered this scrape.", None),
    "supplier_up": ("Whether the supplier is believed to answer.", None),
    "supplier_calls_day": ("Calls to the supplier in the last 24 h.", None),
    "supplier_calls_day_limit": ("Calls that its limit allows in 24 h.", None),
    "supplier_calls_minute": ("Calls to the supplier in the last minute.", None),
    "fill_ratio": ("Seats used of seats paid for, in the last 24 h.", None),
    "next_call_seconds": ("Seconds until the next call leaves.", None),
    "listings": ("Listings by how they stand.", "state"),
    "listing_age_listings": ("Listings by the age of their last good read, in hours.", "hours"),
    "oldest_read_seconds": ("Age of the oldest good read of a listing that does not fail.", None),
    "pushes_day": ("Changes written to shops in the last 24 h.", None),
    "push_lag_seconds": ("From seen to written, in the last 24 h.", "quantile"),
    "changes_held": ("Changes that wait for a person.", None),
    "failures": ("Failures that stand, by whom they are blamed on.", "blame"),
    "jobs": ("Jobs of accounts by how they stand.", "status"),
    "accounts_disconnected": ("Accounts that wait to be connected again, of those shown.", None),
    "quota_ratio": ("Share of a platform's day that is used or reserved.", "platform"),
    "alerts": ("What is wrong now, by how bad it is.", "severity"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the database knows at one scrape: plain numbers, and numbers by label."""

    plain: Mapping[str, float] = field(default_factory=dict)
    by_label: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._lock = Lock()
        self._gauges = {
            name: Gauge(
                f"headway_{name}",
                help_,
                () if label is None else (label,),
                registry=self._registry,
            )
            for name, (help_, label) in GAUGES.items()
        }
        self._requests = Counter(
            "headway_http_requests",
            "Requests by route and status.",
            ("route", "method", "status"),
            registry=self._registry,
        )

    def count_request(self, route: str | None, method: str, status: int) -> None:
        """Count one request; a route is a pattern, never what somebody typed."""
        is_known = method in {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}
        self._requests.labels(route or UNKNOWN, method if is_known else UNKNOWN, status).inc()

    def render(self, figures: Figures | None) -> bytes:
        """Write everything; without figures the database is down, and is said to be."""
        with self._lock:
            for name, gauge in self._gauges.items():
                if GAUGES[name][1] is not None:
                    gauge.clear()
                    for label, value in (figures or Figures()).by_label.get(name, {}).items():
                        gauge.labels(label).set(value)
                else:
                    gauge.set((figures or Figures()).plain.get(name, float("nan")))
            self._gauges["database_up"].set(0 if figures is None else 1)
            return generate_latest(self._registry)
