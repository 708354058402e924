import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import Listing, Priority, SellerId, Sku
from headway.core.timetable.families import Family
from headway.core.timetable.market import Lesson, Sweep, initial_price
from headway.core.timetable.policies import ReadResult
from headway.core.timetable.policies.adaptive import Adaptive
from headway.core.timetable.rates import RATES
from headway.store.catalog.listings import Listings
from headway.store.timetable.markets import Markets
from headway_lab.virtual_clock import VirtualClock

HOUR = timedelta(hours=1)
SEATS_PER_MIN = 20.0
Ask = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def markets(pool: ConnectionPool) -> Markets:
    return Markets(pool, limit_key="boeing:test", seats_per_min=SEATS_PER_MIN)


@pytest.fixture
def ask(pool: ConnectionPool) -> Ask:
    def query(sql: str, *values: object) -> list[tuple[Any, ...]]:
        with pool.connection() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    return query


def enter(
    pool: ConnectionPool, now: datetime, count: int, *, family: str | None = None, by: str = "a"
) -> None:
    keys = [(SellerId(seller), Sku(f"P{n}")) for n in range(count) for seller in by]
    Listings(pool).add(keys, policy=Adaptive(), now=now)
    with pool.connection() as connection:
        connection.execute(
            "UPDATE product_sync_schedule SET family = %s, last_successful_sync ="
            " %s - substr(sku, 2)::int * interval '1 min', next_sync_at = %s",
            (family, now - HOUR, now + 5 * HOUR),
        )


def due(ask: Ask) -> dict[str, datetime]:
    return dict(ask("SELECT sku, next_sync_at FROM product_sync_schedule"))


def test_a_market_begins_with_the_price_that_its_catalog_makes(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock
) -> None:
    enter(pool, clock.now(), 40)
    market = markets.load((), clock.now())
    assert (market.listings, market.price) == (40, None)
    assert market.going_price == initial_price(40, SEATS_PER_MIN, market.prior)


def test_a_part_that_two_sellers_list_is_one_part_on_the_market(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock
) -> None:
    keys = [(SellerId(seller), Sku("P1")) for seller in ("a", "b")]
    Listings(pool).add(keys, policy=Adaptive(), now=clock.now())
    assert markets.load((), clock.now()).listings == 1


def test_the_price_rises_when_the_queue_is_late_and_falls_when_it_is_early(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock
) -> None:
    enter(pool, clock.now(), 200)
    first = markets.load((), clock.now())
    clock.sleep(60)
    markets.learn(first, Lesson(lag_min=5.0), clock.now())
    dear = markets.load((), clock.now())
    assert dear.price is not None
    assert math.log(dear.price / first.going_price) == pytest.approx(5 / 10**2)
    clock.sleep(60)
    markets.learn(dear, Lesson(lag_min=-5.0), clock.now())
    assert markets.load((), clock.now()).price == pytest.approx(first.going_price)


def test_a_price_is_forgotten_when_the_catalog_has_become_another(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock, ask: Ask
) -> None:
    enter(pool, clock.now(), 10)
    markets.load((), clock.now())
    ask("UPDATE market SET log_price = 12")
    enter(pool, clock.now(), 15)
    markets.count(clock.now())
    assert markets.load((), clock.now()).price == pytest.approx(math.exp(12))
    enter(pool, clock.now(), 200)
    markets.count(clock.now())
    market = markets.load((), clock.now())
    assert (market.listings, market.price) == (200, None)


def test_calls_that_end_at_once_both_count(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock
) -> None:
    enter(pool, clock.now(), 200)
    market = markets.load((), clock.now())
    clock.sleep(60)
    for _ in range(2):
        lesson = Lesson(lag_min=5.0, hits=(1.0, 0.0), hits_expected=(0.5, 0.25))
        markets.learn(market, lesson, clock.now())
    after = markets.load((), clock.now())
    assert (after.recency.hits, after.recency.hits_expected) == ((2.0, 0.0), (1.0, 0.5))
    assert math.log(after.going_price / market.going_price) == pytest.approx(0.1)


def test_a_family_is_kept_and_comes_with_the_market_when_it_is_asked_for(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock
) -> None:
    enter(pool, clock.now(), 10)
    market = markets.load((), clock.now())
    opened = Family(name="ACME").opened(
        began_at=clock.now() - HOUR, at=clock.now(), rate=0.1, pooled=(1.0, 1.0, 1.0)
    )
    markets.learn(market, Lesson(families=(opened,)), clock.now())
    assert markets.load(("ACME", "OTHER"), clock.now()).families == {"ACME": opened}
    assert markets.load((), clock.now()).families == {}


def test_what_another_version_knew_of_rates_and_lists_counts_for_nothing(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock, ask: Ask
) -> None:
    enter(pool, clock.now(), 10)
    market = markets.load((), clock.now())
    counts = [1.0] * 20
    ask("UPDATE market SET prior = %s, hits = %s, hits_expected = %s", [0.5, 0.5], counts, counts)
    loaded = markets.load((), clock.now())
    assert loaded.prior == market.prior
    row = Listing(
        id="P0",
        user_id=SellerId("a"),
        sku=Sku("P0"),
        priority=Priority.SCHEDULED,
        fence=1,
        next_sync_at=clock.now(),
        hour_bucket=0,
        minute_offset=0,
        created_at=clock.now() - HOUR,
        last_successful_sync=clock.now() - HOUR,
        family="ACME",
    )
    result = ReadResult(listing=row, at=clock.now(), has_changed=True)
    markets.learn(loaded, Adaptive().informed(loaded).learn([result]), clock.now())


