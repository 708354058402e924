"""The dashboard uses only existing metrics and labels, and Prometheus accepts its queries."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.monitoring.prometheus import Programs

from headway.core.monitoring.alerts import Severity
from headway.observe.metrics import COUNTERS, GAUGES, HISTOGRAMS, PREFIX

FILE = Path(__file__).parents[2] / "deploy/grafana/headway.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
# Labels that Prometheus adds: the target, and the bound of a bucket.
ADDED = {"job", "instance", "le"}
WIDTH = 24


def known() -> dict[str, set[str]]:
    """Return every metric that a query may use, with its labels."""
    names = {PREFIX + name: metric.labels for name, metric in GAUGES.items()}
    names |= {f"{PREFIX}{name}_total": metric.labels for name, metric in COUNTERS.items()}
    for name, metric in HISTOGRAMS.items():
        names |= {f"{PREFIX}{name}_{part}": metric.labels for part in ("bucket", "sum", "count")}
    return {name: {*labels, *ADDED} for name, labels in names.items()}


def test_every_metric_and_label_of_a_query_exists() -> None:
    names = known()
    for expression in EXPRESSIONS:
        metrics_used = re.findall(rf"{PREFIX}\w+", expression)
        assert metrics_used, expression
        assert not set(metrics_used) - set(names), expression
        groups = re.findall(r"by \(([^)]*)\)", expression)
        matched = re.findall(r'(\w+)(?:=|!=|=~|!~)"', expression)
        labels = {label.strip() for group in groups for label in group.split(",")} | set(matched)
        for name in metrics_used:
            assert labels <= names[name], f"{expression}: {labels - names[name]}"


def test_every_legend_uses_a_label_of_its_query() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            kept = ",".join(re.findall(r"by \(([^)]*)\)", target["expr"]))
            assert named <= {label.strip() for label in kept.split(",")}, panel["title"]


def test_every_metric_of_the_database_and_of_calls_is_on_the_dashboard() -> None:
    queries = " ".join(EXPRESSIONS)
    assert not [name for name in GAUGES if f"{PREFIX}{name}{{" not in queries]
    counted = {*COUNTERS, *HISTOGRAMS}
    assert not [name for name in counted if f"{PREFIX}{name}_" not in queries]
    assert f'severity="{Severity.CRITICAL}"' in queries


def test_panels_do_not_overlap_and_have_their_own_numbers() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + line)
            for column in range(place["w"])
            for line in range(place["h"])
        }
        assert place["x"] + place["w"] <= WIDTH
        assert not cells & taken, panel["title"]
        taken |= cells
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_it_names_no_host_and_no_data_source() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert not re.search(r"https?://|localhost|127\.0\.0\.1", text)
    sources = {panel["datasource"]["uid"] for panel in PANELS}
    assert sources == {"${source}"}


def test_prometheus_accepts_every_expression(programs: Programs, tmp_path: Path) -> None:
    expressions = [
        expression.replace("$__rate_interval", "5m").replace("$job", ".*")
        for expression in EXPRESSIONS
    ]
    rules = [
        {"record": f"test:{n}", "expr": expression} for n, expression in enumerate(expressions)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        [programs.promtool, "check", "rules", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
