"""Shopify's webhooks: how their signature is verified, and what they mean."""

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
    if topic == "app/uninstalled":
        effect = WebhookEffect.DISCONNECT
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
        shop=_header(headers, "X-Shopify-Shop-Domain").lower(),
        topic=topic,
        effect=effect,
        kind=kind,
        external_id=external_id,
        order_ids=orders,
        reason="the app was uninstalled in the shop",
    )


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
    order_ids = payload.get("orders_to_redact")
    numbers = (_number(value) for value in order_ids) if isinstance(order_ids, list) else ()
    return customer, tuple(number for number in numbers if number is not None)


def _header(headers: Mapping[str, str], name: str) -> str:
    return required_text(headers.get(name.lower()), f"the header {name}")


def _number(value: object) -> str | None:
    """Return an id as the warehouse holds it: the bare number, however Shopify wrote it."""
    text = id_text(value)
    return None if text is None else GID.sub("", text)
