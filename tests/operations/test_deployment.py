"""Status and alerts, for a seller and for an operator."""

from datetime import timedelta

from tests.operations.sample import ACME, BEST, BEST_ONLY, HELD, PARKED, SHARED, SampleDeployment

from headway.operations.alerts import alerts
from headway.operations.deployment import status


def test_a_sellers_status_shows_nothing_of_other_sellers(sample: SampleDeployment) -> None:
    sample.add(BEST, "BEST/2")
    sample.add_event(BEST, BEST_ONLY, "sync_failed", error_message="broken")
    sample.execute(
        "UPDATE product_sync_schedule SET consecutive_failures = 2 WHERE sku = %s", BEST_ONLY
    )
    own_status, full_status = status(sample.seller(ACME)), status(sample.operator)
    text = str(own_status)
    assert str(BEST_ONLY) in str(full_status)
    for word in ("best", str(BEST_ONLY), "BEST/2"):
        assert word not in text
    assert (own_status.counts.total, full_status.counts.total) == (13, 16)
    assert own_status.counts.parked == 1
    assert [change.sku for change in own_status.storefront.held] == [HELD]
    assert [part.sku for part in own_status.storefront.failing] == ["P-3"]
    assert [part.sku for part in own_status.trouble] == [PARKED]
    assert {account.seller for account in own_status.accounts.accounts} == {ACME}
    assert {job.seller for job in own_status.accounts.queue} == {ACME}
    assert (own_status.calls, own_status.calls_per_hour, own_status.accounts.budgets) == (
        (),
        (),
        (),
    )


def test_a_seller_sees_of_other_sellers_seats_only_the_priority(
    sample: SampleDeployment,
) -> None:
    sample.execute("UPDATE product_sync_schedule SET next_sync_at = %s", sample.clock.now())
    sample.execute(
        "UPDATE product_sync_schedule SET priority = 'manual' WHERE sku = ANY(%s)",
        [BEST_ONLY, SHARED],
    )
    full_call, own_call = status(sample.operator).next_call, status(sample.seller(ACME)).next_call
    assert (own_call.leaves_at, own_call.why) == (full_call.leaves_at, full_call.why)
    assert [seat.priority for seat in own_call.seats] == [seat.priority for seat in full_call.seats]
    foreign_seats = [seat for seat in own_call.seats if seat.seller is None]
    assert [(seat.sku, seat.priority, seat.due_at) for seat in foreign_seats] == [
        (None, "manual", None)
    ]
    # A part that both sellers list takes one seat, and each seller sees it.
    for seller in (ACME, BEST):
        seats = status(sample.seller(seller)).next_call.seats
        assert (SHARED, seller) in {(seat.sku, seat.seller) for seat in seats}


def test_a_seller_sees_only_the_sellers_own_alerts(sample: SampleDeployment) -> None:
    sample.execute(
        "UPDATE connected_accounts SET status = 'disconnected', reason = 'revoked'"
        " WHERE user_id = 'best' AND platform = 'etsy'"
    )
    all_alerts = {(alert.name, alert.seller) for alert in alerts(sample.operator).alerts}
    assert {("held", None), ("parked", None), ("refused_by_shop", None)} <= all_alerts
    assert ("disconnected", BEST) in all_alerts
    own_alerts = alerts(sample.seller(ACME)).alerts
    assert "best" not in str(own_alerts)
    assert {(alert.name, alert.count) for alert in own_alerts} == {
        ("held", 1),
        ("parked", 1),
        ("refused_by_shop", 1),
    }


def test_only_the_owner_of_an_expiring_token_gets_the_alert(sample: SampleDeployment) -> None:
    ends_at = sample.clock.now() + timedelta(days=3)
    limit_keys = ("etsy:shop:102", "shopify:app:best.myshopify.com")
    for limit_key in limit_keys:
        for name, at in (("access", sample.clock.now()), ("refresh", ends_at)):
            sample.execute("INSERT INTO credential VALUES (%s, %s, 'x', %s)", limit_key, name, at)
    expiring = [
        alert for alert in alerts(sample.seller(BEST)).alerts if alert.name == "token_expiring"
    ]
    assert {alert.sentence.partition(" of best")[0] for alert in expiring} == {
        "The token of etsy 102",
        "The token of shopify best.myshopify.com",
    }
    assert not [
        alert for alert in alerts(sample.seller(ACME)).alerts if alert.name == "token_expiring"
    ]
    sample.execute(
        "UPDATE credential SET expires_at = %s WHERE name = 'refresh'", ends_at + timedelta(days=9)
    )
    assert not [
        alert for alert in alerts(sample.seller(BEST)).alerts if alert.name == "token_expiring"
    ]
