from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.app import build
from headway.core.catalog.listings import Sku, Wait
from headway.core.limits.breaker import Breaker
from headway.errors import StoreError
from headway.providers.boeing.api import api_of
from headway.providers.boeing.client import BoeingSupplier
from headway.providers.boeing.settings import BoeingAccess
from headway.providers.vault import open_vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.boeing import SignIn
from headway_lab.simulators.faults import FaultPlan, Interval, Poison
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

SKUS = tuple(f"P{n}=K3" for n in range(30))


def test_ten_due_listings_are_read_in_one_call_and_become_desired(rig: Any) -> None:
    rig.add(*SKUS[:10])
    rig.make_due(*SKUS[:10])
    rig.read(rig.app.fetch("w1"))
    assert rig.price_calls() == 1
    assert rig.one("SELECT count(*) FROM listing_state WHERE desired->>'price' = '11.00'") == 10
    rows = rig.ask("SELECT DISTINCT sync_status, priority FROM product_sync_schedule")
    assert rows == [("success", "scheduled")]


def test_tokens_are_fetched_first_each_for_a_permit_of_its_own(rig: Any) -> None:
    rig.add(*SKUS[:10])
    rig.make_due(*SKUS[:10])
    rig.read(rig.app.fetch("w1"))
    assert dict(rig.supplier.calls) == {"oauth": 1, "part_token": 1, "price": 1}
    assert rig.supplier.max_calls_in_window <= 2
    assert rig.supplier.refusals == 0
    purposes = rig.ask("SELECT result FROM call_ledger ORDER BY begun_at")
    assert purposes == [("oauth",), ("part_token",), ("ok",)]


def test_a_second_worker_uses_the_first_ones_tokens(rig: Any) -> None:
    rig.add(*SKUS[:20])
    rig.make_due(*SKUS[:20])
    rig.read(rig.app.fetch("w1"))
    rig.read(rig.app.fetch("w2"))
    assert rig.supplier.calls["oauth"] == 1


def test_fewer_than_ten_wait_for_company_and_spare_seats_are_borrowed(rig: Any) -> None:
    rig.add(*SKUS)
    rig.ask(
        "UPDATE product_sync_schedule SET next_sync_at = %s", rig.clock.now() + timedelta(hours=9)
    )
    rig.make_due(*SKUS[:3])
    began = rig.clock.now()
    rig.read(rig.app.fetch("w1"))
    waited = rig.clock.now() - began
    assert timedelta(minutes=20) <= waited < timedelta(minutes=23)
    assert rig.one("SELECT cardinality(skus) FROM call_ledger WHERE result = 'ok'") == 10


@pytest.mark.parametrize("priority", ("manual", "onboarding"))
def test_an_urgent_listing_leaves_at_the_next_permit_with_borrowed_company(
    rig: Any, priority: str
) -> None:
    rig.add(*SKUS)
    rig.ask(
        "UPDATE product_sync_schedule SET next_sync_at = %s", rig.clock.now() + timedelta(hours=9)
    )
    rig.make_due(SKUS[7], priority=priority)
    began = rig.clock.now()
    rig.read(rig.app.fetch("w1"))
    # One window of unknown history, then two tokens and the call, 30 s apart.
    assert rig.clock.now() - began < timedelta(minutes=3)
    assert SKUS[7] in rig.one("SELECT skus FROM call_ledger WHERE result = 'ok'")
    assert (
        rig.one("SELECT priority FROM product_sync_schedule WHERE sku = %s", SKUS[7]) == "scheduled"
    )


def test_a_part_that_two_sellers_list_takes_one_seat_and_both_are_settled(rig: Any) -> None:
    rig.add(*SKUS[:10], seller="a")
    rig.add(*SKUS[:10], seller="b")
    rig.make_due(*SKUS[:10])
    rig.read(rig.app.fetch("w1"))
    assert rig.price_calls() == 1
    assert rig.one("SELECT cardinality(skus) FROM call_ledger WHERE result = 'ok'") == 10
    assert rig.one("SELECT count(*) FROM listing_state WHERE desired IS NOT NULL") == 20


