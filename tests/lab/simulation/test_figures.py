"""The results of changes: detected, superseded, lost; and how long the shop is wrong."""

from headway.core.catalog.listings import SellerId, Sku
from headway_lab.simulation.figures import Figures, percentile
from headway_lab.simulation.shops import ShownListing


def always(_changed_s: float) -> bool:
    return True


def shop_listing(price: int = 1) -> ShownListing:
    shop_fields = {"price": price, "stock at Miami": 5, "status": "ACTIVE"}
    return ShownListing(id="id", seller=SellerId("acme"), sku=Sku("A"), shop_fields=shop_fields)


def shop_fields(price: int, stock: int = 5) -> dict[str, int]:
    return {"price": price, "stock at Miami": stock}


def test_a_shop_is_wrong_from_the_change_until_it_shows_it() -> None:
    shown = shop_listing()
    figures = Figures({"id": shown})
    figures.changed("A", shop_fields(2), 100)
    figures.read("id", served_s=160, now_s=161, is_moot=False)
    shown.write("price", 2)
    figures.shown("id", 165)
    tally = figures.close(1000, may_wait=always)
    assert (tally.changes, tally.wrong_s, tally.detection_s) == (1, 65, (61,))


def test_of_two_changes_before_a_read_the_first_is_superseded() -> None:
    figures = Figures({"id": shop_listing()})
    figures.changed("A", shop_fields(2), 100)
    figures.changed("A", shop_fields(3), 200)
    figures.read("id", served_s=260, now_s=260, is_moot=False)
    tally = figures.close(1000, may_wait=always)
    assert (tally.changes, tally.superseded, tally.detection_s) == (2, 1, (60,))


def test_changes_that_cancel_each_other_are_all_superseded() -> None:
    figures = Figures({"id": shop_listing()})
    figures.changed("A", shop_fields(2), 100)
    figures.changed("A", shop_fields(1), 150)
    figures.read("id", served_s=260, now_s=260, is_moot=True)
    tally = figures.close(1000, may_wait=always)
    assert (tally.superseded, tally.wrong_s) == (2, 50)


def test_a_change_while_the_reply_travels_is_still_unread() -> None:
    figures = Figures({"id": shop_listing()})
    figures.changed("A", shop_fields(2), 105)
    figures.read("id", served_s=100, now_s=110, is_moot=True)
    tally = figures.close(200, may_wait=lambda _changed_s: False)
    assert tally.lost == (("A", 105),)
    assert tally.wrong_s == 95


def test_what_no_shop_can_show_is_no_change() -> None:
    figures = Figures({"id": shop_listing()})
    figures.changed("A", shop_fields(1), 100)
    assert figures.close(1000, may_wait=always).changes == 0


def test_a_read_that_never_reaches_the_shop_is_detected_and_stays_wrong() -> None:
    figures = Figures({"id": shop_listing()})
    figures.changed("A", shop_fields(2), 100)
    figures.read("id", served_s=160, now_s=160, is_moot=False)
    tally = figures.close(200, may_wait=lambda _changed_s: False)
    assert (tally.lost, tally.wrong_s) == ((), 100)


def test_sales_are_not_wrong_but_edits_of_a_merchant_are() -> None:
    shown = shop_listing()
    figures = Figures({"id": shown})
    shown.take("stock at Miami", 2)
    figures.shown("id", 100)
    assert figures.close(200, may_wait=always).wrong_s == 0
    shown.change_by_hand("price", 9, 200)
    figures.shown("id", 200)
    assert figures.close(300, may_wait=always).wrong_s == 100


def test_percentiles_of_nothing_are_nothing() -> None:
    assert percentile((), 0.5) is None
    assert percentile((1, 2, 3, 4), 0.5) == 3
