from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.catalog.listings import Evidence
from headway.core.timetable.rates import BINS, GRID, RATES, Prior, Recency, bin_of, learn

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
counts = st.floats(0, 1000)
gaps = st.floats(0, 40)
rates = st.floats(1e-5, 50)


def test_rates_lie_on_a_logarithmic_grid() -> None:
    assert len(GRID) == RATES == 28
    assert GRID[0] == 0.0005
    assert GRID[-1] == pytest.approx(24)
    assert GRID[1] / GRID[0] == pytest.approx(GRID[-1] / GRID[-2])


def test_who_was_never_watched_has_the_rate_of_the_catalog() -> None:
    assert Prior().rate(Evidence()) == pytest.approx(Prior().mean)
    assert Prior().mean == pytest.approx(0.05, rel=0.05)


@given(changes=counts, days=counts)
def test_a_rate_is_always_finite_and_on_the_grid(changes: float, days: float) -> None:
    rate = Prior().rate(Evidence(changes_seen=changes, watched_days=days))
    assert GRID[0] <= rate <= GRID[-1] * (1 + 1e-9)


@given(changes=st.floats(0, 50), days=st.floats(0.1, 200))
def test_a_change_more_raises_the_rate_and_a_day_more_lowers_it(
    changes: float, days: float
) -> None:
    rate = Prior().rate(Evidence(changes_seen=changes, watched_days=days))
    more_changes = Prior().rate(Evidence(changes_seen=changes + 1, watched_days=days))
    more_days = Prior().rate(Evidence(changes_seen=changes, watched_days=days + 1))
    assert more_days < rate < more_changes


def test_much_evidence_overrules_the_prior() -> None:
    for truth in (0.01, 0.3, 6.0):
        evidence = Evidence(changes_seen=400, watched_days=400 / truth)
        assert Prior().rate(evidence) == pytest.approx(truth, rel=0.1)


def test_a_fast_mover_is_known_within_a_day() -> None:
    assert Prior().rate(Evidence(changes_seen=10, watched_days=0.5)) > 10


def test_a_fit_finds_that_all_listings_are_alike() -> None:
    # Poisson counts at 0.2 a day in 20 days.
    poisson = (18, 73, 147, 195, 195, 156, 104, 60, 30, 13, 5, 2)
    prior = Prior()
    for _ in range(5):
        prior = prior.refit((float(k), 20.0, count) for k, count in enumerate(poisson))
    assert prior.rate(Evidence(changes_seen=4, watched_days=20)) == pytest.approx(0.2, rel=0.1)
    assert prior.rate(Evidence(changes_seen=9, watched_days=20)) < 0.3
    assert Prior().rate(Evidence(changes_seen=9, watched_days=20)) > 0.33


def test_a_fit_leaves_every_rate_thinkable_and_adds_up() -> None:
    prior = Prior().refit([(0.0, 30.0, 5000)])
    assert sum(prior.shares) == pytest.approx(1)
    assert min(prior.shares) > 0
    assert Prior().refit([]) == Prior()


@given(changes=counts, days=counts, gap=gaps, rate=rates, has_changed=st.booleans())
def test_evidence_is_never_negative_and_never_more_than_there_was(
    changes: float, days: float, gap: float, rate: float, *, has_changed: bool
) -> None:
    before = Evidence(changes_seen=changes, watched_days=days)
    after = learn(before, gap_days=gap, rate=rate, has_changed=has_changed, at=NOW)
    assert 0 <= after.changes_seen <= changes + 1.2
    assert 0 <= after.watched_days <= days + gap
    assert after.changed_at == (NOW if has_changed else None)


def test_a_change_in_a_short_gap_counts_one_and_half_the_gap() -> None:
    after = learn(Evidence(), gap_days=0.1, rate=0.01, has_changed=True, at=NOW)
    assert after.changes_seen == pytest.approx(1, abs=0.001)
    assert after.watched_days == pytest.approx(0.05, abs=0.001)


def test_a_change_that_was_certain_teaches_nothing() -> None:
    after = learn(Evidence(), gap_days=10, rate=20, has_changed=True, at=NOW)
    assert (after.changes_seen, after.watched_days) == (0, 0)


def test_reads_at_the_true_rate_find_it_however_long_the_gaps() -> None:
    for gap_days in (0.2, 2.0):
        evidence, rate, truth = Evidence(), 0.5, 0.5
        chance, owed = 1 - 2.718281828 ** (-truth * gap_days), 0.0
        for _ in range(600):
            owed += chance
            has_changed = owed >= 1
            owed -= has_changed
            evidence = learn(
                evidence, gap_days=gap_days, rate=rate, has_changed=has_changed, at=NOW
            )
            rate = Prior().rate(evidence)
        assert rate == pytest.approx(truth, rel=0.25)


def test_old_news_is_forgotten() -> None:
    evidence = Evidence(changes_seen=10, watched_days=50)
    for _ in range(90):
        evidence = learn(evidence, gap_days=1, rate=0.1, has_changed=False, at=NOW)
    assert evidence.changes_seen == pytest.approx(10 * 2.718281828**-2)
    assert evidence.watched_days < 50


def test_a_change_that_a_list_explains_is_not_the_listings_own() -> None:
    before = Evidence(changes_seen=1, watched_days=10, changed_at=NOW - HOUR)
    after = learn(before, gap_days=0.1, rate=0.1, has_changed=True, at=NOW, share=0.0)
    assert after.changes_seen < 1
    assert after.changed_at == NOW - HOUR


def test_recency_bins_follow_one_another() -> None:
    assert bin_of(None) is None
    assert [bin_of(end - HOUR / 60) for end in BINS] == list(range(8))
    assert bin_of(BINS[-1]) is None


def test_who_changed_lately_changes_more_often_if_that_was_seen() -> None:
    assert Recency().factor(HOUR) == 1
    recency = Recency().plus((0.0, 45.0), (0.0, 5.0))
    assert recency.factor(2 * HOUR) == 3
    assert recency.factor(HOUR / 2) == 1
    assert recency.factor(None) == recency.factor(timedelta(days=9)) == 1
    assert Recency().plus((1e6,), (0.0,)).factor(HOUR / 2) == 8
    assert Recency().plus((0.0,), (1e6,)).factor(HOUR / 2) == 0.3


def test_recency_counts_add_up_and_fade() -> None:
    recency = Recency(hits=(1.0,), hits_expected=(2.0,)).plus((1.0, 3.0), (0.0, 1.0))
    assert (recency.hits, recency.hits_expected) == ((2.0, 3.0), (2.0, 1.0))
    assert recency.plus((), ()) == recency
    assert recency.decayed().hits == pytest.approx((1.94, 2.91))
