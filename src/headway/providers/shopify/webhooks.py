"""Shopify's webhooks: how their signature is verified, and what they mean.

The signature covers the body only, not the headers that name shop, topic and delivery. So a topic
that ends or erases something counts only if the body names that shop and has that topic's fields.
"""

import base64
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headway.core.accounts.jobs import DataKind, PlatformName
from headway.core.accounts.webhooks import (
    Webhook,
    WebhookEffect,
    id_text,
    required_text,
    value_at,
)
from headway.errors import RequestError
from headway.providers.webhook_signatures import hmac_sha256, is_same

GID = re.compile(r"gid://shopify/\w+/")
# By the first word of a topic: the kind of record, and the paths of its id.
TOPICS: Mapping[str, tuple[DataKind, tuple[str, ...]]] = {
    "orders": (DataKind.ORDERS, ("id", "order_edit.order_id")),
    "refunds": (DataKind.ORDERS, ("order_id",)),
    "fulfillments": (DataKind.ORDERS, ("order_id",)),
    "products": (DataKind.LISTINGS, ("id",)),
    # After a merge, the customer that is gone: the one that is left has changed, and is listed.
    "customers": (DataKind.CUSTOMERS, ("id", "admin_graphql_api_customer_deleted_id")),
}
# The three topics that every public app must accept.
PRIVACY: Mapping[str, WebhookEffect] = {
    "customers/data_request": WebhookEffect.RECORD,
    "customers/redact": WebhookEffect.REDACT_CUSTOMER,
    "shop/redact": WebhookEffect.REDACT_SHOP,
}
UNINSTALLED = "app/uninstalled"
# By topic: where the body names the shop, fields that it has, and fields that only others have.
SIGNED_FIELDS: Mapping[str, tuple[str, frozenset[str], frozenset[str]]] = {
    UNINSTALLED: ("myshopify_domain", frozenset({"id", "name"}), frozenset({"customer"})),
    "customers/data_request": (
        "shop_domain",
        frozenset({"shop_id", "customer", "orders_requested"}),
        frozenset({"orders_to_redact"}),
    ),
    "customers/redact": (
        "shop_domain",
        frozenset({"shop_id", "customer", "orders_to_redact"}),
        frozenset({"orders_requested"}),
    ),
    "shop/redact": ("shop_domain", frozenset({"shop_id"}), frozenset({"customer"})),
}


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, _: datetime) -> bool:
    """Return True if Shopify signed this body."""
    expected = base64.b64encode(hmac_sha256(secret.encode(), body)).decode()
    return is_same(expected, headers.get("x-shopify-hmac-sha256", ""))


def parse_webhook(
    platform: PlatformName, headers: Mapping[str, str], payload: Mapping[str, Any]
) -> Webhook:
    """Return what a delivery means; raises RequestError."""
    topic = _header(headers, "X-Shopify-Topic").lower()
    effect, kind, external_id = PRIVACY.get(topic, WebhookEffect.NOTHING), None, None
    orders: tuple[str, ...] = ()
    shop = _header(headers, "X-Shopify-Shop-Domain").lower()
    if topic in SIGNED_FIELDS:
        _check_signed(topic, shop, payload)
    if topic == UNINSTALLED:
        effect = WebhookEffect.UNINSTALL
    elif topic in PRIVACY:
        external_id, orders = _redacted(payload, effect)
    elif (subject := topic.partition("/")[0]) in TOPICS:
        effect = WebhookEffect.WAKE
        kind, paths = TOPICS[subject]
        ids = (_number(value_at(payload, path)) for path in paths)
        external_id = next((value for value in ids if value is not None), None)
    return Webhook(
        platform=platform,
        delivery_id=_header(headers, "X-Shopify-Webhook-Id"),
        shop=shop,
        topic=topic,
        effect=effect,
        kind=kind,
        external_id=external_id,
        order_ids=orders,
    )


def _check_signed(topic: str, shop: str, payload: Mapping[str, Any]) -> None:
    """Raise RequestError unless the signed body is about this shop and of this topic."""
    name, needed, foreign = SIGNED_FIELDS[topic]
    named = id_text(payload.get(name))
    if named is None or named.lower() != shop:
        raise RequestError(f"{name} in the body is not the shop of the header; nothing was done")
    if missing := needed - payload.keys():
        raise RequestError(f"{min(missing)} is missing: this is not a body of {topic}")
    if odd := foreign & payload.keys():
        raise RequestError(f"{min(odd)} does not belong to {topic}; nothing was done")


def _redacted(
    payload: Mapping[str, Any], effect: WebhookEffect
) -> tuple[str | None, tuple[str, ...]]:
    """Return which customer a privacy topic is about, and which of their orders it names."""
    if effect is WebhookEffect.REDACT_SHOP:
        return None, ()
    customer = _number(value_at(payload, "customer.id"))
    if customer is None:
        # Without an id it would be every customer.
        raise RequestError("customer.id is missing, or is not a short word")
    is_request = effect is WebhookEffect.RECORD
    order_ids = payload.get("orders_requested" if is_request else "orders_to_redact")
    numbers = (_number(value) for value in order_ids) if isinstance(order_ids, list) else ()
    return customer, tuple(number for number in numbers if number is not None)


def _header(headers: Mapping[str, str], name: str) -> str:
    return required_text(headers.get(name.lower()), f"the header {name}")


def _number(value: object) -> str | None:
    """Return an id as the warehouse holds it: the bare number, however Shopify wrote it."""
    text = id_text(value)
    return None if text is None else GID.sub("", text)
