"""Where the backfill of a shop's payments begins."""

from tests.providers.etsy.test_pagination import DAY_S, NOW_S, Shop, at, run

from headway.providers.etsy.ledger_pages import LedgerWalk


def test_the_ledgers_backfill_of_a_young_shop_begins_with_the_shop() -> None:
    shop = Shop(created_s=NOW_S - 40 * DAY_S)
    shop.add(NOW_S - 40 * DAY_S)
    step = run(LedgerWalk(is_backfill=True), shop, {})
    assert [ask.what for ask in shop.asks] == ["shop", "ledger", "ledger"]
    assert shop.held == shop.rows
    run(LedgerWalk(is_backfill=True), shop, step.cursor)
    assert [ask.what for ask in shop.asks].count("shop") == 1


def test_a_shop_that_cannot_be_read_or_was_created_tomorrow_ends_no_backfill() -> None:
    walk, shop = LedgerWalk(is_backfill=True), Shop(created_s=NOW_S + 5 * DAY_S)
    begun = walk.begin({}, at(NOW_S), ())
    narrowed = walk.narrow(begun, "HTTP 500", at(NOW_S), is_repeated=False)
    assert narrowed is not None
    assert not narrowed.is_failure
    assert walk.ask(narrowed.cursor).values["min_created"] == NOW_S - 60 - 730 * DAY_S
    assert run(walk, shop, {}).is_done
