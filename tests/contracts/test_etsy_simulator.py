"""Every request to Etsy and every reply of the simulator matches Etsy's OpenAPI document."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from psycopg_pool import ConnectionPool
from tests.contracts.reduction import ETSY as ETSY_FILE
from tests.contracts.reduction import SCHEMAS

from headway.core.accounts.jobs import Account, DataKind
from headway.core.accounts.pagination import PageRequest
from headway.core.catalog.listings import SellerId
from headway.errors import ProviderError
from headway.providers.etsy.api import SCOPES
from headway.providers.etsy.client import EtsyAccess, EtsyApi, EtsyPlatform, consent_url
from headway.providers.etsy.pagination import paginator_of
from headway.providers.registry import platform_role
from headway.providers.token_store import token_key
from headway.providers.tokens import store_tokens
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.platforms import ETSY
from headway_lab.simulators.etsy.records import EtsyBuyer
from headway_lab.simulators.etsy.simulator import EtsySimulator
from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
VAULT = Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
ACCESS = EtsyAccess(keystring="sim-keystring", shared_secret="sim-shared-secret")
SHOP = 77
TYPES: dict[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "string": str,
    "boolean": bool,
    "array": list,
    "object": dict,
}
# The simulator returns every field of these.
WHOLE = (
    "ShopReceipts",
    "ShopReceipt",
    "ShopReceiptTransaction",
    "ShopReceiptShipment",
    "ShopRefund",
    "Money",
    "TransactionVariations",
    "ShopListingsWithAssociations",
    "ShopListingWithAssociations",
    "PaymentAccountLedgerEntries",
    "PaymentAccountLedgerEntry",
    "Payment",
    "PaymentAdjustment",
    "Self",
)


@cache
def contract() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((SCHEMAS / ETSY_FILE).read_text(encoding="utf-8"))
    return document


class SchemaChecker:
    """Checks values against a schema, and records which fields occurred."""

    def __init__(self) -> None:
        self.met: dict[str, set[str]] = {}

    def faults(self, value: Any, schema: Mapping[str, Any], where: str) -> list[str]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if isinstance(value, dict):
                self.met.setdefault(name, set()).update(value)
            return self.faults(value, contract()["components"]["schemas"][name], where)
        if value is None:
            return [] if schema.get("nullable") else [f"{where} is null"]
        if "oneOf" in schema:
            tried = [self.faults(value, option, where) for option in schema["oneOf"]]
            return min(tried, key=len)
        return self.plain(value, schema, where)

    def plain(self, value: Any, schema: Mapping[str, Any], where: str) -> list[str]:
        kind = schema.get("type")
        is_bool = isinstance(value, bool)
        if kind and (not isinstance(value, TYPES[kind]) or (is_bool and kind != "boolean")):
            return [f"{where} is no {kind}: {value!r}"]
        values = []
        if "enum" in schema and value not in schema["enum"]:
            values.append(f"{where} is not one of its words: {value!r}")
        if "minimum" in schema and value < schema["minimum"]:
            values.append(f"{where} is too small: {value!r}")
        if "maximum" in schema and value > schema["maximum"]:
            values.append(f"{where} is too large: {value!r}")
        if isinstance(value, list):
            for place, item in enumerate(value):
                values += self.faults(item, schema.get("items", {}), f"{where}[{place}]")
        if isinstance(value, dict):
            values += self.fields(value, schema, where)
        return values

    def fields(self, value: dict[str, Any], schema: Mapping[str, Any], where: str) -> list[str]:
        known = schema.get("properties", {})
        pairs = [
            f"{where} lacks {name}" for name in schema.get("required", ()) if name not in value
        ]
        pairs += [f"{where} has an unknown {name}" for name in value if name not in known]
        for name in value.keys() & known.keys():
            pairs += self.faults(value[name], known[name], f"{where}.{name}")
        return pairs


def operation_of(path: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the GET at this path, and the values inside the path."""
    for template, operations in contract()["paths"].items():
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template)
        match = re.fullmatch(pattern, path)
        if match and "get" in operations and all(group.isdigit() for group in match.groups()):
            return operations["get"], match.groupdict()
    raise AssertionError(f"Etsy has no {path}")


