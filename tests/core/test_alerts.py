"""Alerts: each thing that can be wrong is named, once, with how bad and since when."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headway.core.alerts import (
    Alert,
    ConnectionSign,
    QuotaSign,
    Severity,
    Signs,
    TierSign,
    TokenSign,
    alerts,
)
from headway.core.breaker import Breaker
from headway.core.model import SellerId, Sku
from headway.core.pauses import Pause, PauseKind

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ACME = SellerId("acme")
WELL = Signs(
    now=NOW,
    breaker=Breaker(),
    total=10,
    oldest_read_at=NOW - HOUR,
    connections=(ConnectionSign(seller=ACME, name="acme.myshopify.com", is_connected=True),),
    quotas=(QuotaSign(platform="etsy", left=5, limit=10),),
    tokens=(TokenSign(seller=ACME, name="etsy 1", expires_at=NOW + 80 * 24 * HOUR),),
)


def only(**signs: Any) -> Alert:
    (alert,) = alerts(replace(WELL, **signs))
    return alert


def test_where_all_is_well_nothing_is_said() -> None:
    assert alerts(WELL) == []


def test_a_supplier_that_does_not_answer_is_the_worst_of_all() -> None:
    down = Breaker(failures=3, open_until=NOW + HOUR, opened_at=NOW - HOUR, reason="HTTP 503")
    alert = only(breaker=down)
    assert (alert.name, alert.severity, alert.since) == (
        "supplier_down",
        Severity.CRITICAL,
        NOW - HOUR,
    )
    assert "HTTP 503" in alert.sentence
    others = alerts(replace(WELL, breaker=down, failing=2, held=1))
    assert [each.name for each in others] == ["supplier_down", "held", "failing"]


@pytest.mark.parametrize(
    ("signs", "name", "word"),
    (
        ({"calls_paused_until": NOW + HOUR, "calls_paused_reason": "429"}, "calls_paused", "429"),
        ({"stale": 3, "oldest_read_at": NOW - 30 * HOUR}, "overdue", "3 listings are not read"),
        ({"held": 1, "held_since": NOW - HOUR}, "held", "1 change is held"),
        ({"parked": 2}, "parked", "revive"),
        ({"refused": 2}, "refused_by_shop", "the shop"),
        ({"failing": 1}, "failing", "the supplier"),
        ({"dead_jobs": 4}, "dead_jobs", "4 jobs are dead"),
        ({"quotas": (QuotaSign(platform="etsy", left=0.4, limit=10),)}, "quota_spent", "Etsy has"),
        (
            {"quotas": (QuotaSign(platform="etsy", left=5, limit=10, paused_until=NOW + HOUR),)},
            "quota_spent",
            "told us to wait",
        ),
    ),
)
def test_what_is_wrong_is_named_and_counted(signs: Any, name: str, word: str) -> None:
    alert = only(**signs)
    assert alert.name.startswith(name)
    assert word in alert.sentence


def test_a_pause_of_everything_weighs_more_than_one_of_a_part() -> None:
    wide = Pause(kind=PauseKind.ALL, since=NOW - HOUR, actor="ada", reason="moving")
    part = Pause(kind=PauseKind.LISTING, seller=ACME, sku=Sku("A/B"), since=NOW, until=NOW + HOUR)
    first, second = alerts(replace(WELL, pauses=(part, wide)))
    assert first.sentence == "Everything is paused by ada until somebody resumes: moving."
    assert (second.severity, second.seller) == (Severity.NOTICE, ACME)
    assert "A/B of acme is paused by somebody until 13:00 UTC." in second.sentence


def test_a_broken_promise_says_to_whom_and_how_far() -> None:
    broken = TierSign(tier="pro", promise_min=360, kept_share=0.9, at=NOW)
    assert "pro" in only(broken_promises=(broken,)).sentence
    assert "90.0%" in only(broken_promises=(broken,)).sentence


def test_a_shop_that_is_lost_needs_a_person_and_one_that_is_down_only_a_look() -> None:
    lost = ConnectionSign(seller=ACME, name="shop", is_connected=False, trouble="revoked")
    down = ConnectionSign(seller=ACME, name="shop", is_connected=True, trouble="HTTP 500")
    assert (only(connections=(lost,)).severity, only(connections=(down,)).severity) == (
        Severity.CRITICAL,
        Severity.WARNING,
    )
    assert "Connect it again" in only(connections=(lost,)).sentence


def test_a_grant_is_told_of_a_week_before_its_end() -> None:
    for left, severity in ((6 * 24 * HOUR, Severity.WARNING), (-HOUR, Severity.CRITICAL)):
        token = TokenSign(seller=ACME, name="etsy 1", expires_at=NOW + left)
        assert only(tokens=(token,)).severity is severity