def test_a_sweep_brings_the_oldest_companions_to_the_front_and_a_spare_puts_them_back(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, 12, family="ACME")
    market, before = markets.load((), now), due(ask)
    sweep = Sweep(family="ACME", read_before=now - HOUR, limit=3)
    assert sorted(markets.learn(market, Lesson(sweeps=(sweep,)), now)) == ["P10", "P11", "P9"]
    swept = {sku for sku, at in due(ask).items() if at <= now}
    assert swept == {"P9", "P10", "P11"}
    assert sorted(markets.learn(market, Lesson(spares=("ACME",)), now)) == ["P10", "P11", "P9"]
    assert due(ask) == before


def test_a_sweep_without_a_limit_takes_all_but_those_read_since(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, 12, family="ACME")
    ask("UPDATE product_sync_schedule SET last_successful_sync = %s WHERE sku = 'P4'", now)
    sweep = Sweep(family="ACME", read_before=now)
    moved = markets.learn(markets.load((), now), Lesson(sweeps=(sweep,)), now)
    assert len(moved) == 11
    assert "P4" not in moved


def test_a_sweep_skips_listings_in_a_call_urgent_ones_and_parked_ones(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, 4, family="ACME")
    ask(
        "UPDATE product_sync_schedule SET sync_status = 'syncing', lease_owner = 'w',"
        " lease_until = %s WHERE sku = 'P0'",
        now + HOUR,
    )
    ask("UPDATE product_sync_schedule SET priority = 'manual' WHERE sku = 'P1'")
    ask("UPDATE product_sync_schedule SET is_active = false WHERE sku = 'P2'")
    sweep = Sweep(family="ACME", read_before=now)
    assert markets.learn(markets.load((), now), Lesson(sweeps=(sweep,)), now) == ["P3"]


def test_those_whom_the_deadline_calls_join_call_before_a_sweep(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, 12, family="ACME")
    assert sorted(markets.hurry(2, now)) == ["P10", "P11"]
    assert markets.hurry(2, now) == [], "they are first already"
    sweep = Sweep(family="ACME", read_before=now, limit=2)
    markets.learn(markets.load((), now), Lesson(sweeps=(sweep,)), now)
    order = ask("SELECT sku FROM product_sync_schedule ORDER BY next_sync_at LIMIT 4")
    assert {sku for (sku,) in order[:2]} == {"P10", "P11"}


def test_a_sweep_and_a_hurry_count_parts_however_many_sellers_list_them(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock
) -> None:
    now = clock.now()
    enter(pool, now, 12, family="ACME", by="abc")
    sweep = Sweep(family="ACME", read_before=now, limit=4)
    swept = markets.learn(markets.load((), now), Lesson(sweeps=(sweep,)), now)
    assert sorted(swept) == sorted(["P8", "P9", "P10", "P11"] * 3)
    assert sorted(markets.hurry(2, now)) == sorted(["P10", "P11"] * 3)


def test_ages_are_counted_by_the_minute_and_the_oldest_is_returned(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock
) -> None:
    now = clock.now()
    assert markets.oldest() is None
    enter(pool, now, 3)
    assert markets.ages_min(now) == {60: 1, 61: 1, 62: 1}
    assert markets.oldest() == now - timedelta(minutes=62)


def test_who_was_never_read_is_as_old_as_its_listing(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock
) -> None:
    now = clock.now()
    Listings(pool).add([(SellerId("a"), Sku("new"))], policy=Adaptive(), now=now)
    assert markets.oldest() == now
    assert markets.ages_min(now + HOUR) == {60: 1}


def test_who_came_just_now_does_not_hide_whom_nobody_has_read_for_long(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock, ask: Ask
) -> None:
    now = clock.now()
    enter(pool, now, 3)
    Listings(pool).add([(SellerId("a"), Sku("new"))], policy=Adaptive(), now=now)
    assert markets.oldest() == now - timedelta(minutes=62)
    ask("UPDATE product_sync_schedule SET created_at = %s WHERE sku = 'new'", now - 9 * HOUR)
    assert markets.oldest() == now - 9 * HOUR


def test_the_prior_is_fitted_to_what_was_seen_by_one_of_two_who_try(
    pool: ConnectionPool, markets: Markets, clock: VirtualClock, ask: Ask
) -> None:
    enter(pool, clock.now(), 200)
    ask("UPDATE product_sync_schedule SET watched_days = 30, changes_seen = 30")
    market = markets.load((), clock.now())
    markets.refit(market, clock.now())
    fitted = markets.load((), clock.now())
    assert len(fitted.prior.shares) == RATES
    assert fitted.prior.mean > 5 * market.prior.mean
    ask("UPDATE product_sync_schedule SET changes_seen = 0")
    markets.refit(market, clock.now() + HOUR)
    assert markets.load((), clock.now()) == fitted, "another worker had just done it"