def test_a_crowd_of_sellers_of_one_part_does_not_empty_the_call(rig: Any) -> None:
    for seller in range(60):
        rig.add(SKUS[0], seller=f"s{seller}")
    rig.add(*SKUS[1:12])
    rig.make_due(*SKUS[:12])
    rig.ask(
        "UPDATE product_sync_schedule SET next_sync_at = next_sync_at - interval '1 h'"
        " WHERE sku = %s",
        SKUS[0],
    )
    rig.read(rig.app.fetch("w1"))
    assert rig.one("SELECT cardinality(skus) FROM call_ledger WHERE result = 'ok'") == 10


def test_nothing_due_costs_no_permit(rig: Any) -> None:
    rig.add(*SKUS)
    rig.ask(
        "UPDATE product_sync_schedule SET next_sync_at = %s", rig.clock.now() + timedelta(hours=9)
    )
    result = rig.app.fetch("w1").step()
    assert isinstance(result, Wait)
    assert rig.one("SELECT count(*) FROM call_ledger") == 0


def test_a_failed_call_charges_no_listing_and_gives_the_seats_back_as_due_as_before(
    make_rig: Callable[..., Any], clock: VirtualClock
) -> None:
    rig = make_rig(faults=FaultPlan(1, rates={"error": 1.0}))
    rig.add(*SKUS[:10])
    rig.make_due(*SKUS[:10])
    before = rig.ask("SELECT sku, next_sync_at, priority FROM product_sync_schedule ORDER BY sku")
    fetch = rig.app.fetch("w1")
    rig.drive(fetch, lambda: bool(rig.ask("SELECT 1 FROM breaker WHERE open_until IS NOT NULL")))
    assert (
        rig.ask("SELECT sku, next_sync_at, priority FROM product_sync_schedule ORDER BY sku")
        == before
    )
    assert rig.one("SELECT sum(consecutive_failures) FROM product_sync_schedule") == 0
    assert rig.one("SELECT count(*) FROM product_sync_schedule WHERE sync_status = 'syncing'") == 0


def test_an_outage_opens_the_breaker_probes_seldom_and_closes_by_itself(
    make_rig: Callable[..., Any],
) -> None:
    rig = make_rig(faults=FaultPlan(1, outage=[Interval(start_s=0, end_s=6 * 3600)]))
    rig.add(*SKUS[:20])
    rig.make_due(*SKUS[:20])
    fetch = rig.app.fetch("w1")
    rig.drive(fetch, lambda: rig.one("SELECT count(*) FROM listing_state") == 20)
    arrivals = sum(rig.supplier.faults.injected.values())
    assert arrivals < 40, "six hours of outage cost a handful of probes"
    assert rig.one("SELECT sum(consecutive_failures) FROM product_sync_schedule") == 0
    assert rig.one("SELECT count(*) FROM product_sync_schedule WHERE NOT is_active") == 0
    assert rig.one("SELECT failures FROM breaker") == 0


@pytest.mark.parametrize("poison", Poison)
def test_a_poison_sku_is_found_charged_alone_and_parked_while_the_others_are_read(
    make_rig: Callable[..., Any], poison: Poison
) -> None:
    rig = make_rig(faults=FaultPlan(1, poison={SKUS[3]: poison}))
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    fetch = rig.app.fetch("w1")
    parked = "SELECT sku FROM product_sync_schedule WHERE sync_status = 'parked'"
    rig.drive(fetch, lambda: bool(rig.ask(parked)), steps=6000)
    assert rig.ask(parked) == [(SKUS[3],)]
    assert rig.one("SELECT count(*) FROM product_sync_schedule WHERE consecutive_failures > 0") == 1
    assert rig.one("SELECT count(*) FROM listing_state WHERE desired IS NOT NULL") == 29
    assert rig.supplier.refusals == 0


