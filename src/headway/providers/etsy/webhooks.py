"""Etsy's webhooks: how their signature is verified, and what they mean.

The body is signed together with its id and time.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headway.core.accounts.jobs import DataKind, PlatformName
from headway.core.accounts.webhooks import Webhook, WebhookEffect, required_text
from headway.errors import ConfigError
from headway.providers.webhook_signatures import hmac_sha256, is_same

SETTING = "HEADWAY_ETSY_WEBHOOK_SECRET"
# An older delivery, or one from the future, is a replay, or one of the two clocks is wrong.
AGE_S_MAX = 300
TIMESTAMP = re.compile(r"[0-9]{1,12}")
PREFIX = "whsec_"
RECEIPT = re.compile(r"/receipts/([0-9]{1,20})(?:[/?#]|$)")
TOPICS = frozenset({"order.paid", "order.canceled", "order.shipped", "order.delivered"})


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """Return True if Etsy signed this body a short time ago; raises ConfigError."""
    timestamp = headers.get("webhook-timestamp", "")
    if not TIMESTAMP.fullmatch(timestamp) or abs(now.timestamp() - int(timestamp)) > AGE_S_MAX:
        return False
    signed = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
    expected = base64.b64encode(hmac_sha256(_key(secret), signed)).decode()
    # While a secret is being replaced there is one signature for each of the two.
    signatures = headers.get("webhook-signature", "").split(" ")
    return any(is_same(f"v1,{expected}", signature) for signature in signatures)


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


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise ConfigError(f"{SETTING} is not a signing secret; copy it whole, {PREFIX}...")
    return key
