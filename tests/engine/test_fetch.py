from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.app import build
from headway.core.catalog.listings import Sku, Wait
from headway.core.limits.breaker import Breaker
from headway.errors import StoreError
from headway.providers.boeing.client import BoeingAccess, BoeingSupplier
from headway.providers.vault import open_vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.boeing import SignIn
from headway_lab.simulators.faults import FaultPlan, Interval
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

SKUS = tuple(f"P{n}=K3" for n in range(30))


def test_ten_due_listings_are_read_in_one_call_and_become_desired(line: Any) -> None:
    line.add(*SKUS[:10])
    line.make_due(*SKUS[:10])
    line.read(line.app.fetch("w1"))
    assert line.price_calls() == 1
    assert line.one("SELECT count(*) FROM listing_state WHERE desired->>'price' = '11.00'") == 10
    rows = line.ask("SELECT DISTINCT sync_status, priority FROM product_sync_schedule")
    assert rows == [("success", "scheduled")]


def test_tokens_are_fetched_first_each_for_a_permit_of_its_own(line: Any) -> None:
    line.add(*SKUS[:10])
    line.make_due(*SKUS[:10])
    line.read(line.app.fetch("w1"))
    assert dict(line.supplier.calls) == {"oauth": 1, "part_token": 1, "price": 1}
    assert line.supplier.max_calls_in_window <= 2
    assert line.supplier.refusals == 0
    purposes = line.ask("SELECT result FROM call_ledger ORDER BY begun_at")
    assert purposes == [("oauth",), ("part_token",), ("ok",)]


def test_a_second_worker_uses_the_first_ones_tokens(line: Any) -> None:
    line.add(*SKUS[:20])
    line.make_due(*SKUS[:20])
    line.read(line.app.fetch("w1"))
    line.read(line.app.fetch("w2"))
    assert line.supplier.calls["oauth"] == 1


def test_fewer_than_ten_wait_for_company_and_spare_seats_are_borrowed(line: Any) -> None:
    line.add(*SKUS)
    line.ask(
        "UPDATE product_sync_schedule SET next_sync_at = %s", line.clock.now() + timedelta(hours=9)
    )
    line.make_due(*SKUS[:3])
    began = line.clock.now()
    line.read(line.app.fetch("w1"))
    waited = line.clock.now() - began
    assert timedelta(minutes=20) <= waited < timedelta(minutes=23)
    assert line.one("SELECT cardinality(skus) FROM call_ledger WHERE result = 'ok'") == 10


@pytest.mark.parametrize("priority", ("manual", "onboarding"))
def test_an_urgent_listing_leaves_at_the_next_permit_with_borrowed_company(
    line: Any, priority: str
) -> None:
    line.add(*SKUS)
    line.ask(
        "UPDATE product_sync_schedule SET next_sync_at = %s", line.clock.now() + timedelta(hours=9)
    )
    line.make_due(SKUS[7], priority=priority)
    began = line.clock.now()
    line.read(line.app.fetch("w1"))
    # One window of unknown history, then two tokens and the call, 30 s apart.
    assert line.clock.now() - began < timedelta(minutes=3)
    assert SKUS[7] in line.one("SELECT skus FROM call_ledger WHERE result = 'ok'")
    assert (
        line.one("SELECT priority FROM product_sync_schedule WHERE sku = %s", SKUS[7])
        == "scheduled"
    )


def test_a_part_that_two_sellers_list_takes_one_seat_and_both_are_settled(line: Any) -> None:
    line.add(*SKUS[:10], seller="a")
    line.add(*SKUS[:10], seller="b")
    line.make_due(*SKUS[:10])
    line.read(line.app.fetch("w1"))
    assert line.price_calls() == 1
    assert line.one("SELECT cardinality(skus) FROM call_ledger WHERE result = 'ok'") == 10
    assert line.one("SELECT count(*) FROM listing_state WHERE desired IS NOT NULL") == 20


def test_a_crowd_of_sellers_of_one_part_does_not_empty_the_call(line: Any) -> None:
    for seller in range(60):
        line.add(SKUS[0], seller=f"s{seller}")
    line.add(*SKUS[1:12])
    line.make_due(*SKUS[:12])
    line.ask(
        "UPDATE product_sync_schedule SET next_sync_at = next_sync_at - interval '1 h'"
        " WHERE sku = %s",
        SKUS[0],
    )
    line.read(line.app.fetch("w1"))
    assert line.one("SELECT cardinality(skus) FROM call_ledger WHERE result = 'ok'") == 10


