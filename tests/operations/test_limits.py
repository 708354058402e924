"""Limits and their ledgers, by names without internal ids."""

from datetime import timedelta

import pytest
from tests.operations.sample import HOUR, SampleDeployment

from headway.errors import InvalidError, NotFoundError
from headway.operations.limits import ledger, limits


def test_limits_are_named_without_the_apps_own_ids(sample: SampleDeployment) -> None:
    caller, limiter = sample.operator, sample.app.limiter
    limiter.create(
        [
            "boeing:",
            "etsy:",
            "etsy::second",
            "shopify:app:acme.myshopify.com",
            "printify:200",
            "shopify:another-app:acme.myshopify.com",
        ]
    )
    names = ["boeing", "etsy:day", "etsy:second", "printify:200", "shopify:acme.myshopify.com"]
    views = limits(caller, limit=50).items
    assert [view.name for view in views] == names
    after = limits(caller, limit=50, cursor=views[3].cursor).items
    assert [view.name for view in after] == names[4:]
    next_one = limits(caller, limit=1, cursor=views[3].cursor).items
    assert [view.name for view in next_one] == names[4:], "past a key that has no name"
    with pytest.raises(InvalidError, match="cursor"):
        limits(caller, limit=50, cursor="printify:200")
    assert limits(caller, limit=1).items[0].gauges[0].limit == 2
    with pytest.raises(NotFoundError):
        ledger(caller, name="ebay", limit=1)


def test_the_ledger_lists_the_newest_call_first(sample: SampleDeployment) -> None:
    now = sample.clock.now()
    for minute in range(3):
        sample.execute(
            "INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until,"
            " skus) VALUES (gen_random_uuid(), 'boeing:', 'test', 1, %s, %s, '{A=B}')",
            *(now + minute * timedelta(minutes=1), now + HOUR),
        )
    first, second, third = ledger(sample.operator).items
    assert (first.begun_at, first.skus) == (now + timedelta(minutes=2), ("A=B",))
    assert ledger(sample.operator, cursor=first.cursor).items == (second, third)
    assert ledger(sample.operator, until=second.begun_at).items == (third,)
    assert ledger(sample.operator, since=second.begun_at).items == (first, second)
