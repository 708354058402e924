"""How much of a limit is left to whatever else uses the credential."""

from datetime import UTC, datetime, timedelta

import pytest

from headway.core.limits.shared_key import CALM, REMEMBERED, learned_share

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("hours_ago", "share"),
    (
        ((), 1),
        ((0.1,), 0.5),
        ((5.9,), 0.5),
        ((6.1,), 1),
        ((0.1, 0.2), 0.5),
        ((0.1, 0.7), 0.25),
        ((0.1, 0.7, 1.3, 1.9, 2.5), 0.125),
        ((7, 8), 0.5),
        ((7, 0.1), 0.5),
    ),
)
def test_each_refusal_halves_the_share_and_each_calm_span_doubles_it(
    hours_ago: tuple[float, ...], share: float
) -> None:
    assert learned_share([NOW - ago * HOUR for ago in hours_ago], NOW) == share


def test_a_refusal_in_the_future_and_one_beyond_memory_change_nothing() -> None:
    assert learned_share([NOW + HOUR, NOW - REMEMBERED], NOW) == 1
    assert learned_share([NOW - REMEMBERED] * 9, NOW) == 1
    assert CALM * 3 < REMEMBERED
