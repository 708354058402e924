"""Printify's webhooks: how their signature is verified, and what they mean."""

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
from headway.providers.webhook_signatures import hmac_sha256, is_same

# By the first word of a topic: the kind of record.
TOPICS: Mapping[str, DataKind] = {"order": DataKind.ORDERS, "product": DataKind.LISTINGS}


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, _: datetime) -> bool:
    """Return True if Printify signed this body."""
    expected = hmac_sha256(secret.encode(), body).hex()
    return is_same(f"sha256={expected}", headers.get("x-pfy-signature", ""))


def parse_webhook(
    platform: PlatformName, _: Mapping[str, str], payload: Mapping[str, Any]
) -> Webhook:
    """Return what a delivery means; raises RequestError."""
    topic = required_text(payload.get("type"), "type")
    is_end = topic == "shop:disconnected"
    kind = TOPICS.get(topic.partition(":")[0])
    subject = value_at(payload, "resource.id")
    shop = subject if is_end else value_at(payload, "resource.data.shop_id")
    effect = WebhookEffect.WAKE if kind else WebhookEffect.NOTHING
    return Webhook(
        platform=platform,
        delivery_id=required_text(payload.get("id"), "id"),
        shop=required_text(shop, "resource.id" if is_end else "resource.data.shop_id"),
        topic=topic,
        effect=WebhookEffect.DISCONNECT if is_end else effect,
        kind=kind,
        external_id=id_text(subject) if kind else None,
        reason="the shop was disconnected at Printify",
    )
