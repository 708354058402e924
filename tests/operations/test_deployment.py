"""The first screen and the alerts, of a seller or of everybody."""

from datetime import timedelta

from tests.operations.room import ACME, BEST, HELD, PARKED, SHARED, THEIRS, Room

from headway.operations.alerts import alerts
from headway.operations.deployment import status


def test_a_sellers_status_holds_nothing_of_another(room: Room) -> None:
    room.add(BEST, "BEST/2")
    room.event(BEST, THEIRS, "sync_failed", error_message="broken")
    room.ask("UPDATE product_sync_schedule SET consecutive_failures = 2 WHERE sku = %s", THEIRS)
    seen, whole = status(room.seller(ACME)), status(room.operator)
    text = str(seen)
    assert str(THEIRS) in str(whole)
    for word in ("best", str(THEIRS), "BEST/2"):
        assert word not in text
    assert (seen.counts.total, whole.counts.total) == (13, 16)
    assert seen.counts.parked == 1
    assert [each.sku for each in seen.storefront.held] == [HELD]
    assert [each.sku for each in seen.storefront.failing] == ["P-3"]
    assert [each.sku for each in seen.trouble] == [PARKED]
    assert {each.user_id for each in seen.accounts.accounts} == {ACME}
    assert {each.user_id for each in seen.accounts.queue} == {ACME}
    assert (seen.calls, seen.calls_per_hour, seen.accounts.budgets) == ((), (), ())


def test_a_seller_sees_of_other_sellers_seats_only_the_priority(
    room: Room,
) -> None:
    room.ask("UPDATE product_sync_schedule SET next_sync_at = %s", room.clock.now())
    room.ask(
        "UPDATE product_sync_schedule SET priority = 'manual' WHERE sku = ANY(%s)", [THEIRS, SHARED]
    )
    whole, seen = status(room.operator).next_call, status(room.seller(ACME)).next_call
    assert (seen.leaves_at, seen.why) == (whole.leaves_at, whole.why)
    assert [each.priority for each in seen.seats] == [each.priority for each in whole.seats]
    theirs = [each for each in seen.seats if each.user_id is None]
    assert [(each.sku, each.priority, each.due_at) for each in theirs] == [(None, "manual", None)]
    # A part that both list rides in one seat, and either knows it.
    for seller in (ACME, BEST):
        seats = status(room.seller(seller)).next_call.seats
        assert (SHARED, seller) in {(each.sku, each.user_id) for each in seats}


def test_a_seller_sees_only_the_sellers_own_alerts(room: Room) -> None:
    room.ask(
        "UPDATE connected_accounts SET status = 'disconnected', reason = 'revoked'"
        " WHERE user_id = 'best' AND platform = 'etsy'"
    )
    whole = {(each.name, each.seller) for each in alerts(room.operator).alerts}
    assert {("held", None), ("parked", None), ("refused_by_shop", None)} <= whole
    assert ("disconnected", BEST) in whole
    own = alerts(room.seller(ACME)).alerts
    assert "best" not in str(own)
    assert {(each.name, each.count) for each in own} == {
        ("held", 1),
        ("parked", 1),
        ("refused_by_shop", 1),
    }


def test_a_grant_that_ends_soon_is_told_to_its_own_seller(room: Room) -> None:
    ends_at = room.clock.now() + timedelta(days=3)
    limit_keys = ("etsy:shop:102", "shopify:app:best.myshopify.com")
    for limit_key in limit_keys:
        for name, at in (("access", room.clock.now()), ("refresh", ends_at)):
            room.ask("INSERT INTO credential VALUES (%s, %s, 'x', %s)", limit_key, name, at)
    told = [each for each in alerts(room.seller(BEST)).alerts if each.name == "token_expiring"]
    assert {each.sentence.partition(" of best")[0] for each in told} == {
        "The grant of etsy 102",
        "The grant of shopify best.myshopify.com",
    }
    assert not [each for each in alerts(room.seller(ACME)).alerts if each.name == "token_expiring"]
    room.ask(
        "UPDATE credential SET expires_at = %s WHERE name = 'refresh'", ends_at + timedelta(days=9)
    )
    assert not [each for each in alerts(room.seller(BEST)).alerts if each.name == "token_expiring"]
