"""No minute at Printify's door ever holds more calls than it allows, whatever the network does."""

from collections import deque
from datetime import UTC, datetime

import pytest

from headway.clock import rng
from headway.core.accounts.jobs import Account
from headway.core.catalog.listings import LimitKey, SellerId
from headway.core.limits.memory import MemoryLimiter
from headway.core.limits.transitions import Granted, Permit, Resource
from headway.providers.printify.limits import (
    JITTER_S,
    account_limit_key,
    account_resource,
)
from headway_lab.platforms import PRINTIFY
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
SCOPE = LimitKey("printify:7")
RULES = {
    "all": (account_resource(SCOPE), 600, 60, 300),
}


def begins(resource: Resource, *, for_s: float, seed: int) -> list[float]:
    """Return when calls begin that are made as fast as the planner lets them."""
    clock, generator = VirtualClock(START), rng(seed)
    limiter = MemoryLimiter(clock, [resource])
    limiter.pause(resource.key, 0, "")
    clock.sleep(4000)
    started, begun = clock.monotonic(), list[float]()
    while clock.monotonic() < started + for_s:
        if generator.random() < 0.002:
            clock.sleep(generator.uniform(0, 30))
        permit = limiter.reserve(
            [resource.key], owner="w", purpose="read", max_wait_s=1e6, lease_s=60, grace_s=10
        )
        assert isinstance(permit, Permit)
        clock.sleep(permit.wait_s + 1e-6)
        assert isinstance(limiter.begin(permit), Granted)
        begun.append(clock.monotonic())
        limiter.settle(permit, sent=True, is_late=True)
    return begun


def most_in(span_s: float, times: list[float]) -> int:
    window, most = deque[float](), 0
    for at in times:
        window.append(at)
        while window[0] <= at - span_s:
            window.popleft()
        most = max(most, len(window))
    return most


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", range(2))
def test_no_span_ever_holds_more_than_printify_allows(name: str, seed: int) -> None:
    resource, limit, span_s, for_s = RULES[name]
    times = begins(resource, for_s=for_s, seed=seed)
    # What began within this may have arrived within the span: the early late, the late at once.
    assert most_in(span_s + JITTER_S, times) <= limit
    assert most_in(span_s, times) > 0.93 * limit, "the limit is used"


def test_all_shops_of_an_owner_share_one_limit() -> None:
    def account(shop: str, owner_id: str = "") -> Account:
        return Account(
            id=shop,
            user_id=SellerId("s"),
            platform=PRINTIFY,
            shop=shop,
            owner_id=owner_id,
        )

    assert (
        account_limit_key(account("12", "7"))
        == account_limit_key(account("13", "7"))
        == "printify:7"
    )
    assert account_limit_key(account("12")) == "printify:12"
