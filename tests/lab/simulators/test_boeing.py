import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import ConfigError
from headway_lab.simulators.boeing import BoeingSimulator, SupplierPart
from headway_lab.simulators.faults import BadPrice, FaultPlan, Interval, SimulatedFault
from headway_lab.simulators.reply import SimReply
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
OAUTH = "/oauth2/v2.0/token"
PART_TOKEN = "/boeing-part-price-availability/token/v1/oauth"
PRICE = "/boeing-part-price-availability/price-availability/v1/wtoken"
FORM = b"client_id=sim-client&client_secret=sim-client-secret&grant_type=client_credentials"
ALWAYS = Interval(start_s=0, end_s=1e9)


class FixedCatalog:
    def lookup(self, sku: str) -> SupplierPart | None:
        if not sku.startswith("P"):
            return None
        return SupplierPart(
            sku=sku,
            list_price=Decimal("20.50"),
            net_price=Decimal("10.25"),
            stock={"Dallas Central": 5, "Chicago IL": 2, "Miami FL": 0, "Goodyear AZ": 1},
            family="Maker 7" if sku.endswith("7") else "",
        )


def supplier(clock: VirtualClock, **options: Any) -> BoeingSimulator:
    return BoeingSimulator(FixedCatalog(), clock, **{"limit": 10**6, **options})


def sign_in(simulator: BoeingSimulator) -> dict[str, str]:
    oauth = json.loads(simulator.handle("POST", OAUTH, {}, FORM).body)["access_token"]
    headers = {"Authorization": f"Bearer {oauth}"}
    users = {"X-Username": "sim-user", "X-Password": "sim-password"}
    part = simulator.handle("GET", PART_TOKEN, {**headers, **users}, b"")
    token = part.headers["x-part-access-token"]
    return {**headers, "X-Boeing-Parts-Authorization": token}


def ask(simulator: BoeingSimulator, headers: Mapping[str, str], *codes: str) -> SimReply:
    body = json.dumps({"productCodes": codes}).encode()
    return simulator.handle("POST", PRICE, headers, body)


def lines(simulator: BoeingSimulator, *codes: str) -> list[dict[str, Any]]:
    return json.loads(ask(simulator, sign_in(simulator), *codes).body)["lineItems"]


@given(
    st.lists(
        st.tuples(
            st.floats(min_value=0, max_value=70), st.sampled_from([OAUTH, PART_TOKEN, PRICE])
        ),
        max_size=30,
    )
)
def test_the_window_holds_all_three_kinds_as_a_slow_recount_does(
    calls: list[tuple[float, str]],
) -> None:
    clock = VirtualClock(START)
    simulator = supplier(clock, limit=2)
    arrivals: list[float] = []
    refused = 0
    for gap_s, path in calls:
        clock.sleep(gap_s)
        arrivals.append(clock.monotonic())
        reply = simulator.handle("GET" if path == PART_TOKEN else "POST", path, {}, b"")
        refused += reply.status == 429
        held = [arrival for arrival in arrivals if arrival > arrivals[-1] - 60]
        assert (reply.status == 429) == (len(held) > 2)
    counts = [sum(last - 60 < arrival <= last for arrival in arrivals) for last in arrivals]
    assert simulator.max_calls_in_window == max(counts, default=0)
    assert simulator.refusals == refused


def test_the_limit_may_bind_price_calls_only(clock: VirtualClock) -> None:
    simulator = supplier(clock, limit=2, counts_auth=False)
    headers = sign_in(simulator)
    assert [ask(simulator, headers, "P1").status for _ in range(3)] == [200, 200, 429]
    assert simulator.max_calls_in_window == 3


def test_a_step_of_the_system_clock_does_not_move_the_window(clock: VirtualClock) -> None:
    simulator = supplier(clock, limit=1)
    simulator.handle("POST", OAUTH, {}, FORM)
    clock.step(3600)
    assert simulator.handle("POST", OAUTH, {}, FORM).status == 429


def test_a_refusal_says_how_long_to_wait_and_what_time_it_is(clock: VirtualClock) -> None:
    simulator = supplier(clock, limit=1)
    simulator.handle("POST", OAUTH, {}, FORM)
    clock.sleep(10.5)
    reply = simulator.handle("POST", OAUTH, {}, FORM)
    assert reply.headers["Retry-After"] == "60"  # the refused call counts too
    assert reply.headers["Date"] == "Thu, 01 Jan 2026 00:00:10 GMT"


