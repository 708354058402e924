"""What becomes of changes: seen, superseded, lost; and how long the shop is wrong."""

from decimal import Decimal

from headway.simulation.figures import Figures, percentile
from headway.simulation.truth import Sight


def sight(price: int) -> Sight:
    amount = Decimal(price)
    return Sight(list_price=amount, net_price=amount, price=amount, cost=amount, stock=())


def always(_changed_s: float) -> bool:
    return True


def followed() -> Figures:
    return Figures({"id": "A"}, {"A": sight(1)})


def test_a_change_counts_as_wrong_from_its_instant_until_it_is_settled() -> None:
    figures = followed()
    figures.changed("A", sight(2), 100)
    figures.read("id", sight(2), served_s=160, now_s=161, is_held=False)
    tally = figures.close(1000, may_wait=always)
    assert (tally.changes, tally.wrong_s, tally.detection_s) == (1, 61, (61,))


def test_of_two_changes_before_a_read_the_first_is_superseded() -> None:
    figures = followed()
    figures.changed("A", sight(2), 100)
    figures.changed("A", sight(3), 200)
    figures.read("id", sight(3), served_s=260, now_s=260, is_held=False)
    tally = figures.close(1000, may_wait=always)
    assert (tally.changes, tally.superseded, tally.detection_s) == (2, 1, (60,))


def test_what_changes_while_the_answer_travels_is_still_unread() -> None:
    figures = followed()
    figures.changed("A", sight(2), 105)
    figures.read("id", sight(1), served_s=100, now_s=110, is_held=False)
    tally = figures.close(200, may_wait=lambda _changed_s: False)
    assert tally.lost == (("A", 105),)
    assert tally.wrong_s == 95


def test_a_change_that_goes_back_is_wrong_only_while_it_lasts() -> None:
    figures = followed()
    figures.changed("A", sight(2), 100)
    figures.changed("A", sight(1), 150)
    assert figures.close(1000, may_wait=always).wrong_s == 50


def test_what_no_shop_can_show_is_no_change() -> None:
    figures = followed()
    figures.changed("A", sight(1), 100)
    assert figures.close(1000, may_wait=always).changes == 0


def test_a_held_read_is_seen_but_the_shop_stays_wrong() -> None:
    figures = followed()
    figures.changed("A", sight(2), 100)
    figures.read("id", sight(2), served_s=160, now_s=160, is_held=True)
    tally = figures.close(200, may_wait=lambda _changed_s: False)
    assert (tally.lost, tally.wrong_s) == ((), 100)


def test_percentiles_of_nothing_are_nothing() -> None:
    assert percentile((), 0.5) is None
    assert percentile((1, 2, 3, 4), 0.5) == 3