def as_typed(text: str, schema: Mapping[str, Any]) -> Any:
    if schema["type"] == "integer":
        return int(text)
    if schema["type"] == "array":  # "a comma-separated array"
        return [as_typed(part, schema["items"]) for part in text.split(",")]
    return {"true": True, "false": False}.get(text, text) if schema["type"] == "boolean" else text


class ContractChecker:
    """Wraps the simulator and checks every request and reply against the document."""

    def __init__(self, etsy: EtsySimulator) -> None:
        self.etsy = etsy
        self.schema_checker = SchemaChecker()
        self.violations: list[str] = []
        self.operations: set[str] = set()

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        reply = self.etsy.handle(method, path, headers, body)
        url = urlsplit(path)
        if headers.get("x-api-key") != "sim-keystring:sim-shared-secret":
            self.violations.append(f"{path} came without the app's key")
        if url.path != "/v3/public/oauth/token":
            operation, inside = operation_of(url.path)
            self.operations.add(operation["operationId"])
            self.check_request(operation, {**inside, **dict(parse_qsl(url.query))}, method)
            self.check_reply(operation, reply)
        return reply

    def check_request(self, operation: Any, params: dict[str, str], method: str) -> None:
        name = operation["operationId"]
        known = {parameter["name"]: parameter for parameter in operation["parameters"]}
        self.violations += [
            f"{name} has no parameter {param}" for param in params if param not in known
        ]
        for parameter in known.values():
            if parameter["required"] and parameter["name"] not in params:
                self.violations.append(f"{name} lacks {parameter['name']}")
        for key in params.keys() & known.keys():
            schema = known[key]["schema"]
            self.violations += self.schema_checker.faults(
                as_typed(params[key], schema), schema, f"{name}({key})"
            )
        security = operation.get("security") or [{}]
        missing = set(security[0].get("oauth2", ())) - set(SCOPES)
        self.violations += [f"{name} needs the scope {scope}" for scope in missing]
        assert method == "GET"

    def check_reply(self, operation: Any, reply: SimReply) -> None:
        response = operation["responses"].get(str(reply.status))
        if response is None:
            if reply.status not in {404, 429}:  # the document has no limits
                self.violations.append(f"{operation['operationId']} never answers {reply.status}")
            return
        schema = response["content"]["application/json"]["schema"]
        value = json.loads(reply.body)
        if reply.status == 200:
            self.violations += self.schema_checker.faults(value, schema, operation["operationId"])
        elif not isinstance(value.get("error"), str):
            self.violations.append(f"{operation['operationId']} gives no error")


@pytest.fixture
def checker() -> ContractChecker:
    contract()
    etsy = EtsySimulator(VirtualClock(START), per_second=1000)
    etsy.add_shop(SHOP, name="Mugs")
    return ContractChecker(etsy)


@pytest.fixture
def connector(checker: ContractChecker, pool: ConnectionPool) -> Iterator[EtsyPlatform]:
    clock, pair = checker.etsy._clock, checker.etsy.grant(SHOP)
    credentials, scope = Credentials(pool), token_key(ETSY, str(SHOP))
    store_tokens(credentials, VAULT, scope, clock=clock, access=pair.access, refresh=pair.refresh)
    account = Account(id="1", user_id=SellerId("seller"), platform=ETSY, shop=str(SHOP))
    connector = EtsyPlatform(
        account,
        url="http://etsy.test",
        access=ACCESS,
        token_store=credentials,
        vault=VAULT,
        clock=clock,
        transport=SimTransport(checker.handle, clock),
    )
    with contextlib.closing(connector):
        yield connector