def test_nothing_due_costs_no_permit(line: Any) -> None:
    line.add(*SKUS)
    line.ask(
        "UPDATE product_sync_schedule SET next_sync_at = %s", line.clock.now() + timedelta(hours=9)
    )
    result = line.app.fetch("w1").step()
    assert isinstance(result, Wait)
    assert line.one("SELECT count(*) FROM call_ledger") == 0


def test_a_failed_call_charges_no_listing_and_gives_the_seats_back_as_due_as_before(
    make_line: Callable[..., Any], clock: VirtualClock
) -> None:
    line = make_line(faults=FaultPlan(1, rates={"error": 1.0}))
    line.add(*SKUS[:10])
    line.make_due(*SKUS[:10])
    before = line.ask("SELECT sku, next_sync_at, priority FROM product_sync_schedule ORDER BY sku")
    fetch = line.app.fetch("w1")
    line.drive(fetch, lambda: bool(line.ask("SELECT 1 FROM breaker WHERE open_until IS NOT NULL")))
    assert (
        line.ask("SELECT sku, next_sync_at, priority FROM product_sync_schedule ORDER BY sku")
        == before
    )
    assert line.one("SELECT sum(consecutive_failures) FROM product_sync_schedule") == 0
    assert line.one("SELECT count(*) FROM product_sync_schedule WHERE sync_status = 'syncing'") == 0


def test_an_outage_opens_the_breaker_probes_seldom_and_closes_by_itself(
    make_line: Callable[..., Any],
) -> None:
    line = make_line(faults=FaultPlan(1, outage=[Interval(start_s=0, end_s=6 * 3600)]))
    line.add(*SKUS[:20])
    line.make_due(*SKUS[:20])
    fetch = line.app.fetch("w1")
    line.drive(fetch, lambda: line.one("SELECT count(*) FROM listing_state") == 20)
    arrivals = sum(line.supplier.faults.injected.values())
    assert arrivals < 40, "six hours of outage cost a handful of probes"
    assert line.one("SELECT sum(consecutive_failures) FROM product_sync_schedule") == 0
    assert line.one("SELECT count(*) FROM product_sync_schedule WHERE NOT is_active") == 0
    assert line.one("SELECT failures FROM breaker") == 0


def test_a_poison_sku_is_found_charged_alone_and_parked_while_the_others_are_read(
    make_line: Callable[..., Any],
) -> None:
    line = make_line(faults=FaultPlan(1, poison=[SKUS[3]]))
    line.add(*SKUS)
    line.make_due(*SKUS)
    fetch = line.app.fetch("w1")
    parked = "SELECT sku FROM product_sync_schedule WHERE sync_status = 'parked'"
    line.drive(fetch, lambda: bool(line.ask(parked)), steps=6000)
    assert line.ask(parked) == [(SKUS[3],)]
    assert (
        line.one("SELECT count(*) FROM product_sync_schedule WHERE consecutive_failures > 0") == 1
    )
    assert line.one("SELECT count(*) FROM listing_state WHERE desired IS NOT NULL") == 29
    assert line.supplier.refusals == 0


def test_two_poison_skus_at_once_do_not_stop_the_line(make_line: Callable[..., Any]) -> None:
    line = make_line(faults=FaultPlan(1, poison=[SKUS[0], SKUS[11], SKUS[22]]))
    line.add(*SKUS)
    line.make_due(*SKUS)
    fetch = line.app.fetch("w1")
    charged = "SELECT sku FROM product_sync_schedule WHERE consecutive_failures > 0 ORDER BY sku"
    line.drive(fetch, lambda: len(line.ask(charged)) == 3, steps=3000)
    assert line.ask(charged) == [(SKUS[0],), (SKUS[11],), (SKUS[22],)]
    seen = "SELECT count(*) FROM listing_state WHERE desired IS NOT NULL"
    line.drive(fetch, lambda: line.one(seen) == 27)
    assert line.supplier.faults.injected["poison"] < 60


def test_in_a_tiny_catalog_the_poison_is_found_too(make_line: Callable[..., Any]) -> None:
    line = make_line(faults=FaultPlan(1, poison=[SKUS[0]]))
    line.add(*SKUS[:4])
    line.make_due(*SKUS[:4])
    fetch = line.app.fetch("w1")
    charged = "SELECT sku FROM product_sync_schedule WHERE consecutive_failures > 0"
    line.drive(fetch, lambda: bool(line.ask(charged)), steps=3000)
    assert line.ask(charged) == [(SKUS[0],)]
    seen = "SELECT count(*) FROM listing_state WHERE desired IS NOT NULL"
    line.drive(fetch, lambda: line.one(seen) == 3)
    assert line.ask(charged) == [(SKUS[0],)]