def test_two_poison_skus_at_once_do_not_stop_the_line(make_rig: Callable[..., Any]) -> None:
    rig = make_rig(faults=FaultPlan(1, poison=[SKUS[0], SKUS[11], SKUS[22]]))
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    fetch = rig.app.fetch("w1")
    charged = "SELECT sku FROM product_sync_schedule WHERE consecutive_failures > 0 ORDER BY sku"
    rig.drive(fetch, lambda: len(rig.ask(charged)) == 3, steps=3000)
    assert rig.ask(charged) == [(SKUS[0],), (SKUS[11],), (SKUS[22],)]
    query = "SELECT count(*) FROM listing_state WHERE desired IS NOT NULL"
    rig.drive(fetch, lambda: rig.one(query) == 27)
    assert rig.supplier.faults.injected["poison"] < 60


@pytest.mark.parametrize("poison", Poison)
def test_one_sku_that_spoils_replies_takes_no_stock_from_the_others(
    make_rig: Callable[..., Any], poison: Poison
) -> None:
    faults = FaultPlan(1)
    rig = make_rig(faults=faults)
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    fetch = rig.app.fetch("w1")
    known = "SELECT count(*) FROM listing_state WHERE desired IS NOT NULL"
    rig.drive(fetch, lambda: rig.one(known) == len(SKUS))
    stock = "SELECT sku, desired->'quantities' FROM listing_state ORDER BY sku"
    before = rig.ask(stock)
    rig.supplier.faults = FaultPlan(1, poison={SKUS[3]: poison})
    ends_at = rig.clock.now() + timedelta(days=3)
    rig.drive(fetch, lambda: rig.clock.now() > ends_at, steps=9000)
    charged = "SELECT sku FROM product_sync_schedule WHERE consecutive_failures > 0"
    assert rig.ask(charged) == [(SKUS[3],)]
    assert [row for row in rig.ask(stock) if row[0] != SKUS[3]] == [
        row for row in before if row[0] != SKUS[3]
    ]
    oldest = "SELECT min(last_successful_sync) FROM product_sync_schedule WHERE sku <> %s"
    assert rig.clock.now() - rig.one(oldest, SKUS[3]) < timedelta(hours=25)
    assert rig.supplier.refusals == 0


@pytest.mark.parametrize("poison", Poison)
def test_in_a_tiny_catalog_the_poison_is_found_too(
    make_rig: Callable[..., Any], poison: Poison
) -> None:
    rig = make_rig(faults=FaultPlan(1, poison={SKUS[0]: poison}))
    rig.add(*SKUS[:4])
    rig.make_due(*SKUS[:4])
    fetch = rig.app.fetch("w1")
    charged = "SELECT sku FROM product_sync_schedule WHERE consecutive_failures > 0"
    rig.drive(fetch, lambda: bool(rig.ask(charged)), steps=3000)
    assert rig.ask(charged) == [(SKUS[0],)]
    query = "SELECT count(*) FROM listing_state WHERE desired IS NOT NULL"
    rig.drive(fetch, lambda: rig.one(query) == 3)
    assert rig.ask(charged) == [(SKUS[0],)]


def test_a_sku_the_supplier_omits_is_confirmed_then_sold_out_then_parked(rig: Any) -> None:
    rig.add(*SKUS[:10])
    rig.make_due(*SKUS[:10])
    fetch = rig.app.fetch("w1")
    rig.read(fetch)
    del rig.catalog.parts[SKUS[0]]
    state = "SELECT desired->'quantities'->>'Miami FL' FROM listing_state WHERE sku = %s"
    history = []
    for _ in range(5):
        rig.make_due(SKUS[0], priority="manual")
        rig.read(fetch)
        history.append(rig.one(state, SKUS[0]))
    assert history == ["5", "5", "0", "0", "0"]
    rows = rig.ask("SELECT sku FROM product_sync_schedule WHERE NOT is_active")
    assert rows == [(SKUS[0],)]


