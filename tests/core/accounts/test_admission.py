"""What more sellers mean for a platform's day."""

from datetime import timedelta

import pytest

from headway.core.accounts.admission import PlatformAdmission, RunCosts, admission
from headway.core.accounts.jobs import DataKind, JobRule, Tier
from headway.core.limits.daily_shares import DayPlan, DayShare
from headway_lab.platforms import ETSY

HOUR = timedelta(hours=1)
RULE = JobRule(
    intervals=dict(zip(Tier, (HOUR, HOUR / 2, HOUR / 4, HOUR / 12), strict=True)),
    kind_intervals={kind: 6 * HOUR if kind is DataKind.LISTINGS else 0 * HOUR for kind in DataKind},
    order_quotas=dict.fromkeys(Tier, 50),
)


def admit(
    sellers: int, *, tier: Tier = Tier.FREE, paid: float = 0, costs: RunCosts | None = None
) -> PlatformAdmission:
    return admission(
        ETSY,
        DayPlan(limit=10_000, demand={DayShare.PAID: paid}),
        costs or RunCosts(per_run={}),
        RULE,
        kinds=(DataKind.ORDERS, DataKind.LISTINGS),
        tier=tier,
        sellers=sellers,
    )


def test_as_many_fit_as_the_planned_part_of_the_day_carries() -> None:
    found = admit(100)
    assert found.calls_per_seller == 24 + 4 * 6
    assert (found.fits, found.stretch) == (9000 // 48, 1)
    assert admit(found.fits).stretch == 1
    assert admit(found.fits + 1).stretch > 1


def test_what_present_sellers_need_is_not_given_away() -> None:
    assert admit(1, paid=6000).fits == 3000 // 48
    assert admit(1, paid=20_000).fits == 0
    assert admit(1, paid=20_000).wanted == 20_000


def test_more_fit_with_longer_intervals_and_the_stretch_says_how_long() -> None:
    found = admit(1000)
    assert found.fits < found.fits_stretched < 1200
    assert found.stretch == pytest.approx(48_000 / 9000)


def test_ten_thousand_first_runs_take_as_long_as_the_day_has_room_for_them() -> None:
    found = admit(10_000, costs=RunCosts(per_run={DataKind.ORDERS: 2.0}, first=15))
    assert found.calls_per_seller == 48 + 24
    assert found.first_calls == 150_000
    assert found.days == pytest.approx(150)
    assert admit(10).days < 1
