"""Ages, shares and waits of jobs: small examples by hand."""

import pytest

from headway.core.accounts.jobs import DataKind, Tier
from headway_lab.platforms import ETSY, SHOPIFY
from headway_lab.simulation.accounts.ages import Ages, Track, spread

HOUR_S = 3600.0


def followed(tier: Tier = Tier.FREE, *, is_backfill: bool = False) -> Ages:
    ages = Ages()
    track = Track(
        tier=tier,
        platform=ETSY,
        kind=DataKind.ORDERS,
        is_backfill=is_backfill,
        interval_s=HOUR_S,
    )
    ages.follow("job", track, 0.0)
    return ages


def test_the_age_of_what_is_read_every_hour_is_half_an_hour_on_average() -> None:
    assert spread([HOUR_S] * 10) == {"mean": 30.0, "p50": 30.0, "p95": 57.0}


def test_a_long_gap_is_weighted_by_its_length() -> None:
    spread_min = spread([HOUR_S, 9 * HOUR_S])
    assert spread_min["mean"] == pytest.approx((0.5 * 60 + 9 * 270) / 10, abs=0.1)
    assert spread_min["p95"] == pytest.approx(510.0, abs=0.1)


def test_runs_done_are_a_share_of_those_due() -> None:
    ages = followed()
    for hour in (0, 2, 4):
        ages.done("job", hour * HOUR_S)
    ages.close(4 * HOUR_S)
    assert ages.served() == {"free": 0.5}
    assert ages.served(only=SHOPIFY) == {}


def test_a_wait_counts_beyond_the_interval_and_pages_end_it() -> None:
    ages = followed()
    ages.progressed("job", 3 * HOUR_S)
    ages.close(4 * HOUR_S)
    assert ages.worst_h()["free"] == 2.0
    assert ages.late(1.9 * HOUR_S) == ["job"]
    assert ages.late(2.1 * HOUR_S) == []


def test_no_run_is_due_for_an_account_that_left() -> None:
    ages = followed()
    ages.done("job", HOUR_S)
    ages.stop("job", 1.5 * HOUR_S)
    ages.resume("job", 40 * HOUR_S)
    ages.done("job", 40.5 * HOUR_S)
    ages.close(41 * HOUR_S)
    assert ages.late(0.0) == []
    assert ages.age_min()["free"]["mean"] == 15.0


def test_a_backfill_that_is_done_waits_for_nothing() -> None:
    ages = followed(is_backfill=True)
    ages.done("job", HOUR_S)
    ages.close(100 * HOUR_S)
    assert ages.late(0.0) == []
    assert ages.served() == {}


def test_an_upgrade_starts_a_new_measurement_and_the_past_stays_in_the_old_tier() -> None:
    ages = followed()
    ages.done("job", HOUR_S)
    ages.done("job", 2 * HOUR_S)
    ages.pay("job", Tier.PRO, 300.0, 2 * HOUR_S)
    ages.done("job", 2 * HOUR_S + 300)
    ages.done("job", 2 * HOUR_S + 600)
    ages.close(2 * HOUR_S + 600)
    assert ages.age_min() == {
        "free": {"mean": 30.0, "p50": 30.0, "p95": 57.0},
        "pro": {"mean": 2.5, "p50": 2.5, "p95": 4.8},
    }