def test_a_sku_the_supplier_omits_is_confirmed_then_sold_out_then_parked(line: Any) -> None:
    line.add(*SKUS[:10])
    line.make_due(*SKUS[:10])
    fetch = line.app.fetch("w1")
    line.read(fetch)
    del line.shelf.parts[SKUS[0]]
    state = "SELECT desired->'quantities'->>'Miami FL' FROM listing_state WHERE sku = %s"
    history = []
    for _ in range(5):
        line.make_due(SKUS[0], priority="manual")
        line.read(fetch)
        history.append(line.one(state, SKUS[0]))
    assert history == ["5", "5", "0", "0", "0"]
    rows = line.ask("SELECT sku FROM product_sync_schedule WHERE NOT is_active")
    assert rows == [(SKUS[0],)]


def test_revoked_tokens_cost_one_refresh_and_no_listing_a_failure(line: Any) -> None:
    line.add(*SKUS[:20])
    line.make_due(*SKUS[:20])
    fetch = line.app.fetch("w1")
    line.read(fetch)
    line.supplier.revoke_tokens()
    line.drive(fetch, lambda: line.one("SELECT count(*) FROM listing_state") == 20)
    assert line.supplier.calls["oauth"] == 2
    assert line.one("SELECT sum(consecutive_failures) FROM product_sync_schedule") == 0


def test_a_worker_that_wakes_after_its_lease_cannot_settle(line: Any) -> None:
    line.add(*SKUS[:10])
    line.make_due(*SKUS[:10])
    now = line.clock.now()
    held = line.app.schedule.claim(
        list(SKUS[:10]), now=now, owner="sleeper", lease_until=now + timedelta(seconds=90)
    )
    assert len(held) == 10
    tick = line.app.tick()
    line.clock.sleep(300)
    tick.step()
    assert tick.rescued == 10
    line.read(line.app.fetch("w1"))
    assert line.app.schedule.release(held, suspicion={}) == 0


def test_every_call_of_a_busy_day_is_in_the_ledger_and_none_is_refused(line: Any) -> None:
    line.add(*(f"Q{n}" for n in range(200)))
    fetch = line.app.fetch("w1")
    end = line.clock.now() + timedelta(days=1)
    line.drive(fetch, lambda: line.clock.now() >= end, steps=20000)
    assert line.supplier.refusals == 0
    assert line.supplier.max_calls_in_window <= 2
    sent = line.one("SELECT count(*) FROM call_ledger WHERE status = 'sent'")
    assert sent == sum(line.supplier.calls.values())
    assert 20 <= line.price_calls() <= 40
    assert line.one("SELECT count(*) FROM listing_state") == 200


@pytest.mark.parametrize("timeout_s", (30, 120))
def test_a_reply_that_comes_just_before_its_timeout_is_still_settled(
    make_line: Callable[..., Any], timeout_s: float
) -> None:
    slow = FaultPlan(1, rates={"slow": 1.0}, slow_s=(timeout_s - 3, timeout_s - 2))
    line = make_line(faults=slow, boeing_timeout_s=timeout_s)
    line.add(*SKUS[:10])
    line.make_due(*SKUS[:10])
    tick = line.app.tick()

    def housekeeping() -> None:
        while True:
            line.clock.sleep((tick.step().until - line.clock.now()).total_seconds())

    line.clock.spawn(housekeeping)
    line.read(line.app.fetch("w1"))
    line.clock.sleep(600)
    assert tick.rescued == 0
    assert line.one("SELECT count(*) FROM listing_state") == 10
    assert line.one("SELECT count(*) FROM call_ledger WHERE status = 'lost'") == 0


class SlowPool:
    """Connections that take their time, as behind a busy pooler."""

    def __init__(self, pool: Any, clock: VirtualClock) -> None:
        self._pool = pool
        self._clock = clock

    def connection(self) -> Any:
        self._clock.sleep(20)
        return self._pool.connection()


def test_a_token_request_that_would_leave_too_late_is_not_sent(line: Any, tmp_path: Path) -> None:
    line.add(*SKUS[:10])
    line.make_due(*SKUS[:10])
    sign_in = SignIn()
    slow = BoeingSupplier(
        "http://supplier.test",
        BoeingAccess(
            client_id=sign_in.client_id,
            client_secret=sign_in.client_secret,
            username=sign_in.username,
            password=sign_in.password,
        ),
        shelf=Credentials(SlowPool(line.pool, line.clock)),
        vault=open_vault(None, tmp_path),
        clock=line.clock,
        transport=SimTransport(line.supplier.handle, line.clock, seed=1),
    )
    over = "SELECT status FROM call_ledger WHERE status <> 'begun'"
    line.drive(line.app.fetch("w1", supplier=slow), lambda: bool(line.ask(over)))
    assert line.ask(over) == [("unsent",)]
    assert not line.supplier.calls


