"""Verify Etsy's webhooks: the body is signed together with its id and time."""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime

from headway.errors import ConfigError
from headway.providers.webhook_signatures import hmac_sha256, is_same

SETTING = "HEADWAY_ETSY_WEBHOOK_SECRET"
# An older delivery, or one from the future, is a replay, or one of the two clocks is wrong.
AGE_S_MAX = 300
TIMESTAMP = re.compile(r"[0-9]{1,12}")
PREFIX = "whsec_"


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


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise ConfigError(f"{SETTING} is not a signing secret; copy it whole, {PREFIX}...")
    return key
