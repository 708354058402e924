"""Prices in bulk when things go wrong: lost calls, deaths, operations that fail or never end."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.bulk_setup import (
    LISTINGS,
    Wire,
    bulk_service,
    check_once,
    fill,
    finish,
    operations,
    prices,
    pusher,
    reach,
    rebuilt,
    slow_down,
    want_all,
)
from tests.engine.shop_setup import Shops, make_shops, wanted

from headway.clock import fresh_id
from headway.core.catalog.storefront import BulkIntent, Intent, PushLease, WriteKind
from headway.providers.shopify.storefront import shop_limit_key, store_tokens
from headway.providers.vault import open_vault
from headway.store.accounts.credentials import Credentials
from headway.store.catalog.bulk import Bulks
from headway_lab.simulation.crashes import Crashed, CrashingPool, CrashingTransport, FaultInjector
from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.shopify import bulk
from headway_lab.virtual_clock import VirtualClock

LEASE_OVER_S = 60 + 180 + 1
DAY = timedelta(days=1)
UPDATED = "SELECT count(*) FROM sync_audit_log WHERE event_type = 'shopify_updated'"


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    return make_shops(pool, clock, tmp_path)


def live(shops: Shops, injector: FaultInjector) -> bool:
    """Be a pusher until the work is done; False if its life ended before."""
    crashing_pool: Any = CrashingPool(shops.pool, injector)
    app = rebuilt(shops, CrashingTransport(Wire(shops).transport(), injector), crashing_pool)
    try:
        finish(shops, pusher(app))
    except Crashed:
        return False
    return True


def test_each_price_is_written_once_wherever_the_pusher_dies(shops: Shops) -> None:
    fill(shops)
    live(shops, FaultInjector(shops.clock))
    for touches in itertools.count():
        want_all(shops, f"{13 + touches / 100:.2f}")
        injector = FaultInjector(shops.clock)
        injector.crash_after(touches)
        has_survived = live(shops, injector)
        if not has_survived:
            shops.clock.sleep(LEASE_OVER_S)
            assert live(shops, FaultInjector(shops.clock))
        check_once(shops, times=touches + 2)
        assert len(operations(shops)) == touches + 2
        assert shops.one(UPDATED) == LISTINGS * (touches + 2), f"events at touch {touches}"
        if has_survived:
            assert touches > 60, "the pusher touched far fewer things than it must"
            return


class StallingPool:
    """Connections of a worker that is kept waiting for one of them."""

    def __init__(self, pool: ConnectionPool, touches: int, stall: Callable[[], None]) -> None:
        self._pool = pool
        self._stall = stall
        self.touches_left = touches

    def connection(self) -> Any:
        self.touches_left -= 1
        if self.touches_left == 0:
            self._stall()
        return self._pool.connection()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)


@pytest.mark.parametrize("is_replaced", (True, False))
def test_each_price_is_written_once_wherever_the_pusher_stalls(
    shops: Shops, *, is_replaced: bool
) -> None:
    """It sleeps until its permit is no longer good; or so long that another does all its work."""

    def stall() -> None:
        shops.clock.sleep(LEASE_OVER_S if is_replaced else 20)
        assert not is_replaced or live(shops, FaultInjector(shops.clock))

    fill(shops)
    live(shops, FaultInjector(shops.clock))
    for touches in itertools.count(1):
        want_all(shops, f"{13 + touches / 100:.2f}")
        pool = StallingPool(shops.pool, touches, stall)
        finish(shops, pusher(rebuilt(shops, Wire(shops).transport(), pool)))
        check_once(shops, times=touches + 1)
        assert len(operations(shops)) == touches + 1
        assert shops.one(UPDATED) == LISTINGS * (touches + 1), f"events at touch {touches}"
        if pool.touches_left > 0:
            assert touches > 30, "the pusher touched far fewer things than it must"
            return


@pytest.mark.parametrize("phase", ("staged", "uploaded", "running", "completed"))
def test_a_permit_that_is_no_longer_good_is_not_used(shops: Shops, phase: str) -> None:
    fill(shops)
    push = pusher(shops.app)
    reach(shops, push, phase)
    use, before, late = push._use, shops.simulator.requests, []

    def use_late(priority: Any, _: float) -> Any:
        late.append(use(priority, -math.inf))
        return late[-1]

    push._use = use_late  # type: ignore[method-assign]
    shops.drive(push, until=lambda: bool(late))
    assert [result.why for result in late] == ["too late to send"]
    assert shops.simulator.requests == before
    push._use = use  # type: ignore[method-assign]
    finish(shops, push)
    assert len(operations(shops)) == 1
    check_once(shops)


@dataclass
class LosesOne(Wire):
    """Loses one call: before it arrives, or its answer."""

    number: int = 0
    is_applied: bool = True
    count: int = -1

    def sent(self, body: bytes) -> bytes | None:
        self.count += 1
        return None if self.count == self.number and not self.is_applied else body

    def answered(self, reply: SimReply) -> SimReply:
        return replace(reply, outcome="hang") if self.count == self.number else reply


@pytest.mark.parametrize("is_applied", (True, False))
@pytest.mark.parametrize("number", range(1, 6))
def test_a_lost_call_is_made_good_whichever_it_is(
    shops: Shops, number: int, *, is_applied: bool
) -> None:
    wire = LosesOne(shops, number=number, is_applied=is_applied)
    fill(shops)
    finish(shops, wire.pusher())
    assert wire.count > number
    assert len(operations(shops)) == 1
    check_once(shops)


@dataclass
class HalfDone(Wire):
    """Half of the file never arrives, and the operation ends in that way, with no answers."""

    status: str = "FAILED"

    def sent(self, body: bytes) -> bytes | None:
        lines = [line for line in body.split(b"\n") if line.startswith(b'{"productId"')]
        for line in lines[LISTINGS // 2 :]:
            body = body.replace(line + b"\n", b"")
        return body

    def answered(self, reply: SimReply) -> SimReply:
        if b'"bulkOperation":' not in reply.body or b'"COMPLETED"' not in reply.body:
            return reply
        document = json.loads(reply.body)
        document["data"]["bulkOperation"] |= {"status": self.status, "url": None}
        return replace(reply, body=json.dumps(document).encode())


@pytest.mark.parametrize("status", ("FAILED", "EXPIRED", "CANCELED", "COMPLETED"))
def test_an_operation_without_answers_is_healed_by_reading_back(shops: Shops, status: str) -> None:
    fill(shops)
    finish(shops, HalfDone(shops, status=status).pusher())
    assert prices(shops) == {Decimal("12.00")}
    assert shops.simulator.calls["nodes"] > 0
    assert shops.simulator.calls["productVariantsBulkUpdate"] == 1
    assert [len(operation.lines) for operation in operations(shops)] == [LISTINGS // 2]
    check_once(shops)


@dataclass
class ForgetsLines(Wire):
    """The first two answers are missing from the file of answers."""

    def answered(self, reply: SimReply) -> SimReply:
        is_file = "/bulk/" in self.path
        return replace(reply, body=reply.body.split(b"\n", 2)[2]) if is_file else reply


def test_lines_without_an_answer_are_read_back_and_the_others_are_not(shops: Shops) -> None:
    fill(shops)
    verified = "SELECT count(*) FROM listing_state WHERE verified_at > %s"
    before = shops.clock.now()
    finish(shops, ForgetsLines(shops).pusher())
    assert shops.simulator.calls["productVariantsBulkUpdate"] == 0
    assert shops.one(verified, before) == 2
    check_once(shops)


def test_an_operation_that_does_not_end_in_a_day_is_given_up_and_read_back(shops: Shops) -> None:
    fill(shops)
    slow_down(shops, start_s=10 * 86_400.0)
    push = pusher(shops.app)
    reach(shops, push, "running")
    shops.clock.sleep(86_100)
    reach(shops, push, "running")
    assert shops.waiting() == 0
    finish(shops, push)
    assert prices(shops) == {Decimal("12.00")}
    assert shops.simulator.calls["nodes"] == 1
    check_once(shops)


def test_what_cannot_be_started_goes_in_ordinary_calls_after_a_while(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "RUNNING_MAX", 0)
    fill(shops)
    before = shops.clock.now()
    finish(shops, pusher(shops.app))
    assert shops.clock.now() - before < timedelta(minutes=17)
    assert shops.simulator.calls["bulkOperationRunMutation"] > 10
    assert shops.simulator.calls["nodes"] == 0
    intents = shops.ask("SELECT state, result FROM push_intent WHERE kind = 'bulk'")
    assert intents == [("void", "it could not be sent in bulk")]
    check_once(shops)


@dataclass
class RefusesFiles(Wire):
    """The host of the files is down."""

    def answered(self, reply: SimReply) -> SimReply:
        return SimReply(status=502) if "/staged/" in self.path else reply


def test_a_file_host_that_is_down_does_not_stop_the_shops_other_work(shops: Shops) -> None:
    fill(shops)
    push, calls = RefusesFiles(shops).pusher(), shops.simulator.calls
    shops.drive(push, until=lambda: calls["staged"] == 6)
    assert shops.app.breakers.load(shop_limit_key("", shops.domain("acme"))).failures == 0
    shops.want("A-7", wanted("12.00", 1))
    before = shops.clock.now()
    shops.drive(push)
    assert shops.clock.now() - before < timedelta(seconds=10)
    assert shops.shown("A-7").quantities["Dallas Central"] == 1
    finish(shops, push)
    assert calls["stagedUploadsCreate"] == calls["staged"]
    check_once(shops)


def test_a_file_that_the_shop_has_forgotten_is_uploaded_again(shops: Shops) -> None:
    fill(shops)
    push = pusher(shops.app)
    reach(shops, push, "uploaded")
    bulk_service(shops)._files.clear()
    finish(shops, push)
    assert shops.simulator.calls["staged"] == 2
    check_once(shops)


def test_results_at_an_expired_address_are_requested_again(shops: Shops) -> None:
    fill(shops)
    push = pusher(shops.app)
    reach(shops, push, "completed")
    bad = json.dumps({"url": "http://shop.test/acme.myshopify.com/bulk/1.jsonl"})
    shops.ask("UPDATE push_intent SET progress = progress || %s", bad)
    finish(shops, push)
    assert shops.simulator.calls["bulk"] == 2
    check_once(shops)


def test_a_shop_that_refuses_us_meanwhile_goes_on_when_it_is_connected_again(
    shops: Shops, tmp_path: Path
) -> None:
    fill(shops)
    push = pusher(shops.app)
    reach(shops, push, "uploaded")
    tokens = shops.simulator.tokens(shops.domain("acme"))
    token = tokens._static
    tokens.revoke()
    status = "SELECT status FROM connected_accounts"
    earlier = shops.clock.now() - timedelta(hours=1)  # the last of several refusals
    refused = "UPDATE connected_accounts SET refusals = 2, refused_since = %s, refused_at = %s"
    shops.ask(refused, earlier, earlier)
    shops.drive(push, until=lambda: shops.one(status) == "disconnected")
    tokens._static = token
    store_tokens(
        Credentials(shops.pool),
        open_vault(None, tmp_path),
        shop_limit_key("", shops.domain("acme")),
        clock=shops.clock,
        access=token,
        refresh=None,
        expires_at=None,
    )
    shops.ask("UPDATE connected_accounts SET status = 'connected', wait_until = NULL")
    finish(shops, push)
    assert len(operations(shops)) == 1
    check_once(shops)


def test_a_bulk_step_that_was_taken_over_stores_nothing(shops: Shops) -> None:
    fill(shops)
    bulks, now = Bulks(shops.pool), shops.clock.now()
    (shop,) = shops.app.pushes.due_shops(now, verified_before=None, limit=1)
    late = PushLease(shop=shop, fence=99)
    intent = Intent(id=fresh_id(), kind=WriteKind.BULK, skus=[])
    waiting = bulks.waiting(late, now=now, limit=10)
    assert len(waiting) == LISTINGS
    assert not bulks.intend(late, intent, asleep=waiting, until=now + DAY, now=now)
    assert shops.waiting() == LISTINGS
    assert not bulks.note(late, BulkIntent(id=intent.id, skus=frozenset(), created_at=now))
    assert shops.one("SELECT count(*) FROM push_intent") == 0


def test_a_listing_that_has_more_to_do_by_now_does_not_sleep(shops: Shops) -> None:
    fill(shops)
    now, pushes = shops.clock.now(), shops.app.pushes
    (shop,) = pushes.due_shops(now, verified_before=None, limit=1)
    push_lease = pushes.claim(
        shop, now=now, owner="w", lease_until=now + DAY, verified_before=None, limit=1
    )
    assert push_lease is not None
    bulks = Bulks(shops.pool)
    waiting = bulks.waiting(push_lease, now=now, limit=10)
    shops.want("A-7", wanted("12.00", 1))
    intent = Intent(id=fresh_id(), kind=WriteKind.BULK, skus=[waiter.sku for waiter in waiting])
    assert bulks.intend(push_lease, intent, asleep=waiting, until=now + DAY, now=now)
    assert shops.ask("SELECT sku FROM listing_state WHERE push_at <= %s", now) == [("A-7",)]


def test_a_listing_that_is_gone_is_not_waited_for(shops: Shops) -> None:
    fill(shops)
    push = HalfDone(shops).pusher()
    unsure = "SELECT count(*) FROM push_intent WHERE state = 'open' AND kind = 'price'"
    shops.drive(push, until=lambda: shops.one(unsure) == 1)
    shops.ask("DELETE FROM product_sync_schedule")
    shops.list("B-1")
    shops.want("B-1", wanted("12.00", 5))
    finish(shops, push)
    assert shops.shown("B-1").price == Decimal("12.00")
