"""How long it takes to read a page of replies: today's readers, and those of another checkout.

Pages have the size and the fields of real ones. The measure is processor time, the least of many
readings, because other programs only ever make a reading longer.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.table import report_progress, show
from headway.config import Settings
from headway.core.accounts.pagination import PageRequest
from headway.core.catalog.listings import Sku
from headway.providers.boeing.api import api_of
from headway.providers.boeing.replies import parse_reply
from headway.providers.etsy.replies import read_receipts
from headway.providers.printify.replies import read_orders
from headway.providers.shopify.read_replies import read_page
from headway.providers.shopify.replies import read_reply

ROOT = Path(__file__).parent.parent
NOW = datetime(2026, 3, 1, tzinfo=UTC)
FORM = api_of(Settings()).form
PLACED_S = int(NOW.timestamp()) - 3 * 86_400
PLACED_AT = "2026-02-26T10:15:00Z"
READINGS, ROUNDS = 50, 3
RATIO_MAX = 1.5
Page = tuple[bytes, Callable[[bytes], Any]]


def run(*, against: Path | None = None) -> None:
    """Print the times, and their ratio to those of another checkout if there is one."""
    best: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        report_progress(f"replies: round {number + 1} of {ROUNDS}")
        for tree in (ROOT, against):
            if tree is not None:
                for name, milliseconds in _measure(tree).items():
                    best.setdefault(f"{tree} {name}", []).append(milliseconds)
    rows = []
    for name, (body, _) in pages().items():
        now_ms, json_ms = (min(best[f"{ROOT} {part}"]) for part in (name, f"json {name}"))
        then_ms = min(best[f"{against} {name}"]) if against else None
        rows.append(
            [
                name,
                f"{len(body) // 1000:,} kB",
                f"{json_ms:.2f} ms",
                f"{now_ms:.2f} ms",
                f"{then_ms:.2f} ms" if then_ms else "-",
                f"{now_ms / then_ms:.2f}" if then_ms else "-",
            ]
        )
    headers = ("page", "size", "JSON alone", "read", "other checkout", "ratio")
    note = f"A ratio up to {RATIO_MAX} is acceptable; compare with --against CHECKOUT."
    show("Reading one page of replies, processor time", headers, rows, note)


def pages() -> Mapping[str, Page]:
    """Return a page of every provider, with its reader."""
    lines, skus = [_boeing_line(number) for number in range(10)], [f"P{n}=K3" for n in range(10)]
    orders = PageRequest(what="orders", values={"field": "updated_at"})
    listed = {
        "nodes": [_shopify_order(number) for number in range(1, 51)],
        "pageInfo": {"hasNextPage": False, "endCursor": None},
    }
    printify = {"current_page": 1, "last_page": 1, "total": 100}
    return {
        "100 Etsy receipts": (
            _body({"count": 100, "results": [_receipt(number) for number in range(1, 101)]}),
            lambda body: read_receipts(body, sort_on="updated", now=NOW).records.orders,
        ),
        "100 Printify orders": (
            _body({**printify, "data": [_printify_order(number) for number in range(100)]}),
            lambda body: read_orders(body, limit=100, now=NOW).records.orders,
        ),
        "50 Shopify orders": (
            _body({"data": {"orders": listed}}),
            lambda body: read_page(orders, read_reply(body)).records.orders,
        ),
        "10 Boeing line items": (
            _body({"currency": "USD", "lineItems": lines}),
            lambda body: parse_reply(body, [Sku(sku) for sku in skus], FORM).quotes,
        ),
    }


def times() -> dict[str, float]:
    """Return the least milliseconds that each page takes, and those of its JSON alone."""
    result = {}
    for name, (body, read) in pages().items():
        assert len(read(body)) == int(name.split()[0]), f"every row of {name} is read"
        result[name] = _least_ms(read, body)
        result[f"json {name}"] = _least_ms(json.loads, body)
    return result


def _measure(tree: Path) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree / "src"), str(ROOT)))}
    command = [sys.executable, "-m", "bench.replies"]
    output = subprocess.run(command, env=environment, check=True, capture_output=True).stdout
    figures: dict[str, float] = json.loads(output)
    return figures


def _least_ms(read: Callable[[bytes], object], body: bytes) -> float:
    readings = []
    for _ in range(READINGS):
        at_s = time.process_time()
        read(body)
        readings.append(time.process_time() - at_s)
    return 1000 * min(readings)


def _body(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _etsy_money(amount: int) -> dict[str, Any]:
    return {"amount": amount, "divisor": 100, "currency_code": "USD"}


def _receipt(number: int) -> dict[str, Any]:
    sums = ("grandtotal", "subtotal", "total_price", "total_shipping_cost", "total_tax_cost")
    more = ("total_vat_cost", "discount_amt", "gift_wrap_price")
    stamps = ("create_timestamp", "created_timestamp", "update_timestamp", "updated_timestamp")
    texts = ("first_line", "second_line", "city", "state", "zip", "message_from_buyer")
    shipment = {
        "receipt_shipping_id": number,
        "shipment_notification_timestamp": PLACED_S + 60,
        "carrier_name": "usps",
        "tracking_code": f"94001{number:020}",
    }
    return {
        "receipt_id": 1_000_000 + number,
        "seller_user_id": 7,
        "buyer_user_id": 500 + number % 70,
        "buyer_email": None,
        "name": "Ada Lovelace",
        **dict.fromkeys(texts, "13 Example Street"),
        "message_from_seller": "Thank you for your order! " * 8,
        "country_iso": "GB",
        "status": "Completed",
        "is_shipped": True,
        "is_paid": True,
        "is_gift": False,
        **dict.fromkeys(stamps, PLACED_S + number),
        **{name: _etsy_money(2599) for name in sums},
        **{name: _etsy_money(0) for name in more},
        "transactions": [_transaction(10 * number + place) for place in range(2)],
        "shipments": [shipment],
        "refunds": [],
    }


def _transaction(number: int) -> dict[str, Any]:
    numbers = ("seller_user_id", "listing_image_id", "receipt_id", "product_id", "shop_coupon")
    return {
        "transaction_id": 2_000_000 + number,
        "title": "Handmade mug, blue glaze, 350 ml",
        "description": "Every mug is thrown and glazed by hand. " * 40,
        **dict.fromkeys(numbers, 12345),
        "created_timestamp": PLACED_S,
        "expected_ship_date": PLACED_S,
        "quantity": 2,
        "listing_id": 900 + number,
        "sku": f"MUG-{number}",
        "price": _etsy_money(1000),
        "shipping_cost": _etsy_money(399),
        "variations": [{"property_id": 1, "formatted_name": "Color", "formatted_value": "Blue"}],
    }


def _printify_order(number: int) -> dict[str, Any]:
    line = {
        "product_id": f"5b05842f3921c9547531{number:04}",
        "quantity": 1,
        "variant_id": 17887,
        "print_provider_id": 5,
        "cost": 1050,
        "shipping_cost": 400,
        "status": "fulfilled",
        "metadata": {"title": "Tee", "price": 2200, "variant_label": "M", "sku": "TEE-7"},
        "sent_to_production_at": "2026-02-26 10:24:28+00:00",
        "fulfilled_at": "2026-02-27 13:24:28+00:00",
    }
    names = ("first_name", "last_name", "region", "address1", "city", "zip", "phone", "company")
    return {
        "id": f"5a96f649b2439217d07{number:05}",
        "address_to": {
            **dict.fromkeys(names, "Example"),
            "email": f"buyer{number % 70}@example.org",
            "country": "US",
        },
        "line_items": [line, {**line, "variant_id": 17888}],
        "metadata": {"order_type": "external", "shop_order_id": number, "shop_order_label": "#17"},
        "total_price": 4400,
        "total_shipping": 405,
        "total_tax": 0,
        "status": "fulfilled",
        "shipping_method": 1,
        "shipments": [
            {
                "carrier": "usps",
                "number": f"94001{number:020}",
                "url": "https://tools.usps.com/go/TrackConfirmAction",
                "delivered_at": "2026-02-28 13:24:28+00:00",
            }
        ],
        "created_at": "2026-02-26 10:15:00+00:00",
        "fulfilled_at": "2026-02-27 13:24:28+00:00",
    }


def _gid(kind: str, number: int) -> str:
    return f"gid://shopify/{kind}/{5_000_000_000 + number}"


def _shopify_order(number: int) -> dict[str, Any]:
    money = {"shopMoney": {"amount": "44.00", "currencyCode": "USD"}}
    sums = ("totalPriceSet", "subtotalPriceSet", "totalShippingPriceSet", "totalTaxSet")
    line = {
        "sku": "TEE-7",
        "title": "Tee with a print",
        "quantity": 2,
        "variant": {"id": _gid("ProductVariant", number)},
        "originalUnitPriceSet": money,
    }
    shipment = {
        "id": _gid("Fulfillment", number),
        "status": "SUCCESS",
        "createdAt": PLACED_AT,
        "deliveredAt": None,
        "trackingInfo": [{"company": "USPS", "number": f"94001{number:020}"}],
    }
    payment = {
        "id": _gid("OrderTransaction", number),
        "kind": "SALE",
        "status": "SUCCESS",
        "createdAt": PLACED_AT,
        "processedAt": PLACED_AT,
        "amountSet": money,
    }
    return {
        "id": _gid("Order", number),
        "name": f"#{number}",
        **dict.fromkeys(("createdAt", "processedAt", "updatedAt"), PLACED_AT),
        "cancelledAt": None,
        "closedAt": None,
        "displayFinancialStatus": "PAID",
        "displayFulfillmentStatus": "FULFILLED",
        "customer": {"id": _gid("Customer", number)},
        **dict.fromkeys((*sums, "totalDiscountsSet"), money),
        "lineItems": {
            "nodes": [{**line, "id": _gid("LineItem", 10 * number + place)} for place in range(4)],
            "pageInfo": {"hasNextPage": False, "endCursor": "abc"},
        },
        "fulfillments": [shipment],
        "refunds": [],
        "transactions": [payment],
    }


def _boeing_line(number: int) -> dict[str, Any]:
    names = ("uom", "dim", "hazmatCode", "tariffCode", "countryOfOrigin", "certification")
    locations = ("Dallas Central", "Chicago IL", "Miami FL", "Goodyear AZ", "Germany CSC")
    return {
        "aviallPartNumber": f"P{number}=K3",
        "productCode": f"P{number}",
        "name": "SEAL, RING",
        "description": "SEAL, RING, PREFORMED PACKING, HYDRAULIC",
        "supplierName": "PARKER HANNIFIN",
        **dict.fromkeys(names, "EA"),
        "listPrice": 20.5,
        "netPrice": 10.25 + number,
        "quantity": 35,
        "inStock": True,
        "locationAvailabilities": [
            {"location": location, "availQuantity": place}
            for place, location in enumerate(locations, 5)
        ],
    }


if __name__ == "__main__":
    print(json.dumps(times()))