class CrowdedLimiter:
    """Somebody else spends the supplier's limit behind our back, and our store fails at once."""

    def __init__(self, line: Any) -> None:
        self._inner = line.app.limiter
        self._stranger = line.app.open_supplier(line.app.supplier)

    def begin(self, permit: Any) -> Any:
        begun = self._inner.begin(permit)
        assert self._stranger.auth_step() is None
        for _ in range(2):
            self._stranger.quote([Sku(SKUS[0])])
        return begun

    def settle(self, *_args: Any, **_options: Any) -> None:
        raise StoreError("the database has gone away")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_supplier_that_says_wait_is_heeded_though_the_store_fails_right_after(line: Any) -> None:
    line.add(*SKUS[:20])
    line.make_due(*SKUS[:20])
    line.read(line.app.fetch("w1"))
    line.clock.sleep(600)
    line.make_due(*SKUS[:20])
    fetch = line.app.fetch("w2", limiter=CrowdedLimiter(line))
    with pytest.raises(StoreError):
        line.drive(fetch, lambda: False)
    assert line.supplier.refusals > 0
    status = line.app.limiter.status(line.app.limit_key)
    assert status.reason == "told to wait by the supplier"


def test_a_flood_of_new_listings_does_not_keep_the_scheduled_past_their_deadline(line: Any) -> None:
    line.add(*SKUS)
    line.make_due(*SKUS)
    flood = [f"N{n}" for n in range(1000)]
    line.add(*flood)
    line.make_due(*flood, priority="onboarding")
    began = line.clock.now()
    read = "SELECT count(*) FROM listing_state WHERE sku LIKE 'P%%'"
    line.drive(line.app.fetch("w1"), lambda: line.one(read) == len(SKUS), steps=3000)
    assert line.clock.now() - began < line.app.policy.slack + timedelta(minutes=10)
    assert line.one("SELECT count(*) FROM listing_state WHERE sku LIKE 'N%%'") > 300


def test_after_a_long_outage_of_the_price_service_calls_leave_full_again(
    make_line: Callable[..., Any],
) -> None:
    skus = [f"Q{n}" for n in range(100)]
    faults = FaultPlan(1, poison=skus)
    line = make_line(faults=faults)
    line.add(*skus)
    line.make_due(*skus)
    fetch = line.app.fetch("w1")
    back_at = line.clock.now() + timedelta(days=1)
    line.drive(fetch, lambda: line.clock.now() > back_at, steps=3000)
    assert line.one("SELECT min(suspicion) FROM product_sync_schedule") > 1
    faults.heal()
    asked = line.price_calls()
    line.drive(fetch, lambda: line.one("SELECT count(*) FROM listing_state") == 100, steps=3000)
    assert line.price_calls() - asked <= 12


class Forbidding(httpx.BaseTransport):
    """A supplier that answers 403 to every call with one certain SKU."""

    def __init__(self, inner: httpx.BaseTransport, sku: str) -> None:
        self._inner = inner
        self._sku = sku.encode()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.handle_request(request)
        if self._sku in request.read():
            return httpx.Response(403, stream=httpx.ByteStream(b"a restricted part"))
        return response


def test_a_sku_that_makes_the_supplier_say_forbidden_does_not_stop_the_line(line: Any) -> None:
    wire = Forbidding(SimTransport(line.supplier.handle, line.clock, seed=1), SKUS[3])
    app = build(line.app.settings, line.clock, line.pool, transport=wire)
    line.add(*SKUS)
    line.make_due(*SKUS)
    read = "SELECT count(*) FROM listing_state"
    line.drive(app.fetch("w1"), lambda: line.one(read) == len(SKUS) - 1, steps=500)
    charged = "SELECT sku FROM product_sync_schedule WHERE consecutive_failures > 0"
    line.drive(app.fetch("w1"), lambda: bool(line.ask(charged)), steps=500)
    assert line.ask(charged) == [(SKUS[3],)]


def test_nobody_metrics_in_while_the_breaker_is_open(line: Any) -> None:
    line.add(*SKUS[:10])
    line.make_due(*SKUS[:10])
    fetch = line.app.fetch("w1")
    fetch.step()
    now = line.clock.now()
    line.app.breakers.save(
        line.app.limit_key,
        Breaker(failures=3, trips=1, opened_at=now, open_until=now + timedelta(minutes=9)),
    )
    line.drive(fetch, lambda: line.clock.now() >= now + timedelta(minutes=8))
    assert not line.supplier.calls
    assert line.ask("SELECT status FROM call_ledger") == [("unsent",)]
    line.read(fetch)
