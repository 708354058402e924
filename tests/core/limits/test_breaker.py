from datetime import UTC, datetime, timedelta

from headway.core.limits.breaker import Breaker

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def tripped(times: int) -> Breaker:
    breaker = Breaker()
    for _ in range(times):
        breaker = breaker.failed(NOW, "503")
    return breaker


def test_two_failures_in_a_row_do_not_open_it_and_three_do() -> None:
    assert not tripped(2).is_open
    assert tripped(3).blocked_until(NOW) == NOW + timedelta(minutes=1)


def test_each_failed_probe_doubles_the_pause_up_to_a_quarter_of_an_hour() -> None:
    pauses = [tripped(n).open_until for n in range(3, 9)]
    assert [(at - NOW).total_seconds() / 60 for at in pauses if at] == [1, 2, 4, 8, 15, 15]


def test_when_the_pause_is_over_one_probe_may_go_and_no_second() -> None:
    breaker = tripped(3)
    later = NOW + timedelta(minutes=1)
    assert breaker.blocked_until(later) is None
    assert breaker.probing(later).blocked_until(later) == later + timedelta(minutes=2)


def test_one_good_answer_closes_it_and_forgets() -> None:
    assert tripped(5).succeeded() == Breaker()


def test_it_remembers_when_the_trouble_began_and_why() -> None:
    breaker = tripped(3).failed(NOW + timedelta(minutes=5), "timeout")
    assert breaker.opened_at == NOW
    assert breaker.reason == "timeout"


def test_a_closed_breaker_needs_no_probe() -> None:
    assert Breaker(failures=1).probing(NOW) == Breaker(failures=1)
