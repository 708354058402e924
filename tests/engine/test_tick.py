from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from headway.app.monitoring import alert_monitor
from headway_lab.simulation.crashes import SkewedClock

SKUS = tuple(f"P{n}" for n in range(10))


def test_the_ledger_forgets_what_is_older_than_its_retention_and_nothing_else(rig: Any) -> None:
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    fetch, tick = rig.app.fetch("w1"), rig.app.tick()
    rig.read(fetch)
    rig.drive(fetch, lambda: rig.one("SELECT count(*) FROM listing_state") == 10)
    rig.clock.sleep(timedelta(days=29).total_seconds())
    tick.step()
    old = rig.one("SELECT count(*) FROM call_ledger")
    assert old == 3
    rig.read(fetch)
    rig.clock.sleep(timedelta(days=2).total_seconds())
    tick.step()
    assert 0 < rig.one("SELECT count(*) FROM call_ledger") < old + 3
    assert (
        rig.one(
            "SELECT count(*) FROM call_ledger WHERE begun_at < %s",
            rig.clock.now() - timedelta(days=30),
        )
        == 0
    )


def test_two_ticks_at_once_rescue_a_listing_once(rig: Any) -> None:
    rig.add(*SKUS)
    now = rig.clock.now()
    rig.app.schedule.claim(
        list(SKUS), now=now, owner="gone", lease_until=now + timedelta(seconds=90)
    )
    rig.clock.sleep(271)
    first, second = rig.app.tick(), rig.app.tick()
    first.step()
    second.step()
    assert (first.rescued, second.rescued) == (10, 0)
    assert rig.one("SELECT count(*) FROM sync_audit_log WHERE event_type = 'lease_rescued'") == 10


def test_a_worker_whose_clock_is_behind_keeps_its_seats_from_one_whose_clock_is_ahead(
    rig: Any,
) -> None:
    rig.add(*SKUS)
    now = SkewedClock(rig.clock, -90).now()
    rig.app.schedule.claim(
        list(SKUS), now=now, owner="behind", lease_until=now + rig.app.rule.lease
    )
    rig.clock.sleep(rig.app.rule.lease.total_seconds() - 1)
    ahead = replace(rig.app, clock=SkewedClock(rig.clock, 90)).tick()
    ahead.step()
    assert ahead.rescued == 0
    rig.clock.sleep(2)
    ahead.step()
    assert ahead.rescued == 10


def test_raw_replies_are_forgotten_after_their_retention_and_no_sooner(
    make_rig: Callable[..., Any],
) -> None:
    rig = make_rig(raw_retention_days=3)
    for days in (0, 2):
        rig.clock.sleep(timedelta(days=days).total_seconds())
        rig.ask(
            "INSERT INTO boeing_raw_data (user_id, sku, raw_payload, created_at)"
            " VALUES ('a', 'P1', '{}', %s)",
            rig.clock.now(),
        )
    tick = rig.app.tick()
    rig.clock.sleep(timedelta(days=1).total_seconds())
    tick.step()
    assert rig.one("SELECT count(*) FROM boeing_raw_data") == 2
    rig.clock.sleep(timedelta(hours=1).total_seconds())
    tick.step()
    assert rig.one("SELECT count(*) FROM boeing_raw_data") == 1


def test_catalogs_are_counted_once_an_hour(rig: Any) -> None:
    rig.add(*SKUS, seller="a")
    tick = rig.app.tick()
    tick.step()
    count = "SELECT listing_count FROM profiles WHERE user_id = 'a'"
    assert rig.one(count) == 10
    rig.add("Q1", seller="a")
    rig.clock.sleep(3599)
    tick.step()
    assert rig.one(count) == 10
    rig.clock.sleep(1)
    tick.step()
    assert rig.one(count) == 11


def test_a_tick_gives_back_the_job_of_a_worker_that_fell_silent_and_forgets_old_use(
    rig: Any,
) -> None:
    rig.ask(
        "INSERT INTO connected_accounts (user_id, platform, shop) VALUES ('a', 'printify', '1')"
    )
    rig.ask(
        "INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, score, next_run_at)"
        " SELECT id, user_id, platform, 'orders', 'incremental', 12, %s FROM connected_accounts",
        rig.clock.now(),
    )
    rig.ask(
        "INSERT INTO rate_budgets VALUES ('printify', 'printify', %s, 'free', 3)",
        rig.clock.now() - timedelta(days=36),
    )
    assert rig.app.jobs.claim(now=rig.clock.now(), owner="silent") is not None
    tick = rig.app.tick()
    tick.step()
    rig.clock.sleep(rig.app.job_rule.lease.total_seconds() + 170)
    tick.step()
    assert rig.one("SELECT status FROM sync_jobs") == "running"
    rig.clock.sleep(60)
    tick.step()
    assert rig.one("SELECT status FROM sync_jobs") == "queued"
    assert rig.one("SELECT count(*) FROM rate_budgets") == 0


def test_freshness_is_sampled_every_five_minutes_and_kept_for_35_days(rig: Any) -> None:
    rig.add(*SKUS)
    count = "SELECT count(*) FROM freshness_samples"
    first, second = rig.app.tick(), rig.app.tick()
    first.step()
    second.step()
    assert rig.one(count) == 1
    rig.clock.sleep(299)
    first.step()
    assert rig.one(count) == 1
    rig.clock.sleep(1)
    first.step()
    assert rig.one(count) == 2
    rig.clock.sleep(timedelta(days=35).total_seconds() - 1)
    first.step()
    assert rig.one(count) == 2


def test_a_tick_evaluates_alerts_each_minute_and_two_ticks_send_one_notice(
    make_rig: Callable[..., Any],
) -> None:
    rig = make_rig(notify_urls="json://127.0.0.1:1/x")
    first, second = (rig.app.tick(watch=alert_monitor(rig.app)) for _ in range(2))
    rig.ask(
        "INSERT INTO breaker (limit_key, failures, open_until, opened_at, reason)"
        " VALUES (%s, 3, %s, %s, 'HTTP 503')",
        rig.app.limit_key,
        rig.clock.now() + timedelta(hours=1),
        rig.clock.now(),
    )
    for _ in range(10):
        first.step()
        second.step()
        rig.clock.sleep(30)
    rig.ask("DELETE FROM breaker")
    rig.ask("UPDATE outbox SET tries = 1")
    for _ in range(20):
        first.step()
        second.step()
        rig.clock.sleep(30)
    assert rig.ask("SELECT name, resolved_at IS NULL FROM alert_states") == [
        ("supplier_down", False)
    ]
    titles = rig.ask("SELECT title FROM outbox ORDER BY created_at")
    assert titles == [("critical: supplier down",), ("resolved: supplier down",)]
