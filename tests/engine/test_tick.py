from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from headway.app.monitoring import alert_monitor
from headway_lab.simulation.crashes import SkewedClock

SKUS = tuple(f"P{n}" for n in range(10))


def test_the_ledger_forgets_what_is_older_than_its_retention_and_nothing_else(line: Any) -> None:
    line.add(*SKUS)
    line.make_due(*SKUS)
    fetch, tick = line.app.fetch("w1"), line.app.tick()
    line.read(fetch)
    line.drive(fetch, lambda: line.one("SELECT count(*) FROM listing_state") == 10)
    line.clock.sleep(timedelta(days=29).total_seconds())
    tick.step()
    old = line.one("SELECT count(*) FROM call_ledger")
    assert old == 3
    line.read(fetch)
    line.clock.sleep(timedelta(days=2).total_seconds())
    tick.step()
    assert 0 < line.one("SELECT count(*) FROM call_ledger") < old + 3
    assert (
        line.one(
            "SELECT count(*) FROM call_ledger WHERE begun_at < %s",
            line.clock.now() - timedelta(days=30),
        )
        == 0
    )


def test_two_ticks_at_once_rescue_a_listing_once(line: Any) -> None:
    line.add(*SKUS)
    now = line.clock.now()
    line.app.schedule.claim(
        list(SKUS), now=now, owner="gone", lease_until=now + timedelta(seconds=90)
    )
    line.clock.sleep(271)
    first, second = line.app.tick(), line.app.tick()
    first.step()
    second.step()
    assert (first.rescued, second.rescued) == (10, 0)
    assert line.one("SELECT count(*) FROM sync_audit_log WHERE event_type = 'lease_rescued'") == 10


def test_a_worker_whose_clock_is_behind_keeps_its_seats_from_one_whose_clock_is_ahead(
    line: Any,
) -> None:
    line.add(*SKUS)
    now = SkewedClock(line.clock, -90).now()
    line.app.schedule.claim(
        list(SKUS), now=now, owner="behind", lease_until=now + line.app.rule.lease
    )
    line.clock.sleep(line.app.rule.lease.total_seconds() - 1)
    ahead = replace(line.app, clock=SkewedClock(line.clock, 90)).tick()
    ahead.step()
    assert ahead.rescued == 0
    line.clock.sleep(2)
    ahead.step()
    assert ahead.rescued == 10


def test_raw_replies_are_forgotten_after_their_retention_and_no_sooner(
    make_line: Callable[..., Any],
) -> None:
    line = make_line(raw_retention_days=3)
    for days in (0, 2):
        line.clock.sleep(timedelta(days=days).total_seconds())
        line.ask(
            "INSERT INTO boeing_raw_data (user_id, sku, raw_payload, created_at)"
            " VALUES ('a', 'P1', '{}', %s)",
            line.clock.now(),
        )
    tick = line.app.tick()
    line.clock.sleep(timedelta(days=1).total_seconds())
    tick.step()
    assert line.one("SELECT count(*) FROM boeing_raw_data") == 2
    line.clock.sleep(timedelta(hours=1).total_seconds())
    tick.step()
    assert line.one("SELECT count(*) FROM boeing_raw_data") == 1


def test_catalogs_are_counted_once_an_hour(line: Any) -> None:
    line.add(*SKUS, seller="a")
    tick = line.app.tick()
    tick.step()
    count = "SELECT listing_count FROM profiles WHERE user_id = 'a'"
    assert line.one(count) == 10
    line.add("Q1", seller="a")
    line.clock.sleep(3599)
    tick.step()
    assert line.one(count) == 10
    line.clock.sleep(1)
    tick.step()
    assert line.one(count) == 11


def test_a_tick_gives_back_the_job_of_a_worker_that_fell_silent_and_forgets_old_use(
    line: Any,
) -> None:
    line.ask(
        "INSERT INTO connected_accounts (user_id, platform, shop) VALUES ('a', 'printify', '1')"
    )
    line.ask(
        "INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, score, next_run_at)"
        " SELECT id, user_id, platform, 'orders', 'incremental', 12, %s FROM connected_accounts",
        line.clock.now(),
    )
    line.ask(
        "INSERT INTO rate_budgets VALUES ('printify', 'printify', %s, 'free', 3)",
        line.clock.now() - timedelta(days=36),
    )
    assert line.app.jobs.claim(now=line.clock.now(), owner="silent") is not None
    tick = line.app.tick()
    tick.step()
    line.clock.sleep(line.app.job_rule.lease.total_seconds() + 170)
    tick.step()
    assert line.one("SELECT status FROM sync_jobs") == "running"
    line.clock.sleep(60)
    tick.step()
    assert line.one("SELECT status FROM sync_jobs") == "queued"
    assert line.one("SELECT count(*) FROM rate_budgets") == 0


def test_freshness_is_sampled_every_five_minutes_and_kept_for_35_days(line: Any) -> None:
    line.add(*SKUS)
    count = "SELECT count(*) FROM freshness_samples"
    first, second = line.app.tick(), line.app.tick()
    first.step()
    second.step()
    assert line.one(count) == 1
    line.clock.sleep(299)
    first.step()
    assert line.one(count) == 1
    line.clock.sleep(1)
    first.step()
    assert line.one(count) == 2
    line.clock.sleep(timedelta(days=35).total_seconds() - 1)
    first.step()
    assert line.one(count) == 2


def test_a_tick_judges_each_minute_what_is_wrong_and_two_of_them_tell_it_once(
    make_line: Callable[..., Any],
) -> None:
    line = make_line(notify_urls="json://127.0.0.1:1/x")
    first, second = (line.app.tick(watch=alert_monitor(line.app)) for _ in range(2))
    line.ask(
        "INSERT INTO breaker (limit_key, failures, open_until, opened_at, reason)"
        " VALUES (%s, 3, %s, %s, 'HTTP 503')",
        line.app.limit_key,
        line.clock.now() + timedelta(hours=1),
        line.clock.now(),
    )
    for _ in range(10):
        first.step()
        second.step()
        line.clock.sleep(30)
    line.ask("DELETE FROM breaker")
    line.ask("UPDATE outbox SET tries = 1")
    for _ in range(20):
        first.step()
        second.step()
        line.clock.sleep(30)
    assert line.ask("SELECT name, resolved_at IS NULL FROM alert_states") == [
        ("supplier_down", False)
    ]
    titles = line.ask("SELECT title FROM outbox ORDER BY created_at")
    assert titles == [("critical: supplier down",), ("resolved: supplier down",)]
