"""Signatures of webhooks as Standard Webhooks defines them, for both who sends and who receives.

The HMAC-SHA256 covers the id, the time and the body, so none of them can be exchanged, and an old
delivery cannot be replayed later.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime

from headway.errors import InvalidError

# An older delivery, or one from the future, is a replay, or one of the two clocks is wrong.
AGE_S_MAX = 300
PREFIX = "whsec_"
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
SECONDS = re.compile(r"[0-9]{1,12}")


def make_secret(random_hex: str) -> str:
    """Return a signing secret made of random bytes."""
    return PREFIX + base64.b64encode(bytes.fromhex(random_hex)).decode()


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a body; raises InvalidError if the secret is none."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """Return True if the body was signed with this secret a short time ago; raises InvalidError."""
    timestamp = headers.get(TIMESTAMP, "")
    if not SECONDS.fullmatch(timestamp) or abs(now.timestamp() - int(timestamp)) > AGE_S_MAX:
        return False
    expected = sign(secret, headers.get(ID, ""), int(timestamp), body).encode()
    # While a secret is being replaced there is one signature for each of the two.
    signatures = headers.get(SIGNATURE, "").split(" ")
    return any(
        hmac.compare_digest(expected, signature.encode("utf-8", "surrogateescape"))
        for signature in signatures
    )


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise InvalidError(f"this is not a signing secret; copy it whole, {PREFIX}...")
    return key
