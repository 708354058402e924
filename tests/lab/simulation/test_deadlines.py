"""Law L3 in the small: which listing is overdue, and what excuses it."""

from headway_lab.simulation.deadlines import Deadlines, Promise
from headway_lab.simulators.faults import Interval

HOUR_S = 3600.0


def never_excused(_id: str) -> bool:
    return False


def test_a_listing_is_overdue_once_it_is_older_than_promised_and_only_once() -> None:
    deadlines = Deadlines(["a", "b"], Promise(age_max_s=25 * HOUR_S, load=0.2))
    deadlines.read("a", 10 * HOUR_S)
    assert list(deadlines.overdue(25 * HOUR_S, never_excused)) == []
    assert list(deadlines.overdue(25 * HOUR_S + 1, never_excused)) == ["b"]
    assert list(deadlines.overdue(34 * HOUR_S, never_excused)) == []
    assert list(deadlines.overdue(36 * HOUR_S, never_excused)) == ["a"]


def test_an_outage_excuses_until_the_backlog_is_worked_off_and_an_hour_more() -> None:
    outage = Interval(start_s=20 * HOUR_S, end_s=26 * HOUR_S)
    deadlines = Deadlines(["a"], Promise(age_max_s=25 * HOUR_S, load=0.25, outages=[outage]))
    assert list(deadlines.overdue(28 * HOUR_S, never_excused)) == []
    assert list(deadlines.overdue(29 * HOUR_S + 1, never_excused)) == ["a"]


def test_an_outage_before_the_last_read_excuses_nothing() -> None:
    outage = Interval(start_s=1 * HOUR_S, end_s=2 * HOUR_S)
    deadlines = Deadlines(["a"], Promise(age_max_s=25 * HOUR_S, load=0.9, outages=[outage]))
    deadlines.read("a", 3 * HOUR_S)
    assert list(deadlines.overdue(28.1 * HOUR_S, never_excused)) == ["a"]


def test_the_loss_of_one_worker_excuses_nothing_and_of_a_second_only_the_time_to_notice_it() -> (
    None
):
    deadlines = Deadlines(["a", "b", "c"], Promise(age_max_s=25 * HOUR_S, load=0.2))
    deadlines.claimed(["a", "b", "c"])
    deadlines.claimed(["b", "c"])
    deadlines.released(["c"])
    assert set(deadlines.overdue(25 * HOUR_S + 1, never_excused)) == {"a", "c"}
    assert list(deadlines.overdue(25.1 * HOUR_S, never_excused)) == []
    assert list(deadlines.overdue(25.1 * HOUR_S + 1, never_excused)) == ["b"]


def test_evidence_against_the_sku_itself_excuses_while_it_lasts() -> None:
    deadlines = Deadlines(["a"], Promise(age_max_s=25 * HOUR_S, load=0.2))
    assert list(deadlines.overdue(30 * HOUR_S, lambda _id: True)) == []
    assert list(deadlines.overdue(32 * HOUR_S, never_excused)) == ["a"]


def test_the_worst_age_is_honest_at_reads_and_at_the_end() -> None:
    deadlines = Deadlines(["a", "b"], Promise(age_max_s=25 * HOUR_S, load=0.2))
    deadlines.read("a", 26 * HOUR_S)
    assert deadlines.worst_age_s == 26 * HOUR_S
    deadlines.close(30 * HOUR_S, ["a", "b"])
    assert deadlines.worst_age_s == 30 * HOUR_S
