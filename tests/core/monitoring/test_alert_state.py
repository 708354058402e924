"""Alert states: a short blip is ignored, one cause is sent once, and its end is sent once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headway.core.monitoring.alert_state import AlertPhase, AlertState, next_states
from headway.core.monitoring.alerts import Alert, Severity
from headway.core.monitoring.burn_rate import FAST, SLOW, burn
from headway.core.monitoring.rules import RULES

START = datetime(2026, 3, 4, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
OVERDUE = Alert(name="overdue", severity=Severity.WARNING, sentence="101 parts are due.")
DOWN = Alert(name="supplier_down", severity=Severity.CRITICAL, sentence="No answer.")
Sent = list[tuple[int, str, AlertPhase]]


def watch(*minutes: list[Alert]) -> Sent:
    """Judge minute after minute, and return what was sent when."""
    states: dict[tuple[str, str], AlertState] = {}
    sent: Sent = []
    for minute, alerts in enumerate(minutes):
        decision = next_states(list(states.values()), alerts, START + minute * MINUTE)
        states = {state.key: state for state in decision.kept}
        sent += [(minute, change.state.alert.name, change.phase) for change in decision.changes]
    return sent


def test_a_lasting_alert_is_sent_once_and_again_when_it_is_over() -> None:
    sent = watch(*[[OVERDUE]] * 30, *[[]] * 30)
    assert sent == [(2, "overdue", AlertPhase.FIRED), (40, "overdue", AlertPhase.RESOLVED)]


def test_a_blip_is_no_news() -> None:
    assert watch(*[[OVERDUE], [OVERDUE], []] * 20) == []


def test_what_comes_back_before_it_is_over_is_the_same_trouble() -> None:
    sent = watch(*[[OVERDUE]] * 5, *[[], [], [OVERDUE]] * 10)
    assert sent == [(2, "overdue", AlertPhase.FIRED)]


def test_what_comes_back_after_it_was_over_is_new_trouble() -> None:
    sent = watch(*[[OVERDUE]] * 4, *[[]] * 15, *[[OVERDUE]] * 4)
    assert [word for _, _, word in sent] == [
        AlertPhase.FIRED,
        AlertPhase.RESOLVED,
        AlertPhase.FIRED,
    ]


def test_an_alert_that_gets_worse_is_sent_again_and_one_that_swings_is_not() -> None:
    mild = replace(OVERDUE, name="error_share")
    bad = replace(mild, severity=Severity.CRITICAL)
    sent = watch(*[[mild]] * 4, *[[bad], [mild]] * 10)
    assert sent == [(2, "error_share", AlertPhase.FIRED), (4, "error_share", AlertPhase.WORSE)]


def test_an_alert_of_the_lowest_severity_is_never_sent() -> None:
    assert watch(*[[replace(OVERDUE, severity=Severity.NOTICE)]] * 30) == []


def test_alerts_caused_by_an_outage_are_not_sent_beside_it_nor_right_after() -> None:
    sent = watch(*[[DOWN, OVERDUE]] * 30, *[[OVERDUE]] * 60, *[[]] * 20)
    assert sent == [
        (1, "supplier_down", AlertPhase.FIRED),
        (33, "supplier_down", AlertPhase.RESOLVED),
    ]


def test_what_stays_long_after_an_outage_is_trouble_of_its_own() -> None:
    sent = watch(*[[DOWN, OVERDUE]] * 30, *[[OVERDUE]] * 240)
    assert [name for _, name, _ in sent] == ["supplier_down", "supplier_down", "overdue"]


def test_each_subject_has_its_own_alert() -> None:
    one, other = (replace(OVERDUE, name="shop_refused", subject=subject) for subject in ("a", "b"))
    assert [word for _, _, word in watch(*[[one]] * 4, *[[one, other]] * 4)] == [
        AlertPhase.FIRED
    ] * 2


def test_a_shop_whose_platform_is_down_does_not_begin_but_may_go_on() -> None:
    early, late = (
        replace(OVERDUE, name="shop_refused", subject=f"{seller} etsy 7", under="etsy")
        for seller in ("a", "b")
    )
    elsewhere = replace(late, subject="c shopify", under="shopify")
    platform = replace(late, subject="etsy", under="")
    states: dict[tuple[str, str], AlertState] = {}
    sent: list[tuple[int, str, AlertPhase]] = []
    alone, all_of_them = [[early]] * 4, [[early, platform, late, elsewhere]] * 4
    for minute, alerts in enumerate([*alone, *all_of_them, *[[late]] * 8, *[[]] * 4]):
        decision = next_states(list(states.values()), alerts, START + minute * MINUTE)
        states = {state.key: state for state in decision.kept}
        sent += [(minute, change.state.alert.subject, change.phase) for change in decision.changes]
    assert sent == [
        (2, "a etsy 7", AlertPhase.FIRED),
        (6, "c shopify", AlertPhase.FIRED),
        (6, "etsy", AlertPhase.FIRED),
        (11, "a etsy 7", AlertPhase.RESOLVED),
        (11, "c shopify", AlertPhase.RESOLVED),
        (11, "etsy", AlertPhase.RESOLVED),
    ]


def test_every_rule_fires_within_five_minutes() -> None:
    for rule in RULES:
        assert rule.fires_after < 5 * MINUTE, rule.name
        if rule.severity != Severity.NOTICE:
            alert = replace(OVERDUE, name=rule.name, severity=rule.severity)
            ((minute, _, word),) = watch(*[[alert]] * 6)
            assert (minute <= 4, word) == (True, AlertPhase.FIRED), rule.name


@given(st.lists(st.booleans(), max_size=80))
def test_news_alternates_whatever_comes_and_goes(wrong: list[bool]) -> None:
    words = [word for _, _, word in watch(*[[OVERDUE] if is_wrong else [] for is_wrong in wrong])]
    assert words == [(AlertPhase.FIRED, AlertPhase.RESOLVED)[at % 2] for at in range(len(words))]


def kept(*shares: float) -> list[tuple[datetime, float]]:
    """Return shares as they were kept, every five minutes up to now."""
    ages = reversed(range(len(shares)))
    return [(START - 5 * age * MINUTE, share) for age, share in zip(ages, shares, strict=True)]


def test_a_promise_kept_just_so_burns_at_one() -> None:
    assert round(burn(kept(*[0.95] * 72), START, FAST, promised=0.95), 6) == 1


def test_a_dip_of_ten_minutes_burns_neither_fast_nor_slow() -> None:
    shares = kept(*[1.0] * 70, 0.5, 0.5)
    assert burn(shares, START, FAST, promised=0.95) < 6
    assert burn(shares, START, SLOW, promised=0.95) < 1.5


def test_what_is_over_burns_no_more_though_the_long_span_remembers_it() -> None:
    shares = kept(*[0.0] * 68, *[1.0] * 4)
    assert burn(shares, START, FAST, promised=0.95) == 0


def test_nothing_known_burns_nothing() -> None:
    assert burn([], START, FAST, promised=0.95) == 0


def test_an_alert_that_fires_and_resolves_again_and_again_becomes_one() -> None:
    refused = replace(OVERDUE, name="shop_refused", subject="acme etsy 7")
    sent = watch(*([[refused]] * 20 + [[]] * 18) * 37)
    fired = [minute for minute, _, phase in sent if phase is AlertPhase.FIRED]
    assert len(fired) <= 3, "the third time it stays open over the pauses"
    assert fired[-1] < 120


def test_a_flapping_alert_still_ends_once_it_is_quiet() -> None:
    refused = replace(OVERDUE, name="shop_refused", subject="acme etsy 7")
    sent = watch(*([[refused]] * 20 + [[]] * 18) * 10, *[[]] * (7 * 60))
    assert sent[-1][2] is AlertPhase.RESOLVED


def test_what_flaps_below_the_time_to_fire_does_not_end_the_memory_of_flapping() -> None:
    refused = replace(OVERDUE, name="shop_refused", subject="acme etsy 7")
    flaps = ([[refused]] * 5 + [[]] * 5) * 2
    sent = watch(*flaps, *[[refused], []] * 3, *[[]] * 60, *flaps, *[[]] * 30)
    assert [phase for _, _, phase in sent].count(AlertPhase.FIRED) == 3


def test_after_a_quiet_day_an_alert_resolves_as_fast_as_at_first() -> None:
    resolved_at = START - 25 * 60 * MINUTE
    old = AlertState(
        alert=OVERDUE, since=resolved_at, fired_at=resolved_at, resolved_at=resolved_at, repeats=4
    )
    (state,) = next_states([old], [OVERDUE], START).kept
    assert (state.repeats, state.is_pending) == (0, True)
