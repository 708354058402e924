"""What a verified webhook means: which account it is for, and what must be read because of it.

A webhook is a hint, never data: it reports that something changed, and Headway reads the change
from the platform. Only a disconnect and Shopify's privacy topics take effect directly.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headway.core.accounts.jobs import DataKind, PlatformName
from headway.errors import RequestError

ID_CHARS_MAX = 200
GID = re.compile(r"gid://shopify/\w+/")
RECEIPT = re.compile(r"/receipts/([0-9]{1,20})(?:[/?#]|$)")
# By the first word of a topic: the kind of record, and the paths of its id.
SHOPIFY_TOPICS: Mapping[str, tuple[DataKind, tuple[str, ...]]] = {
    "orders": (DataKind.ORDERS, ("id", "order_edit.order_id")),
    "refunds": (DataKind.ORDERS, ("order_id",)),
    "fulfillments": (DataKind.ORDERS, ("order_id",)),
    "products": (DataKind.LISTINGS, ("id",)),
    "customers": (DataKind.CUSTOMERS, ("id",)),
}
ETSY_TOPICS = frozenset({"order.paid", "order.canceled", "order.shipped", "order.delivered"})
PRINTIFY_TOPICS: Mapping[str, DataKind] = {"order": DataKind.ORDERS, "product": DataKind.LISTINGS}


class WebhookEffect(StrEnum):
    """The effect of a webhook."""

    WAKE = "wake"
    DISCONNECT = "disconnect"
    REDACT_CUSTOMER = "redact_customer"
    REDACT_SHOP = "redact_shop"
    RECORD = "record"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One delivery. `kind` and `external_id` say what to read, if the delivery names it.

    `order_ids` are the orders whose buyer's personal data must be deleted.
    """

    platform: PlatformName
    delivery_id: str
    shop: str
    topic: str
    effect: WebhookEffect
    kind: DataKind | None = None
    external_id: str | None = None
    order_ids: tuple[str, ...] = ()


# Shopify's three topics that every public app must accept.
PRIVACY: Mapping[str, WebhookEffect] = {
    "customers/data_request": WebhookEffect.RECORD,
    "customers/redact": WebhookEffect.REDACT_CUSTOMER,
    "shop/redact": WebhookEffect.REDACT_SHOP,
}
REASONS: Mapping[PlatformName, str] = {
    PlatformName.SHOPIFY: "the app was uninstalled in the shop",
    PlatformName.PRINTIFY: "the shop was disconnected at Printify",
}


def read_hook(platform: PlatformName, headers: Mapping[str, str], body: bytes) -> Webhook:
    """Parse a delivery with a valid signature; header names in lower case; raises RequestError."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise RequestError("the body is not a JSON object")
    if platform is PlatformName.SHOPIFY:
        return _shopify(headers, payload)
    return _etsy(headers, payload) if platform is PlatformName.ETSY else _printify(payload)


def _shopify(headers: Mapping[str, str], payload: Mapping[str, Any]) -> Webhook:
    topic = _text(headers.get("x-shopify-topic"), "the header X-Shopify-Topic").lower()
    effect, kind, external_id = PRIVACY.get(topic, WebhookEffect.NOTHING), None, None
    orders: tuple[str, ...] = ()
    if topic == "app/uninstalled":
        effect = WebhookEffect.DISCONNECT
    elif topic in PRIVACY:
        external_id, orders = _forgotten(payload, effect)
    elif (subject := topic.partition("/")[0]) in SHOPIFY_TOPICS:
        effect = WebhookEffect.WAKE
        kind, paths = SHOPIFY_TOPICS[subject]
        ids = (_number(_find(payload, path)) for path in paths)
        external_id = next((value for value in ids if value is not None), None)
    return Webhook(
        platform=PlatformName.SHOPIFY,
        delivery_id=_text(headers.get("x-shopify-webhook-id"), "the header X-Shopify-Webhook-Id"),
        shop=_text(
            headers.get("x-shopify-shop-domain"), "the header X-Shopify-Shop-Domain"
        ).lower(),
        topic=topic,
        effect=effect,
        kind=kind,
        external_id=external_id,
        order_ids=orders,
    )


def _forgotten(
    payload: Mapping[str, Any], effect: WebhookEffect
) -> tuple[str | None, tuple[str, ...]]:
    """Return which customer a privacy topic is about, and which of their orders it names."""
    if effect is WebhookEffect.REDACT_SHOP:
        return None, ()
    customer = _number(_find(payload, "customer.id"))
    if customer is None:
        # Without a name it would be everybody.
        raise RequestError("customer.id is missing, or is not a short word")
    order_ids = payload.get("orders_to_redact")
    numbers = (_number(value) for value in order_ids) if isinstance(order_ids, list) else ()
    return customer, tuple(number for number in numbers if number is not None)


def _etsy(headers: Mapping[str, str], payload: Mapping[str, Any]) -> Webhook:
    # One page of Etsy writes order.paid, another ORDER_PAID.
    topic = _text(payload.get("event_type"), "event_type").lower().replace("_", ".")
    is_used = topic in ETSY_TOPICS
    receipt = RECEIPT.search(str(payload.get("resource_url", "")))
    return Webhook(
        platform=PlatformName.ETSY,
        delivery_id=_text(headers.get("webhook-id"), "the header webhook-id"),
        shop=_text(payload.get("shop_id"), "shop_id"),
        topic=topic,
        effect=WebhookEffect.WAKE if is_used else WebhookEffect.NOTHING,
        kind=DataKind.ORDERS if is_used else None,
        external_id=receipt[1] if receipt and is_used else None,
    )


def _printify(payload: Mapping[str, Any]) -> Webhook:
    topic = _text(payload.get("type"), "type")
    is_end = topic == "shop:disconnected"
    kind = PRINTIFY_TOPICS.get(topic.partition(":")[0])
    subject = _find(payload, "resource.id")
    shop = subject if is_end else _find(payload, "resource.data.shop_id")
    effect = WebhookEffect.WAKE if kind else WebhookEffect.NOTHING
    return Webhook(
        platform=PlatformName.PRINTIFY,
        delivery_id=_text(payload.get("id"), "id"),
        shop=_text(shop, "resource.id" if is_end else "resource.data.shop_id"),
        topic=topic,
        effect=WebhookEffect.DISCONNECT if is_end else effect,
        kind=kind,
        external_id=_id(subject) if kind else None,
    )


def _find(payload: Mapping[str, Any], path: str) -> object:
    """Return the value at a dotted path, or None if there is none."""
    value: object = payload
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: object, where: str) -> str:
    text = _id(value)
    if text is None:
        raise RequestError(f"{where} is missing, or is not a short word")
    return text


def _id(value: object) -> str | None:
    """Return an id or a word as text; None if it is neither, or if a table cannot store it."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    # Python refuses to write numbers that are absurdly long.
    text = value if isinstance(value, str) else str(value) if abs(value) < 10**30 else ""
    return text if 0 < len(text) <= ID_CHARS_MAX and text.isprintable() else None


def _number(value: object) -> str | None:
    """Return an id as the warehouse holds it: the bare number, however Shopify wrote it."""
    text = _id(value)
    return None if text is None else GID.sub("", text)
