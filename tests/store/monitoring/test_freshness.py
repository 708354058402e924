"""Samples of freshness: one in five minutes, by tier, thinned and forgotten."""

from datetime import UTC, datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.core.accounts.jobs import Tier
from headway.store.monitoring.freshness import FreshnessSamples

NOW = datetime(2026, 1, 5, 12, 3, 20, tzinfo=UTC)
AT = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
PROMISES = {Tier.FREE: 1440, Tier.STARTER: 720, Tier.GROWTH: 240, Tier.PRO: 60}
ENTER = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at, last_successful_sync,
  is_active, sync_status, consecutive_failures, is_paused, created_at)
VALUES (%s, %s, 0, %s, %s, %s, %s, %s, %s, %s)
"""


@pytest.fixture
def samples(pool: ConnectionPool) -> FreshnessSamples:
    return FreshnessSamples(pool, promises_min=PROMISES)


def enter(
    pool: ConnectionPool,
    seller: str,
    *ages: timedelta | None,
    is_parked: bool = False,
    failures: int = 0,
    is_paused: bool = False,
    came: timedelta = timedelta(days=2),
) -> None:
    status = "parked" if is_parked else "success"
    with pool.connection() as connection:
        for number, age in enumerate(ages):
            read_at = None if age is None else NOW - age
            sku = f"{number}{status}{failures}{is_paused}"
            row = (seller, sku, NOW, read_at, not is_parked, status, failures, is_paused)
            connection.execute(ENTER, (*row, NOW - came))


def pay(pool: ConnectionPool, seller: str, tier: Tier) -> None:
    with pool.connection() as connection:
        connection.execute("INSERT INTO profiles (user_id, tier) VALUES (%s, %s)", (seller, tier))


def test_who_has_only_just_come_is_not_late_yet(
    pool: ConnectionPool, samples: FreshnessSamples
) -> None:
    pay(pool, "quick", Tier.PRO)
    enter(pool, "quick", None, came=59 * MINUTE)
    enter(pool, "nobody", None, came=24 * HOUR)
    samples.sample(NOW)
    latest = samples.latest()
    assert latest is not None
    assert {tier.tier: tier.kept for tier in latest.tiers} == {Tier.PRO: 1, Tier.FREE: 0}


def test_each_tier_is_counted_by_its_own_promise(
    pool: ConnectionPool, samples: FreshnessSamples
) -> None:
    pay(pool, "quick", Tier.PRO)
    enter(pool, "quick", *[59 * MINUTE] * 19, 60 * MINUTE)
    enter(pool, "nobody", HOUR, 23 * HOUR, 24 * HOUR, None)
    enter(pool, "nobody", 40 * HOUR, is_parked=True)
    enter(pool, "nobody", 30 * HOUR, failures=1)
    enter(pool, "nobody", 50 * HOUR, is_paused=True)
    assert samples.latest() is None
    assert samples.sample(NOW) == AT + 5 * MINUTE
    latest = samples.latest()
    assert latest is not None
    assert latest.at == AT
    free, pro = sorted(latest.tiers, key=lambda sample: sample.tier)
    assert (free.tier, pro.tier) == (Tier.FREE, Tier.PRO)
    assert (free.total, free.parked, free.paused) == (7, 1, 1)
    assert (free.fresh, free.stale, free.unread) == (2, 2, 1)
    assert (free.kept, free.holds, free.oldest_read_at) == (2, False, NOW - 24 * HOUR)
    assert (pro.total, pro.kept, pro.kept_share, pro.holds) == (20, 19, 0.95, True)
    assert (latest.total, latest.fresh, latest.stale) == (27, 22, 2)
    assert latest.oldest_age_s == (AT - NOW + 24 * HOUR).total_seconds()


def test_one_sampler_wins_and_the_others_leave_it(
    pool: ConnectionPool, samples: FreshnessSamples
) -> None:
    enter(pool, "acme", HOUR)
    samples.sample(NOW)
    enter(pool, "bolt", HOUR)
    samples.sample(NOW + MINUTE)
    first = samples.latest()
    assert first is not None
    assert first.total == 1
    samples.sample(NOW + 2 * MINUTE)
    (_, second) = samples.series(AT)
    assert (second.at, second.total) == (AT + 5 * MINUTE, 2)


def test_a_series_is_thinned_and_old_samples_are_forgotten(
    pool: ConnectionPool, samples: FreshnessSamples
) -> None:
    enter(pool, "acme", HOUR)
    for number in range(25):
        samples.sample(NOW + number * 5 * MINUTE)
    whole = samples.series(AT)
    assert [sample.at for sample in whole] == [AT + number * 5 * MINUTE for number in range(25)]
    thin = samples.series(AT, points_max=5)
    assert [sample.at for sample in thin] == [
        AT,
        *(AT + number * 30 * MINUTE for number in (1, 2, 3, 4)),
    ]
    assert samples.forget(AT + HOUR) == 12
    assert samples.series(AT)[0].at == AT + HOUR


def test_there_is_no_sample_without_a_listing(samples: FreshnessSamples) -> None:
    samples.sample(NOW)
    assert samples.latest() is None
    assert samples.series(AT) == ()
