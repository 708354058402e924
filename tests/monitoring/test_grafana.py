"""The dashboard asks only for metrics and labels that are there, and Prometheus understands it."""

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
PANELS = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
# What Prometheus itself adds: who was asked, and a bucket's edge.
ADDED = {"job", "instance", "le"}
WIDTH = 24


def known() -> dict[str, set[str]]:
    """Return every name that a query may use, with its labels."""
    names = {PREFIX + name: each.labels for name, each in GAUGES.items()}
    names |= {f"{PREFIX}{name}_total": each.labels for name, each in COUNTERS.items()}
    for name, each in HISTOGRAMS.items():
        names |= {f"{PREFIX}{name}_{part}": each.labels for part in ("bucket", "sum", "count")}
    return {name: {*labels, *ADDED} for name, labels in names.items()}


def test_every_metric_and_label_that_it_asks_for_is_there() -> None:
    names = known()
    for expression in EXPRESSIONS:
        asked = re.findall(rf"{PREFIX}\w+", expression)
        assert asked, expression
        assert not set(asked) - set(names), expression
        groups = re.findall(r"by \(([^)]*)\)", expression)
        matched = re.findall(r'(\w+)(?:=|!=|=~|!~)"', expression)
        labels = {each.strip() for group in groups for each in group.split(",")} | set(matched)
        for name in asked:
            assert labels <= names[name], f"{expression}: {labels - names[name]}"


def test_every_legend_names_a_label_that_its_query_keeps() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            kept = ",".join(re.findall(r"by \(([^)]*)\)", target["expr"]))
            assert named <= {each.strip() for each in kept.split(",")}, panel["title"]


def test_every_metric_of_the_database_and_of_calls_is_shown_somewhere() -> None:
    said = " ".join(EXPRESSIONS)
    assert not [name for name in GAUGES if f"{PREFIX}{name}{{" not in said]
    counted = {*COUNTERS, *HISTOGRAMS}
    assert not [name for name in counted if f"{PREFIX}{name}_" not in said]
    assert f'severity="{Severity.CRITICAL}"' in said


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
    numbers = [each["id"] for each in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_it_names_no_host_and_no_data_source_of_ours() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert not re.search(r"https?://|localhost|127\.0\.0\.1", text)
    sources = {each["datasource"]["uid"] for each in PANELS}
    assert sources == {"${source}"}


def test_prometheus_understands_every_expression(programs: Programs, tmp_path: Path) -> None:
    spoken = [each.replace("$__rate_interval", "5m").replace("$job", ".*") for each in EXPRESSIONS]
    rules = [{"record": f"test:{n}", "expr": each} for n, each in enumerate(spoken)]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        [programs.promtool, "check", "rules", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
