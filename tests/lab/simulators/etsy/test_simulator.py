"""The simulated Etsy keeps its limits, pages its lists and rotates its tokens as Etsy does."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_lab.simulators.etsy.records import EtsyBuyer
from headway_lab.simulators.etsy.simulator import EtsySimulator
from headway_lab.simulators.faults import FaultPlan, Interval
from headway_lab.simulators.reply import SimReply
from headway_lab.virtual_clock import VirtualClock

KEY = "sim-keystring:sim-shared-secret"
TOKEN = "/v3/public/oauth/token"
SHOP = 77
START = datetime(2026, 1, 1, tzinfo=UTC)


class EtsyClient:
    """One client of one simulated shop."""

    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        self.clock = clock
        self.etsy = EtsySimulator(clock, **options)
        self.shop = self.etsy.add_shop(SHOP, name="Mugs")
        self.pair = self.etsy.grant(SHOP)

    def send(self, path: str, *, key: str = KEY, token: str = "", **params: Any) -> SimReply:
        self.clock.sleep(1)
        query = f"?{urlencode(params)}" if params else ""
        headers = {"X-Api-Key": key, "Authorization": f"Bearer {token or self.pair.access}"}
        return self.etsy.handle("GET", f"/v3/application{path}{query}", headers, b"")

    def ask(self, path: str, **params: Any) -> Any:
        reply = self.send(f"/shops/{SHOP}{path}", **params)
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    def receipts(self, **params: Any) -> list[int]:
        return [row["receipt_id"] for row in self.ask("/receipts", **params)["results"]]

    def token(self, **form: str) -> tuple[int, dict[str, Any]]:
        form = {"client_id": "sim-keystring", **form}
        reply = self.etsy.handle("POST", TOKEN, {"x-api-key": KEY}, urlencode(form).encode())
        return reply.status, json.loads(reply.body)

    def refresh(self, token: str) -> tuple[int, dict[str, Any]]:
        return self.token(grant_type="refresh_token", refresh_token=token)

    @property
    def now_s(self) -> int:
        return int(self.clock.now().timestamp())


@pytest.fixture
def client(clock: VirtualClock) -> EtsyClient:
    return EtsyClient(clock)


def test_receipts_are_filtered_sorted_and_cut(client: EtsyClient) -> None:
    placed = []
    for _ in range(7):
        placed.append(client.etsy.place_order(SHOP))
        client.clock.sleep(60)
    begin_s = client.now_s - 7 * 60
    client.etsy.ship(SHOP, placed[1], is_quiet=False)
    assert client.receipts() == placed[::-1]
    up = {"sort_order": "asc"}
    assert client.receipts(**up, limit=2, offset=3) == placed[3:5]
    assert client.receipts(limit=2, offset=3) == placed[::-1][3:5]
    assert client.receipts(limit=2, offset=6) == placed[:1]
    assert (
        client.receipts(**up, min_created=begin_s + 120, max_created=begin_s + 240) == placed[2:5]
    )
    changed = {"min_last_modified": begin_s + 330, "sort_on": "updated"}
    assert client.receipts(**changed, **up) == [placed[6], placed[1]]
    assert client.receipts(**changed) == [placed[1], placed[6]]
    assert client.receipts(**changed, max_created=begin_s + 100) == [placed[1]]
    assert client.receipts(was_shipped="true") == [placed[1]]
    assert client.receipts(sort_on="receipt_id", **up) == placed
    assert client.ask("/receipts", limit=1, was_shipped="false")["count"] == 6


def test_a_quiet_change_is_shown_but_does_not_move_the_timestamp(client: EtsyClient) -> None:
    receipt = client.etsy.place_order(SHOP)
    client.clock.sleep(100)
    since_s = client.now_s
    client.etsy.cancel(SHOP, receipt, is_quiet=True)
    assert client.receipts(min_last_modified=since_s) == []
    row = client.ask(f"/receipts/{receipt}")
    assert row["status"] == "canceled"
    assert row["refunds"][0]["amount"] == row["grandtotal"]
    client.etsy.deliver(SHOP, receipt)
    assert client.receipts(min_last_modified=since_s) == [receipt]


def test_some_changes_are_quiet_by_themselves(clock: VirtualClock) -> None:
    client = EtsyClient(clock)
    receipts = [client.etsy.place_order(SHOP) for _ in range(100)]
    clock.sleep(10)
    since_s = client.now_s
    for receipt in receipts:
        client.etsy.refund(SHOP, receipt, amount=1)
    moved = client.ask("/receipts", min_last_modified=since_s)["count"]
    assert 50 < moved < 90


def test_a_change_may_be_shown_later_than_its_timestamp(clock: VirtualClock) -> None:
    client = EtsyClient(clock, lag_s=(30, 60))
    receipt = client.etsy.place_order(SHOP)
    clock.sleep(100)
    since_s = client.now_s
    client.etsy.ship(SHOP, receipt, is_quiet=False)
    assert client.receipts(min_last_modified=since_s) == []
    clock.sleep(60)
    assert client.receipts(min_last_modified=since_s) == [receipt]
    assert client.ask(f"/receipts/{receipt}")["updated_timestamp"] == since_s


def test_listings_are_filtered_by_state_newest_first_and_relisted_ones_come_first(
    client: EtsyClient,
) -> None:
    first, second = (
        client.etsy.add_listing(SHOP),
        client.etsy.add_listing(SHOP, state="draft"),
    )
    client.clock.sleep(5)
    third = client.etsy.add_listing(SHOP, quantity=1)

    def listed(state: str) -> list[int]:
        return [row["listing_id"] for row in client.ask("/listings", state=state)["results"]]

    assert listed("active") == [third, first]
    client.etsy.place_order(SHOP, items=[(third, 1)])
    assert (listed("active"), listed("sold_out")) == ([first], [third])
    client.clock.sleep(5)
    client.etsy.edit_listing(SHOP, second, state="active", price=123)
    assert listed("active") == [second, first]
    client.etsy.remove_listing(SHOP, first)
    assert listed("active") == [second]


def test_the_ledger_requires_both_ends_of_a_window(client: EtsyClient) -> None:
    path = "/payment-account/ledger-entries"
    receipt = client.etsy.place_order(SHOP)
    now_s = client.now_s
    client.clock.sleep(100)
    client.etsy.refund(SHOP, receipt, amount=50)
    rows = client.ask(path, min_created=now_s - 5, max_created=now_s + 5)["results"]
    assert [row["ledger_type"] for row in rows] == ["transaction", "PAYMENT", "listing"]
    both = client.ask(path, min_created=now_s, max_created=now_s + 200)["results"]
    assert both[0]["amount"] == -50
    assert client.send(f"/shops/{SHOP}{path}", min_created=now_s).status == 400


@pytest.mark.parametrize(
    "params",
    (
        {"limit": 101},
        {"limit": 0},
        {"offset": 12_001},
        {"min_created": 5},
        {"sort_on": "price"},
        {"updated_after": 1_700_000_000},
        {"was_paid": "yes"},
    ),
)
def test_a_value_that_etsy_does_not_take_is_refused(
    client: EtsyClient, params: dict[str, Any]
) -> None:
    assert client.send(f"/shops/{SHOP}/receipts", **params).status == 400


def test_an_offset_and_a_ledger_window_have_their_bounds(client: EtsyClient) -> None:
    reply = client.send(f"/shops/{SHOP}/receipts", offset=12_001)
    text = "Offset provided is greater than the maximum offset allowed."
    assert json.loads(reply.body) == {"error": text}
    path = f"/shops/{SHOP}/payment-account/ledger-entries"
    wide = {"min_created": 1_700_000_000, "max_created": 1_700_000_000 + 2_678_400}
    assert client.send(path, **wide).status == 200
    reply = client.send(path, **{**wide, "max_created": wide["max_created"] + 1})
    assert (reply.status, json.loads(reply.body)["error"]) == (
        400,
        (
            "Time window between min_created and max_created must be no more than 2678400 seconds"
            " (31 days)."
        ),
    )


def test_a_key_without_its_secret_names_the_format(client: EtsyClient) -> None:
    headers = {"x-api-key": "keystring", "authorization": f"Bearer {client.pair.access}"}
    reply = client.etsy.handle("GET", f"/v3/application/shops/{SHOP}", headers, b"")
    assert (reply.status, json.loads(reply.body)["error"]) == (
        403,
        "Invalid API key: should be in the format 'keystring:shared_secret'.",
    )


def test_more_than_ten_in_a_second_are_refused_and_not_counted_for_the_day(
    client: EtsyClient,
) -> None:
    headers = {"x-api-key": KEY, "authorization": f"Bearer {client.pair.access}"}
    path = f"/v3/application/shops/{SHOP}/receipts"
    replies = [client.etsy.handle("GET", path, headers, b"") for _ in range(12)]
    assert [reply.status for reply in replies] == [200] * 10 + [429] * 2
    assert json.loads(replies[-1].body) == {"error": "Exceeded per second rate limit"}
    assert not {"Retry-After", "x-remaining-this-second", "x-remaining-today"} & {
        *replies[-1].headers
    }
    assert client.etsy.log.refusals == {"second": 2}
    assert (client.etsy.log.calls, client.etsy.log.calls_max_second) == (12, 12)


def test_the_day_is_a_window_of_24_hours_that_rolls(clock: VirtualClock) -> None:
    client = EtsyClient(clock, per_day=5)
    path = f"/shops/{SHOP}"
    assert [client.send(path).status for _ in range(6)] == [200] * 5 + [429]
    reply = client.send(path)
    assert json.loads(reply.body) == {"error": "Exceeded daily rate limit"}
    assert reply.headers["Retry-After"] == "86400"
    assert reply.headers["x-limit-per-day"] == "5"
    clock.sleep(86_400 - 7)
    client.pair = client.etsy.grant(SHOP)
    assert [client.send(path).status for _ in range(2)] == [200, 200]
    assert client.etsy.log.calls_max_day >= 7
    client.etsy.meter.spend(10, client.etsy.elapsed_s())
    assert client.send(path).headers["x-remaining-today"] == "0"


def test_a_refresh_token_is_good_once(client: EtsyClient) -> None:
    status, pair = client.refresh(client.pair.refresh)
    assert (status, pair["expires_in"], pair["token_type"]) == (200, 3600, "Bearer")
    assert client.refresh(client.pair.refresh)[1]["error"] == "invalid_grant"
    assert client.refresh(pair["refresh_token"])[0] == 200


def test_the_old_refresh_token_may_stay_valid_until_the_new_pair_is_used(
    clock: VirtualClock,
) -> None:
    client = EtsyClient(clock, keeps_old_refresh=True)
    _, lost = client.refresh(client.pair.refresh)
    status, pair = client.refresh(client.pair.refresh)
    assert status == 200
    assert client.send(f"/shops/{SHOP}", token=pair["access_token"]).status == 200
    assert client.refresh(client.pair.refresh)[0] == 400
    assert lost["access_token"] != pair["access_token"]


def test_access_ends_after_an_hour_by_revocation_and_at_other_shops(client: EtsyClient) -> None:
    other = client.etsy.add_shop()
    path = f"/shops/{other.owner.shop_id}/receipts"
    assert client.send(path).status == 403
    assert client.send(f"/shops/{SHOP}/receipts", token="9.unknown").status == 401
    client.clock.sleep(3600)
    assert client.send(f"/shops/{SHOP}/receipts").status == 401
    client.etsy.tokens.revoke(client.shop.owner.user_id)
    assert client.refresh(client.pair.refresh)[0] == 400


def test_the_app_must_give_its_key_with_its_secret_and_have_the_scope(client: EtsyClient) -> None:
    path = f"/shops/{SHOP}/receipts"
    reply = client.send(path, key="sim-keystring")
    assert (reply.status, json.loads(reply.body)["error"]) == (
        403,
        "Invalid API key: should be in the format 'keystring:shared_secret'.",
    )
    assert client.send(path, key="sim-keystring:wrong").status == 403
    assert client.send(path, key="").status == 403
    client.etsy.grant(SHOP, scopes=["listings_r"])
    assert json.loads(client.send(path).body)["error"] == "insufficient_scope"
    assert client.send(f"/shops/{SHOP}/listings").status == 200


def test_consent_gives_the_app_a_code_that_only_its_verifier_redeems(
    client: EtsyClient,
) -> None:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(b"verify me").digest()).rstrip(b"=")
    params = {
        "client_id": "sim-keystring",
        "redirect_uri": "http://here/back",
        "state": "s1",
        "scope": "shops_r listings_r",
        "code_challenge": challenge.decode(),
        "login": str(SHOP),
    }

    def agree() -> dict[str, str]:
        reply = client.etsy.handle("GET", f"/oauth/connect?{urlencode(params)}", {}, b"")
        assert reply.status == 302
        return {k: v[0] for k, v in parse_qs(urlsplit(reply.headers["Location"]).query).items()}

    back = agree()
    assert back["state"] == "s1"
    form = {"grant_type": "authorization_code", "redirect_uri": "http://here/back"}
    assert client.token(**form, code=back["code"], code_verifier="another")[0] == 400
    code = agree()["code"]
    status, pair = client.token(**form, code=code, code_verifier="verify me")
    assert status == 200
    assert client.token(**form, code=code, code_verifier="verify me")[0] == 400
    me = json.loads(client.send("/users/me", token=pair["access_token"]).body)
    assert me == {"user_id": client.shop.owner.user_id, "shop_id": SHOP}
    owned = json.loads(client.send(f"/users/{me['user_id']}/shops").body)
    assert owned["shop_name"] == "Mugs"


def test_faults_come_at_their_rate_and_in_outages(clock: VirtualClock) -> None:
    rates = {"error": 0.2, "html": 0.2, "truncate": 0.2, "timeout": 0.2}
    plan = FaultPlan(3, rates=rates, outage=[Interval(start_s=1000, end_s=1010)])
    client = EtsyClient(clock, faults=plan)
    client.etsy.place_order(SHOP)
    replies = [client.send(f"/shops/{SHOP}/receipts") for _ in range(100)]
    assert set(plan.injected) == {"error", "html", "truncate", "timeout"}
    assert {reply.outcome for reply in replies} == {"answer", "hang"}
    assert {reply.status for reply in replies} == {200, 500}
    assert client.etsy.log.calls == 100
    clock.sleep(1000 - client.etsy.elapsed_s())
    assert {client.send("/users/me").outcome for _ in range(6)} == {"answer", "hang", "refuse"}
    assert client.etsy.log.calls < 106


def test_a_webhook_is_signed_over_its_id_its_time_and_its_body(client: EtsyClient) -> None:
    receipt = client.etsy.place_order(SHOP)
    headers, body = client.etsy.hook("order.paid", SHOP, receipt)
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = hmac.new(b"sim-hook-secret", signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(mac).decode()}"
    payload = json.loads(body)
    assert payload["event_type"] == "order.paid"
    assert payload["resource_url"].endswith(f"/shops/{SHOP}/receipts/{receipt}")
    assert client.etsy.hook("order.paid", SHOP, receipt)[0]["webhook-id"] != headers["webhook-id"]


def test_the_expected_rows_are_in_the_warehouses_tables(client: EtsyClient) -> None:
    buyer = EtsyBuyer(id=5, name="Ada", email=None, country="GB")
    mug = client.etsy.add_listing(SHOP, sku="M1", title="Mug", price=1050, quantity=9)
    receipt = client.etsy.place_order(SHOP, buyer=buyer, items=[(mug, 2)], discount=100)
    client.etsy.ship(SHOP, receipt)
    client.etsy.refund(SHOP, receipt, amount=30, reason="late")
    client.etsy.refund(SHOP, receipt, amount=20)
    truth = client.etsy.truth(SHOP)
    order = truth["orders"][str(receipt)]
    assert (order["status"], order["subtotal"]) == ("partially refunded", Decimal("20.00"))
    (line,) = truth["line_items"].values()
    assert (line["sku"], line["quantity"], line["price"]) == ("M1", 2, Decimal("10.50"))
    second = str(client.now_s)
    keys = [(str(receipt), second), (str(receipt), f"{second}-2")]
    assert list(truth["refunds"]) == keys
    assert truth["customers"]["5"]["email"] == ""
    assert truth["listings"][str(mug)]["quantity"] == 7
    assert sum(row["amount"] for row in truth["payments"].values()) < order["total"]
    assert len(truth["shipments"]) == 1


def test_money_without_cents_is_shown_in_whole_units(clock: VirtualClock) -> None:
    client = EtsyClient(clock)
    shop = client.etsy.add_shop(currency="JPY")
    receipt = shop.place_order(client.now_s)
    assert shop.truth()["orders"][str(receipt)]["total"] == shop.receipts[receipt].total


def test_orders_can_be_placed_in_the_past(client: EtsyClient) -> None:
    now = client.etsy.place_order(SHOP)
    then = client.etsy.place_order(SHOP, at=client.clock.now() - timedelta(days=400), is_paid=False)
    assert client.receipts(sort_order="asc") == [then, now]
    client.etsy.pay(SHOP, then)
    assert client.ask(f"/receipts/{then}")["status"] == "paid"


@given(
    path=st.text(max_size=40),
    method=st.sampled_from(["GET", "POST", "PUT"]),
    body=st.binary(max_size=60),
)
def test_any_request_gets_an_answer(path: str, method: str, body: bytes) -> None:
    etsy = EtsySimulator(VirtualClock(START))
    etsy.add_shop(SHOP)
    for target in (path, f"/v3/application/shops/{SHOP}/receipts?{path}", TOKEN):
        reply = etsy.handle(method, target, {"x-api-key": KEY}, body)
        assert 300 <= reply.status < 500
