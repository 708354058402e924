"""The metrics registry matches its page and has no label with a name of a seller or part."""

import re
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from headway.clock import SystemClock
from headway.core.monitoring.calls import UNUSED, CallRecord
from headway.errors import ConfigError
from headway.observe.metrics import (
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    Metrics,
    MetricValues,
    exported,
    reference,
)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/metrics.md"
NOBODY = re.compile(r"sku|seller|user|shop|account|part$|listing|job", re.IGNORECASE)


def call(ended: str = "answered", *, seats_used: int = 0, seats_paid: int = 0) -> CallRecord:
    return CallRecord(
        id="one",
        verb="fetch",
        provider="boeing",
        seller=None,
        begun_at=SystemClock().now(),
        waited_s=25.0,
        took_s=0.3,
        ended=ended,
        seats_used=seats_used,
        seats_paid=seats_paid,
    )


def test_the_page_of_metrics_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "regenerate it: headway api --metrics > docs/reference/metrics.md"
    )


def test_the_page_lists_exactly_the_metrics_that_are_rendered() -> None:
    rendered = set(re.findall(r"# TYPE (\w+)", Metrics().render(None).decode()))
    documented = set(re.findall(r"^\| `(\w+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {name for name in rendered if not name.endswith("_created")} == documented


def test_no_label_is_a_part_or_a_seller() -> None:
    specs = {**GAUGES, **COUNTERS, **HISTOGRAMS}
    labels = {label for spec in specs.values() for label in spec.labels}
    assert labels
    assert not [label for label in labels if NOBODY.search(label)]


def test_a_call_is_counted_by_outcome_and_an_unused_permit_only_by_its_wait() -> None:
    metrics = Metrics()
    metrics.count_call(call(seats_used=7, seats_paid=10))
    metrics.count_call(call("timed_out", seats_used=3, seats_paid=10))
    metrics.count_call(call(UNUSED))
    text = metrics.render(MetricValues()).decode()
    assert 'headway_calls_total{ended="answered",provider="boeing",verb="fetch"} 1.0' in text
    assert 'headway_calls_total{ended="timed_out",provider="boeing",verb="fetch"} 1.0' in text
    assert UNUSED not in text
    assert 'headway_call_seconds_count{provider="boeing",verb="fetch"} 2.0' in text
    waits = 'headway_permit_wait_seconds_bucket{le="%s",provider="boeing",verb="fetch"} %s'
    assert waits % ("20.0", "0.0") in text
    assert waits % ("30.0", "3.0") in text
    assert "headway_seats_used_total 10.0" in text
    assert "headway_seats_paid_total 20.0" in text


def test_without_a_database_its_metrics_are_missing_and_it_counts_as_down() -> None:
    text = Metrics().render(None).decode()
    assert "headway_database_up 0.0" in text
    assert "headway_changes_held NaN" in text


def test_a_worker_exports_its_own_metrics_and_none_of_the_database() -> None:
    metrics = Metrics()
    metrics.count_rescued("job", 2)
    with exported(metrics, "127.0.0.1", 0) as address:
        with urlopen(address) as answer:
            text = answer.read().decode()
        port = int(address.split(":")[2].split("/")[0])
        with pytest.raises(ConfigError, match="HEADWAY_METRICS_PORT"):
            exported(metrics, "127.0.0.1", port).__enter__()
    assert 'headway_leases_rescued_total{what="job"} 2.0' in text
    assert "headway_database_up" not in text
    with pytest.raises(URLError):
        urlopen(address)