def perform_events(etsy: EtsySimulator) -> None:
    """Perform every kind of event at least once."""
    for state in ("active", "inactive", "sold_out", "draft", "expired"):
        etsy.add_listing(SHOP, state=state, sku="" if state == "draft" else "MUG")
    buyer = EtsyBuyer(id=5, name="Ada", email="ada@example.com", country="GB")
    orders = [etsy.place_order(SHOP, buyer=buyer) for _ in range(130)]
    orders.append(etsy.place_order(SHOP, is_paid=False, discount=10))
    etsy.ship(SHOP, orders[0])
    etsy.deliver(SHOP, orders[0])
    etsy.cancel(SHOP, orders[1])
    etsy.refund(SHOP, orders[2], amount=5, reason="late")
    etsy.refund(SHOP, orders[3])
    etsy.pay_out(SHOP)


def test_requests_and_replies_of_pulls_and_client_match_the_document(
    checker: ContractChecker, connector: EtsyPlatform
) -> None:
    perform_events(checker.etsy)
    receipt = next(iter(checker.etsy.shop(SHOP).receipts))
    clock = checker.etsy._clock
    clock.sleep(120)
    for kind in platform_role(ETSY).kinds:
        for is_backfill in (False, True) if kind is not DataKind.LISTINGS else (False,):
            walk = paginator_of(kind, is_backfill=is_backfill)
            cursor = walk.begin({"rewalked_s": 0}, clock.now(), [str(receipt)])
            while True:
                if connector.needs_token():
                    assert connector.refresh_token()
                page = connector.read(walk.ask(cursor))
                assert page.records.unreadable == ()
                step = walk.advance(cursor, page, clock.now())
                if step.is_done:
                    break
                cursor = step.cursor
    assert connector.read(PageRequest(what="receipt", values={"receipt_id": "4"})).missing == ("4",)
    assert checker.violations == []
    assert checker.operations == {
        "getShop",
        "getShopReceipts",
        "getShopReceipt",
        "getListingsByShop",
        "getShopPaymentAccountLedgerEntries",
        "getPayments",
    }
    schemas = contract()["components"]["schemas"]
    met = checker.schema_checker.met
    for name in set(WHOLE) - {"Self"}:
        assert met.get(name) == set(schemas[name]["properties"]), name


def test_the_oauth_flow_matches_the_document(checker: ContractChecker) -> None:
    clock = checker.etsy._clock
    endpoint = EtsyApi(
        ACCESS, url="http://etsy.test", clock=clock, transport=SimTransport(checker.handle, clock)
    )
    pair = checker.etsy.grant(SHOP)
    with contextlib.closing(endpoint):
        endpoint.find_self(pair.access)
        endpoint.find_title(str(SHOP), pair.access)
        for wrong in ("nobody", pair.refresh):
            with pytest.raises(ProviderError):
                endpoint.find_self(wrong)
    assert checker.violations == []
    assert checker.operations == {"getMe", "getShop"}
    oauth = contract()["components"]["securitySchemes"]["oauth2"]["flows"]["authorizationCode"]
    assert consent_url("k", "r", "s", "c").startswith(f"{oauth['authorizationUrl']}?")
    assert set(SCOPES) <= set(oauth["scopes"])
    assert checker.schema_checker.met["Self"] == {"user_id", "shop_id"}


def test_the_checker_reports_what_does_not_match() -> None:
    schema = {"$ref": "#/components/schemas/ShopReceipt"}
    contract()

    def faults(**row: Any) -> list[str]:
        return SchemaChecker().faults(row, schema, "row")

    assert faults(receipt_id=1, name="x", seller_email=None) == []
    assert faults(receipt_id="1") == ["row.receipt_id is no integer: '1'"]
    assert faults(receipt_id=0) == ["row.receipt_id is too small: 0"]
    assert faults(is_paid=1) == ["row.is_paid is no boolean: 1"]
    assert faults(receipt_id=True) == ["row.receipt_id is no integer: True"]
    assert faults(status="shipped") == ["row.status is not one of its words: 'shipped'"]
    assert faults(name=None) == ["row.name is null"]
    assert faults(nickname="x") == ["row has an unknown nickname"]
    assert faults(grandtotal={"amount": "5"}) == ["row.grandtotal.amount is no integer: '5'"]
    assert faults(refunds=[{"amount": 5}]) == ["row.refunds[0].amount is no object: 5"]
    with pytest.raises(AssertionError, match="Etsy has no"):
        operation_of("/v3/application/shops/77/orders")