def test_unknown_skus_are_silently_missing(clock: VirtualClock) -> None:
    rows = lines(supplier(clock), "P1=K3", "X1", "P2=E9")
    assert [line["aviallPartNumber"] for line in rows] == ["P1=K3", "P2=E9"]


def test_case_does_not_matter_when_asking(clock: VirtualClock) -> None:
    assert lines(supplier(clock), "p1=k3")[0]["aviallPartNumber"] == "P1=K3"


def test_a_part_shows_its_price_always_in_the_same_way(clock: VirtualClock) -> None:
    simulator = supplier(clock)
    prices = {}
    for _ in range(5):
        for number in range(0, 100, 10):
            for line in lines(simulator, *(f"P{number + offset}" for offset in range(10))):
                shown = (line["listPrice"], line["netPrice"])
                assert prices.setdefault(line["aviallPartNumber"], shown) == shown
    kinds = {type(net) for _, net in prices.values()}
    assert kinds == {str, float}
    hidden = sum(Decimal(str(listed)) == 0 for listed, _ in prices.values())
    assert 20 <= hidden <= 40
    assert all(Decimal(str(net)) == Decimal("10.25") for _, net in prices.values())


def test_shown_prices_are_what_the_reply_shows(clock: VirtualClock) -> None:
    simulator = supplier(clock)
    for number in range(50):
        line = lines(simulator, f"P{number}")[0]
        part = FixedCatalog().lookup(f"P{number}")
        assert part
        listed, net = simulator.shown_prices(part)
        assert Decimal(str(line["listPrice"])) == (listed or 0)
        assert Decimal(str(line["netPrice"])) == net


def test_the_maker_of_a_part_is_shown_where_it_is_known(clock: VirtualClock) -> None:
    simulator = supplier(clock)
    makers = [line.get("supplierName") for line in lines(simulator, "P7", "P8")]
    assert makers == ["Maker 7", None]


def test_locations_come_shuffled_and_some_are_foreign(clock: VirtualClock) -> None:
    simulator = supplier(clock)
    orders, has_foreign = set(), set()
    for number in range(60):
        places = lines(simulator, f"P{number}")[0]["locationAvailabilities"]
        stock = {place["location"]: place["availQuantity"] for place in places}
        orders.add(tuple(stock))
        has_foreign.add("Germany CSC" in stock)
        assert stock["Dallas Central"] == 5
        assert stock.get("Miami FL", 0) == 0
    assert len(orders) > 5
    assert has_foreign == {True, False}


@pytest.mark.parametrize(
    "form",
    (
        b"",
        b"client_id=sim-client&client_secret=wrong&grant_type=client_credentials",
        b"client_id=other&client_secret=sim-client-secret&grant_type=client_credentials",
        b"client_id=sim-client&client_secret=sim-client-secret&grant_type=password",
        b"\xff\xfe",
    ),
)
def test_a_wrong_sign_in_is_refused(clock: VirtualClock, form: bytes) -> None:
    assert supplier(clock).handle("POST", OAUTH, {}, form).status == 401


def test_an_expired_wrong_or_swapped_token_is_refused(clock: VirtualClock) -> None:
    simulator = supplier(clock, token_life_s=100)
    headers = sign_in(simulator)
    oauth = headers["Authorization"].removeprefix("Bearer ")
    part = headers["X-Boeing-Parts-Authorization"]
    swapped = {"Authorization": f"Bearer {part}", "X-Boeing-Parts-Authorization": oauth}
    assert ask(simulator, headers, "P1").status == 200
    assert ask(simulator, swapped, "P1").status == 401
    assert ask(simulator, {}, "P1").status == 401
    clock.sleep(100)
    assert ask(simulator, headers, "P1").status == 401


def test_a_call_of_no_or_too_many_skus_is_a_bad_request(clock: VirtualClock) -> None:
    simulator = supplier(clock)
    headers = sign_in(simulator)
    assert ask(simulator, headers, *(f"P{number}" for number in range(10))).status == 200
    assert ask(simulator, headers, *(f"P{number}" for number in range(11))).status == 400
    assert ask(simulator, headers).status == 400
    for body in (b"", b"{", b"[]", b'{"productCodes":"P1"}', b'{"productCodes":[1]}'):
        assert simulator.handle("POST", PRICE, headers, body).status == 400


def test_an_unknown_address_or_method_is_refused_and_counted(clock: VirtualClock) -> None:
    simulator = supplier(clock)
    assert simulator.handle("GET", "/elsewhere", {}, b"").status == 404
    assert simulator.handle("GET", OAUTH, {}, b"").status == 405
    assert simulator.max_calls_in_window == 2


