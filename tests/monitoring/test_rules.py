"""The Prometheus rules: generated from the table, and checked and tested by promtool."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.monitoring.prometheus import Programs
from tests.monitoring.prometheus_server import EXPORTED

from headway.core.monitoring.alerts import AlertRule
from headway.core.monitoring.rules import RULES, THRESHOLDS
from headway.observe.metrics import GAUGES
from headway.observe.prometheus_rules import alert_name, prometheus_rules

HOUR = 'headway_hour{{what="{what}"}}'
TROUBLE = 'headway_trouble{{what="{what}"}}'
# Values of the metrics while all is well, and for each rule while it fires.
WELL = {
    "headway_supplier_up": 1.0,
    "headway_permit_delay_seconds": 0.0,
    "headway_tick_age_seconds": 30.0,
    **{HOUR.format(what=what): 1200.0 for what in ("calls", "reads")},
    **{HOUR.format(what=what): 0.0 for what in ("calls_failed", "reads_failed", "overdue")},
    **{
        TROUBLE.format(what=what): 0.0
        for what in (
            "housekeeping", "paused", "refusals_in_a_row", "stuck", "shops_down", "tokens_ending",
            "quotas_spent", "jobs_late", "unreadable", "removals_held",
            "unknown_locations", "unpublished", "oversold", "shared_keys", "stale",
            "endpoints_failing", "privacy_requests", "erasures_stuck",
        )
    },
    'headway_listings{state="parked"}': 0.0,
    'headway_promise_burn_fast{tier="pro"}': 0.0,
    'headway_promise_burn_slow{tier="pro"}': 0.0,
    "headway_changes_held": 0.0,
    'headway_failures{blame="listing"}': 0.0,
    "headway_accounts_disconnected": 0.0,
    'headway_jobs{status="dead"}': 0.0,
}  # fmt: skip
WRONG = {
    "supplier_down": {"headway_supplier_up": 0},
    "permit_wait": {"headway_permit_delay_seconds": 31},
    "error_share": {HOUR.format(what="calls_failed"): 61},
    "reads_failed": {HOUR.format(what="reads_failed"): 61},
    "few_synced": {HOUR.format(what="reads"): 0, HOUR.format(what="overdue"): 30},
    "overdue": {HOUR.format(what="overdue"): 101},
    "stale": {TROUBLE.format(what="stale"): 1},
    "promise_burning": {'headway_promise_burn_fast{tier="pro"}': 6},
    "promise_slipping": {'headway_promise_burn_slow{tier="pro"}': 1.5},
    "paused": {TROUBLE.format(what="paused"): 1},
    "held": {"headway_changes_held": 1},
    "parked": {'headway_listings{state="parked"}': 1},
    "refused_by_shop": {TROUBLE.format(what="refusals_in_a_row"): 4},
    "failing": {'headway_failures{blame="listing"}': 1},
    "stuck": {TROUBLE.format(what="stuck"): 1},
    "jobs_late": {TROUBLE.format(what="jobs_late"): 1},
    "shop_refused": {TROUBLE.format(what="shops_down"): 1},
    "disconnected": {"headway_accounts_disconnected": 1},
    "token_expiring": {TROUBLE.format(what="tokens_ending"): 1},
    "dead_jobs": {'headway_jobs{status="dead"}': 1},
    "unknown_location": {TROUBLE.format(what="unknown_locations"): 1},
    "key_shared": {TROUBLE.format(what="shared_keys"): 1},
    "removals_held": {TROUBLE.format(what="removals_held"): 1},
    "unpublished": {TROUBLE.format(what="unpublished"): 1},
    "oversell": {TROUBLE.format(what="oversold"): 1},
    "webhook_failing": {TROUBLE.format(what="endpoints_failing"): 1},
    "privacy_due": {TROUBLE.format(what="privacy_requests"): 1},
    "erasure_stuck": {TROUBLE.format(what="erasures_stuck"): 1},
    "housekeeping": {TROUBLE.format(what="housekeeping"): 1},
    "no_tick": {"headway_tick_age_seconds": 301},
    "quota_spent": {TROUBLE.format(what="quotas_spent"): 1},
    "unreadable": {TROUBLE.format(what="unreadable"): 1},
}
BEGINS_MIN, LASTS_MIN = 400, 20


def test_the_exported_rules_are_up_to_date() -> None:
    assert EXPORTED.read_text(encoding="utf-8") == prometheus_rules(), (
        "write it again: headway alerts --prometheus-rules > deploy/prometheus/headway.rules.yml"
    )


def test_every_metric_of_a_rule_exists() -> None:
    names = set(re.findall(r"headway_([a-z_]+)", prometheus_rules()))
    assert names <= GAUGES.keys()


def test_the_settings_of_a_deployment_are_in_its_rules() -> None:
    assert 'headway_hour{what="overdue"} > 7)' in prometheus_rules({**THRESHOLDS, "overdue": 7})


@pytest.fixture
def promtool(programs: Programs) -> str:
    return programs.promtool


def run(promtool: str, *arguments: str) -> None:
    done = subprocess.run(
        [promtool, *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_reads_the_rules(promtool: str) -> None:
    run(promtool, "check", "rules", str(EXPORTED))


def trial(rule: AlertRule) -> dict[str, object]:
    """Return a test in which one metric is wrong for a while, with the expected alert."""
    begins, ends = BEGINS_MIN, BEGINS_MIN + LASTS_MIN
    series = []
    for name, well in WELL.items():
        wrong = WRONG[rule.name].get(name, well)
        values = f"{well:g}x{begins - 1} {wrong:g}x{LASTS_MIN - 1} {well:g}x60"
        series.append({"series": name, "values": values})
    after, over = (
        int(span.total_seconds() // 60) for span in (rule.fires_after, rule.resolves_after)
    )
    before = begins - 1
    expectations = [
        (before, False),
        (begins + after + 2, True),
        (ends - 1, True),
        (ends + over + 2, False),
    ]
    query = (
        f'count(ALERTS{{alertname="{alert_name(rule.name)}", alertstate="firing"}}) or vector(0)'
    )
    others = (
        f'count(ALERTS{{alertname!="{alert_name(rule.name)}", alertstate="firing"}}) or vector(0)'
    )
    checks = [(query, at, int(fires)) for at, fires in expectations]
    checks.append((others, ends - 1, 0))
    return {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": text,
                "eval_time": f"{at}m",
                "exp_samples": [{"labels": "{}", "value": value}],
            }
            for text, at, value in checks
        ],
    }


def test_promtool_sees_each_alert_fire_alone_and_resolve(promtool: str, tmp_path: Path) -> None:
    trials = {
        "rule_files": [str(EXPORTED)],
        "evaluation_interval": "1m",
        "tests": [trial(rule) for rule in RULES],
    }
    path = tmp_path / "trials.yml"  # JSON is YAML too
    path.write_text(json.dumps(trials), encoding="utf-8")
    run(promtool, "test", "rules", str(path))
