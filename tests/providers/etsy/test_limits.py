"""Etsy's limits: what replies say of them, and that the bucket keeps the second."""

from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.limits.transitions import Observation
from headway.providers.etsy.limits import JITTER_S, day_resource, read_limits, second_resource

GOOD = {
    "x-limit-per-second": "10",
    "x-remaining-this-second": "7",
    "x-limit-per-day": "10000",
    "x-remaining-today": "9000",
}


def test_a_reply_says_what_is_used() -> None:
    assert read_limits(httpx.Headers(GOOD), "k") == {
        "etsy:k:second": Observation(used=3, capacity=2, restore_per_s=8),
        "etsy:k": Observation(used=1000, capacity=10_000),
    }


@pytest.mark.parametrize("name", sorted(GOOD))
@pytest.mark.parametrize("value", ("", "many", "-1", "1e3", "10001", "99999999999", "1.5", "0"))
def test_what_makes_no_sense_says_nothing(name: str, value: str) -> None:
    if "remaining" in name and value == "0":
        return  # that is sense: nothing is left
    about = "day" if "day" in name else "second"
    limits = read_limits(httpx.Headers({**GOOD, name: value}), "k")
    other = "etsy:k:second" if about == "day" else "etsy:k"
    mine = "etsy:k" if about == "day" else "etsy:k:second"
    assert other in limits
    if value == "10001" and name.startswith("x-limit"):
        assert mine in limits
    else:
        assert mine not in limits
    assert read_limits(httpx.Headers({}), "k") == {}


@given(limit=st.integers(1, 500))
def test_a_bucket_lets_no_more_than_the_limit_into_a_second(limit: int) -> None:
    (bucket,) = second_resource("k", limit=limit).buckets
    assert bucket.capacity + bucket.rate_per_s * (1 + JITTER_S) <= limit + 1 + 1e-9
    assert bucket.rate_per_s > 0
    # The busiest worker begins as soon as it may; each call arrives somewhat later.
    begins = [0.0] * int(bucket.capacity)
    begins += [number / bucket.rate_per_s for number in range(1, 3 * limit)]
    late = [begin + JITTER_S * (place % 2) for place, begin in enumerate(begins)]
    arrivals = sorted(late)
    assert all(later - first > 0.999 for first, later in pairwise(arrivals[::limit]))


def test_the_day_is_a_rolling_quota_of_hours() -> None:
    resource = day_resource("k", limit=10_000)
    (quota,) = resource.quotas
    assert (resource.key, quota.limit, quota.span_s, quota.bucket_s) == (
        "etsy:k",
        10_000,
        86_400,
        3600,
    )
    assert quota.is_rolling
    assert second_resource("k", limit=10).key == "etsy:k:second"