def test_an_outage_alternates_and_ends(clock: VirtualClock) -> None:
    plan = FaultPlan(outage=[Interval(start_s=10, end_s=20)])
    simulator = supplier(clock, faults=plan)
    assert plan.outages() == (Interval(start_s=10, end_s=20),)
    assert simulator.handle("POST", OAUTH, {}, FORM).status == 200
    clock.sleep(10)
    replies = [simulator.handle("POST", OAUTH, {}, FORM) for _ in range(3)]
    assert {(reply.outcome, reply.status) for reply in replies} == {
        ("answer", 503), ("refuse", 200), ("hang", 200),
    }  # fmt: skip
    assert simulator.calls["oauth"] == 3  # the refused one never arrived
    clock.sleep(10)
    assert simulator.handle("POST", OAUTH, {}, FORM).status == 200
    assert plan.injected == {"unavailable": 1, "refused": 1, "timeout": 1}


def test_a_poisoned_sku_fails_every_call_it_is_in(clock: VirtualClock) -> None:
    simulator = supplier(clock, faults=FaultPlan(poison={"P7"}))
    headers = sign_in(simulator)
    assert ask(simulator, headers, "P1", "P7").status == 500
    assert ask(simulator, headers, "P1", "P2").status == 200


def test_a_vanished_sku_comes_back(clock: VirtualClock) -> None:
    plan = FaultPlan(vanish={"P1": Interval(start_s=0, end_s=50)})
    simulator = supplier(clock, faults=plan)
    assert [line["aviallPartNumber"] for line in lines(simulator, "P1", "P2")] == ["P2"]
    clock.sleep(50)
    assert len(lines(simulator, "P1", "P2")) == 2
    assert plan.injected == {"vanish": 1}


@pytest.mark.parametrize(("form", "price"), (("zero", 0), ("negative", -12.5), ("text", "n/a")))
def test_a_bad_price_is_shown_as_planned(clock: VirtualClock, form: str, price: object) -> None:
    plan = FaultPlan(badprice={"P1": (BadPrice(form), ALWAYS)})
    first, second = lines(supplier(clock, faults=plan), "P1", "P2")
    assert first["netPrice"] == price
    assert Decimal(str(second["netPrice"])) == Decimal("10.25")


def test_another_currency_stands_at_the_top_for_all(clock: VirtualClock) -> None:
    plan = FaultPlan(badprice={"P1": (BadPrice.CURRENCY, ALWAYS)})
    simulator = supplier(clock, faults=plan)
    headers = sign_in(simulator)
    assert json.loads(ask(simulator, headers, "P2").body)["currency"] == "USD"
    assert json.loads(ask(simulator, headers, "P2", "P1").body)["currency"] == "EUR"


@pytest.mark.parametrize("fault", tuple(SimulatedFault)[:7])
def test_each_fault_is_injected_at_about_its_rate(
    clock: VirtualClock, fault: SimulatedFault
) -> None:
    simulator = supplier(clock)
    headers = sign_in(simulator)
    simulator.faults = FaultPlan(rates={fault: 0.2})
    for _ in range(500):
        ask(simulator, headers, "P1", "P2")
    assert set(simulator.faults.injected) == {fault}
    assert 70 <= simulator.faults.injected[fault] <= 130


def test_the_same_seed_gives_the_same_day(clock: VirtualClock) -> None:
    def day() -> list[SimReply]:
        rates = {"error": 0.1, "slow": 0.1, "truncate": 0.1, "duplicate": 0.1}
        simulator = supplier(clock, faults=FaultPlan(5, rates=rates), seed=5)
        simulator.handle("POST", OAUTH, {}, FORM)
        return [simulator.handle("POST", OAUTH, {}, FORM) for _ in range(50)]

    assert day() == day()


@pytest.mark.parametrize("rates", ({"typo": 0.1}, {"refused": 0.1}, {"error": -1}, {"error": 2}))
def test_impossible_rates_are_explained(rates: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        FaultPlan(rates=rates)


@given(st.text(), st.text(), st.dictionaries(st.text(), st.text()), st.binary())
def test_any_request_gets_an_answer(
    method: str, path: str, headers: dict[str, str], body: bytes
) -> None:
    simulator = supplier(VirtualClock(START))
    for target in (path, OAUTH, PART_TOKEN, PRICE):
        assert 200 <= simulator.handle(method, target, headers, body).status < 500
        assert 200 <= simulator.handle("POST", target, headers, body).status < 500
