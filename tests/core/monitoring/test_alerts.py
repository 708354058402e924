"""Alerts: each thing that can be wrong is named, once, with how bad and since when."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headway.core.catalog.listings import SellerId, Sku
from headway.core.limits.breaker import Breaker
from headway.core.monitoring.alerts import Alert, Severity
from headway.core.monitoring.metrics import (
    AlertMetrics,
    ConnectionMetric,
    HourMetric,
    QuotaMetric,
    RemovalMetric,
    TierMetric,
    TokenMetric,
)
from headway.core.monitoring.rules import BY_NAME, RULES, THRESHOLDS, current_alerts
from headway.core.pauses import Pause, PauseKind

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ACME = SellerId("acme")
WELL = AlertMetrics(
    now=NOW,
    breaker=Breaker(),
    total=10,
    oldest_read_at=NOW - HOUR,
    connections=(ConnectionMetric(seller=ACME, name="acme.myshopify.com", is_connected=True),),
    quotas=(QuotaMetric(platform="etsy", left=5, limit=10),),
    tokens=(TokenMetric(seller=ACME, name="etsy 1", expires_at=NOW + 80 * 24 * HOUR),),
)


def only(**metrics: Any) -> Alert:
    (alert,) = current_alerts(replace(WELL, **metrics))
    return alert


def test_there_is_no_alert_if_all_is_well() -> None:
    assert current_alerts(WELL) == []


def test_a_supplier_that_does_not_answer_is_the_worst_of_all() -> None:
    down = Breaker(failures=3, open_until=NOW + HOUR, opened_at=NOW - HOUR, reason="HTTP 503")
    alert = only(breaker=down)
    assert (alert.name, alert.severity, alert.since) == (
        "supplier_down",
        Severity.CRITICAL,
        NOW - HOUR,
    )
    assert "HTTP 503" in alert.sentence
    assert "same credential" not in alert.sentence
    others = current_alerts(replace(WELL, breaker=down, failing=2, held=1))
    assert [alert.name for alert in others] == ["supplier_down", "held", "failing"]


def test_a_supplier_that_refuses_every_call_as_too_many_is_reported_with_the_cause() -> None:
    down = Breaker(failures=3, open_until=NOW + HOUR, opened_at=NOW - HOUR, reason="answered 429")
    assert "another Headway uses the same credential" in only(breaker=down).sentence


@pytest.mark.parametrize(
    ("metrics", "name", "word"),
    (
        ({"calls_paused_until": NOW + HOUR, "calls_paused_reason": "429"}, "permit_wait", "429"),
        ({"stale": 3, "oldest_read_at": NOW - 30 * HOUR}, "stale", "3 listings are stale"),
        ({"held": 1, "held_since": NOW - HOUR}, "held", "1 change is held"),
        ({"parked": 2}, "parked", "revive"),
        ({"refused": 2}, "refused_by_shop", "the shop"),
        ({"failing": 1}, "failing", "the supplier"),
        ({"hour": HourMetric(permit_wait_s=31)}, "permit_wait", "31 s longer"),
        ({"hour": HourMetric(calls=50, calls_failed=3)}, "error_share", "3 of 50 calls"),
        ({"hour": HourMetric(reads=50, reads_failed=3)}, "reads_failed", "3 of 50 parts"),
        ({"hour": HourMetric(reads=29, overdue=1)}, "few_synced", "read in the last hour: 29"),
        ({"hour": HourMetric(reads=90, overdue=101)}, "overdue", "101 parts are due"),
        ({"hour": HourMetric(stuck=1)}, "stuck", "1 part or job is still claimed"),
        ({"dead_jobs": 4}, "dead_jobs", "4 jobs are dead"),
        (
            {"quotas": (QuotaMetric(platform="etsy", left=0.4, limit=10),)},
            "quota_spent",
            "Etsy has",
        ),
        (
            {
                "quotas": (
                    QuotaMetric(
                        platform="etsy", left=0, limit=10, top_account="acme 7", top_calls=6.2
                    ),
                )
            },
            "quota_spent",
            "acme 7 alone used about 6 of the day",
        ),
        (
            {"quotas": (QuotaMetric(platform="etsy", left=5, limit=10, paused_until=NOW + HOUR),)},
            "quota_spent",
            "asked Headway to wait",
        ),
    ),
)
def test_what_is_wrong_is_named_and_counted(metrics: Any, name: str, word: str) -> None:
    alert = only(**metrics)
    assert alert.name.startswith(name)
    assert word in alert.sentence


def test_a_pause_of_everything_weighs_more_than_one_of_a_part() -> None:
    wide = Pause(kind=PauseKind.ALL, since=NOW - HOUR, actor="ada", reason="moving")
    part = Pause(kind=PauseKind.LISTING, seller=ACME, sku=Sku("A/B"), since=NOW, until=NOW + HOUR)
    first, second = current_alerts(replace(WELL, pauses=(part, wide)))
    assert first.sentence == "Everything is paused by ada until somebody resumes: moving."
    assert (second.severity, second.seller) == (Severity.NOTICE, ACME)
    assert "A/B of acme is paused by somebody until 13:00 UTC." in second.sentence


@pytest.mark.parametrize(
    "hour",
    (
        HourMetric(permit_wait_s=5),
        HourMetric(calls=60, calls_failed=3),
        HourMetric(calls=3, calls_failed=2),
        HourMetric(reads=60, reads_failed=3),
        HourMetric(reads=30, overdue=100),
        HourMetric(reads=10, overdue=19),
    ),
    ids=("wait", "calls", "few calls", "reads", "enough read", "little to read"),
)
def test_there_is_no_alert_up_to_the_number_in_the_documents(hour: HourMetric) -> None:
    assert current_alerts(replace(WELL, hour=hour)) == []


@pytest.mark.parametrize(
    ("metrics", "name"),
    (
        ({"hour": HourMetric(calls=10, calls_failed=3)}, "error_share"),
        ({"hour": HourMetric(reads=10, reads_failed=3)}, "reads_failed"),
        ({"hour": HourMetric(stuck=11)}, "stuck"),
        ({"hour": HourMetric(permit_wait_s=31)}, "permit_wait"),
        ({"parked": 1, "total": 10}, "parked"),
    ),
)
def test_beyond_the_documents_second_number_it_is_critical(metrics: Any, name: str) -> None:
    alert = only(**metrics)
    assert (alert.name, alert.severity) == (name, Severity.CRITICAL)


def test_a_deployment_may_choose_other_numbers() -> None:
    hour = HourMetric(reads=90, overdue=101)
    (chosen,) = current_alerts(replace(WELL, hour=hour), {**THRESHOLDS, "overdue": 5.0})
    assert chosen.name == "overdue"
    assert current_alerts(replace(WELL, hour=hour), {**THRESHOLDS, "overdue": 500.0}) == []


def test_a_shop_that_refuses_three_times_in_a_row_is_only_noticed() -> None:
    few, many = (only(refused=2, refusals_in_a_row=times) for times in (3, 4))
    assert (few.severity, many.severity) == (Severity.NOTICE, Severity.WARNING)


def test_a_broken_promise_says_to_whom_and_how_far() -> None:
    slow = TierMetric(tier="pro", promise_min=360, kept_share=0.9, burn_fast=2, burn_slow=2, at=NOW)
    fast = replace(slow, tier="free", burn_fast=6)
    kept = replace(slow, burn_fast=1.4, burn_slow=1.4)
    alerts = current_alerts(replace(WELL, promises=(slow, fast, kept)))
    assert [(alert.name, alert.subject) for alert in alerts] == [
        ("promise_burning", "free"),
        ("promise_slipping", "pro"),
        ("promise_slipping", "free"),
    ]
    assert "90.0%" in alerts[1].sentence


def test_rule_names_are_unique_and_every_suppressing_rule_has_its_expression() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    for rule in RULES:
        assert all(BY_NAME[cause].recent for cause in rule.suppressed_by), rule.name


def test_a_shop_that_is_lost_needs_a_person_and_one_that_is_down_only_a_look() -> None:
    lost = ConnectionMetric(seller=ACME, name="shop", is_connected=False, trouble="revoked")
    down = ConnectionMetric(seller=ACME, name="shop", is_connected=True, trouble="HTTP 500")
    assert (only(connections=(lost,)).severity, only(connections=(down,)).severity) == (
        Severity.CRITICAL,
        Severity.WARNING,
    )
    assert "Connect it again" in only(connections=(lost,)).sentence


def test_a_platform_that_is_down_is_one_alert_and_not_one_per_seller() -> None:
    down = ConnectionMetric(seller=None, name="etsy", is_connected=True, trouble="HTTP 503")
    alert = only(connections=(down,))
    assert (alert.name, alert.subject, alert.seller) == ("shop_refused", "etsy", None)
    assert alert.sentence == "Etsy does not answer for any account: HTTP 503."


def test_a_held_removal_names_the_account_and_the_reason() -> None:
    removal = RemovalMetric(
        seller=ACME, platform="etsy", name="etsy 1", missing=15, known=20, reason="a list is empty",
        since=NOW - HOUR,
    )  # fmt: skip
    alert = only(held_removals=(removal,))
    assert (alert.name, alert.subject, alert.since) == ("removals_held", "acme etsy 1", NOW - HOUR)
    assert "etsy 1 of acme no longer shows 15 of 20 listings: a list is empty." in alert.sentence
    decide = "headway removals acme --platform etsy"
    assert f"If they are gone: {decide} --confirm 15." in alert.sentence
    assert f"If they are still there: {decide} --dismiss 15." in alert.sentence


def test_a_grant_raises_an_alert_a_week_before_its_end() -> None:
    for left, severity in ((6 * 24 * HOUR, Severity.WARNING), (-HOUR, Severity.CRITICAL)):
        token = TokenMetric(seller=ACME, name="etsy 1", expires_at=NOW + left)
        assert only(tokens=(token,)).severity is severity


def test_reads_that_a_daily_policy_allows_are_not_stale_though_they_are_older_than_a_day() -> None:
    late = replace(WELL, stale=3, oldest_read_at=NOW - timedelta(hours=24, minutes=40))
    daily = replace(late, age_max=timedelta(hours=25))
    assert [alert.name for alert in current_alerts(late)] == ["stale"]
    assert current_alerts(daily) == []
    for_prometheus = BY_NAME["stale"].measures["stale"]
    assert (for_prometheus(late), for_prometheus(daily)) == (3, 0), "both judge alike"
    assert current_alerts(replace(daily, oldest_read_at=NOW - 26 * HOUR)) != []