def test_revoked_tokens_cost_one_refresh_and_no_listing_a_failure(rig: Any) -> None:
    rig.add(*SKUS[:20])
    rig.make_due(*SKUS[:20])
    fetch = rig.app.fetch("w1")
    rig.read(fetch)
    rig.supplier.revoke_tokens()
    rig.drive(fetch, lambda: rig.one("SELECT count(*) FROM listing_state") == 20)
    assert rig.supplier.calls["oauth"] == 2
    assert rig.one("SELECT sum(consecutive_failures) FROM product_sync_schedule") == 0


def test_a_worker_that_wakes_after_its_lease_cannot_settle(rig: Any) -> None:
    rig.add(*SKUS[:10])
    rig.make_due(*SKUS[:10])
    now = rig.clock.now()
    held = rig.app.schedule.claim(
        list(SKUS[:10]), now=now, owner="sleeper", lease_until=now + timedelta(seconds=90)
    )
    assert len(held) == 10
    tick = rig.app.tick()
    rig.clock.sleep(300)
    tick.step()
    assert tick.rescued == 10
    rig.read(rig.app.fetch("w1"))
    assert rig.app.schedule.release(held, suspicion={}) == 0


def test_every_call_of_a_busy_day_is_in_the_ledger_and_none_is_refused(rig: Any) -> None:
    rig.add(*(f"Q{n}" for n in range(200)))
    fetch = rig.app.fetch("w1")
    end = rig.clock.now() + timedelta(days=1)
    rig.drive(fetch, lambda: rig.clock.now() >= end, steps=20000)
    assert rig.supplier.refusals == 0
    assert rig.supplier.max_calls_in_window <= 2
    sent = rig.one("SELECT count(*) FROM call_ledger WHERE status = 'sent'")
    assert sent == sum(rig.supplier.calls.values())
    assert 20 <= rig.price_calls() <= 40
    assert rig.one("SELECT count(*) FROM listing_state") == 200


@pytest.mark.parametrize("timeout_s", (30, 120))
def test_a_reply_that_comes_just_before_its_timeout_is_still_settled(
    make_rig: Callable[..., Any], timeout_s: float
) -> None:
    slow = FaultPlan(1, rates={"slow": 1.0}, slow_s=(timeout_s - 3, timeout_s - 2))
    rig = make_rig(faults=slow, boeing_timeout_s=timeout_s)
    rig.add(*SKUS[:10])
    rig.make_due(*SKUS[:10])
    tick = rig.app.tick()

    def housekeeping() -> None:
        while True:
            rig.clock.sleep((tick.step().until - rig.clock.now()).total_seconds())

    rig.clock.spawn(housekeeping)
    rig.read(rig.app.fetch("w1"))
    rig.clock.sleep(600)
    assert tick.rescued == 0
    assert rig.one("SELECT count(*) FROM listing_state") == 10
    assert rig.one("SELECT count(*) FROM call_ledger WHERE status = 'lost'") == 0


class SlowPool:
    """Connections that take their time, as behind a busy pooler."""

    def __init__(self, pool: Any, clock: VirtualClock) -> None:
        self._pool = pool
        self._clock = clock

    def connection(self) -> Any:
        self._clock.sleep(20)
        return self._pool.connection()


def test_a_token_request_that_would_leave_too_late_is_not_sent(rig: Any, tmp_path: Path) -> None:
    rig.add(*SKUS[:10])
    rig.make_due(*SKUS[:10])
    sign_in = SignIn()
    slow = BoeingSupplier(
        "http://supplier.test",
        BoeingAccess(
            client_id=sign_in.client_id,
            client_secret=sign_in.client_secret,
            username=sign_in.username,
            password=sign_in.password,
        ),
        token_store=Credentials(SlowPool(rig.pool, rig.clock)),
        vault=open_vault(None, tmp_path),
        clock=rig.clock,
        api=api_of(rig.app.settings),
        transport=SimTransport(rig.supplier.handle, rig.clock, seed=1),
    )
    over = "SELECT status FROM call_ledger WHERE status <> 'begun'"
    fetch = replace(rig.app, open_supplier=lambda _name: slow).fetch("w1")
    rig.drive(fetch, lambda: bool(rig.ask(over)))
    assert rig.ask(over) == [("unsent",)]
    assert not rig.supplier.calls


