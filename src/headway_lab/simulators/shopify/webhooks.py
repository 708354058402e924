"""What a simulated shop sends by itself: webhooks, and the redirect from its consent page.

Both are signed with the app's secret: a body in base64, a query in hexadecimal.
"""

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A webhook as it travels."""

    headers: Mapping[str, str]
    body: bytes


def deliver(
    topic: str, payload: Mapping[str, Any], *, shop: str, webhook_id: str, secret: str
) -> Delivery:
    """Write a webhook and sign it."""
    body = json.dumps(payload, separators=(",", ":")).encode()
    digest = hmac.digest(secret.encode(), body, sha256)
    headers = {
        "Content-Type": "application/json",
        "X-Shopify-Topic": topic,
        "X-Shopify-Shop-Domain": shop,
        "X-Shopify-Webhook-Id": webhook_id,
        "X-Shopify-Hmac-SHA256": base64.b64encode(digest).decode(),
    }
    return Delivery(headers=headers, body=body)


def sign_query(params: Mapping[str, str], secret: str) -> dict[str, str]:
    """Return the parameters of a redirect with their signature."""
    message = "&".join(f"{name}={value}" for name, value in sorted(params.items()))
    digest = hmac.new(secret.encode(), message.encode(), sha256).hexdigest()
    return {**params, "hmac": digest}
