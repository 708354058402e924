"""Etsy's webhooks: how their signature is verified, and what they mean.

The body is signed together with its id and time.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headway.core.accounts import standard_webhooks
from headway.core.accounts.jobs import DataKind, PlatformName
from headway.core.accounts.webhooks import Webhook, WebhookEffect, required_text
from headway.errors import ConfigError, InvalidError

SETTING = "HEADWAY_ETSY_WEBHOOK_SECRET"
RECEIPT = re.compile(r"/receipts/([0-9]{1,20})(?:[/?#]|$)")
TOPICS = frozenset({"order.paid", "order.canceled", "order.shipped", "order.delivered"})


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """Return True if Etsy signed this body a short time ago; raises ConfigError."""
    try:
        return standard_webhooks.is_signed(secret, headers, body, now)
    except InvalidError as error:
        raise ConfigError(f"{SETTING}: {error}") from None


def parse_webhook(
    platform: PlatformName, headers: Mapping[str, str], payload: Mapping[str, Any]
) -> Webhook:
    """Return what a delivery means; raises RequestError."""
    # One page of Etsy writes order.paid, another ORDER_PAID.
    topic = required_text(payload.get("event_type"), "event_type").lower().replace("_", ".")
    is_used = topic in TOPICS
    receipt = RECEIPT.search(str(payload.get("resource_url", "")))
    return Webhook(
        platform=platform,
        delivery_id=required_text(headers.get("webhook-id"), "the header webhook-id"),
        shop=required_text(payload.get("shop_id"), "shop_id"),
        topic=topic,
        effect=WebhookEffect.WAKE if is_used else WebhookEffect.NOTHING,
        kind=DataKind.ORDERS if is_used else None,
        external_id=receipt[1] if receipt and is_used else None,
    )