class CrowdedLimiter:
    """Somebody else spends the supplier's limit behind our back, and our store fails at once."""

    def __init__(self, rig: Any) -> None:
        self._inner = rig.app.limiter
        self._stranger = rig.app.open_supplier(rig.app.supplier)

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


def test_a_supplier_that_says_wait_is_heeded_though_the_store_fails_right_after(rig: Any) -> None:
    rig.add(*SKUS[:20])
    rig.make_due(*SKUS[:20])
    rig.read(rig.app.fetch("w1"))
    rig.clock.sleep(600)
    rig.make_due(*SKUS[:20])
    fetch = replace(rig.app, limiter=CrowdedLimiter(rig)).fetch("w2")
    with pytest.raises(StoreError):
        rig.drive(fetch, lambda: False)
    assert rig.supplier.refusals > 0
    status = rig.app.limiter.status(rig.app.limit_key)
    assert status.reason == "rate limited by the supplier"


def test_a_flood_of_new_listings_does_not_keep_the_scheduled_past_their_deadline(rig: Any) -> None:
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    flood = [f"N{n}" for n in range(1000)]
    rig.add(*flood)
    rig.make_due(*flood, priority="onboarding")
    began = rig.clock.now()
    read = "SELECT count(*) FROM listing_state WHERE sku LIKE 'P%%'"
    rig.drive(rig.app.fetch("w1"), lambda: rig.one(read) == len(SKUS), steps=3000)
    assert rig.clock.now() - began < rig.app.policy.slack + timedelta(minutes=10)
    assert rig.one("SELECT count(*) FROM listing_state WHERE sku LIKE 'N%%'") > 300


def test_after_a_long_outage_of_the_price_service_calls_leave_full_again(
    make_rig: Callable[..., Any],
) -> None:
    skus = [f"Q{n}" for n in range(100)]
    faults = FaultPlan(1, poison=skus)
    rig = make_rig(faults=faults)
    rig.add(*skus)
    rig.make_due(*skus)
    fetch = rig.app.fetch("w1")
    back_at = rig.clock.now() + timedelta(days=1)
    rig.drive(fetch, lambda: rig.clock.now() > back_at, steps=3000)
    assert rig.one("SELECT min(suspicion) FROM product_sync_schedule") > 1
    faults.heal()
    calls_before = rig.price_calls()
    rig.drive(fetch, lambda: rig.one("SELECT count(*) FROM listing_state") == 100, steps=3000)
    assert rig.price_calls() - calls_before <= 12


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


def test_a_sku_that_makes_the_supplier_say_forbidden_does_not_stop_the_line(rig: Any) -> None:
    wire = Forbidding(SimTransport(rig.supplier.handle, rig.clock, seed=1), SKUS[3])
    app = build(rig.app.settings, rig.clock, rig.pool, transport=wire)
    rig.add(*SKUS)
    rig.make_due(*SKUS)
    read = "SELECT count(*) FROM listing_state"
    rig.drive(app.fetch("w1"), lambda: rig.one(read) == len(SKUS) - 1, steps=500)
    charged = "SELECT sku FROM product_sync_schedule WHERE consecutive_failures > 0"
    rig.drive(app.fetch("w1"), lambda: bool(rig.ask(charged)), steps=500)
    assert rig.ask(charged) == [(SKUS[3],)]


def test_nobody_metrics_in_while_the_breaker_is_open(rig: Any) -> None:
    rig.add(*SKUS[:10])
    rig.make_due(*SKUS[:10])
    fetch = rig.app.fetch("w1")
    fetch.step()
    now = rig.clock.now()
    rig.app.breakers.save(
        rig.app.limit_key,
        Breaker(failures=3, trips=1, opened_at=now, open_until=now + timedelta(minutes=9)),
    )
    rig.drive(fetch, lambda: rig.clock.now() >= now + timedelta(minutes=8))
    assert not rig.supplier.calls
    assert rig.ask("SELECT status FROM call_ledger") == [("unsent",)]
    rig.read(fetch)
