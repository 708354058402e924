"""Whether a webhook is from the platform: its signature, over the bytes as they came.

Compared in constant time. Nothing of a body is looked at before this has said yes.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime

from headway.core.accounts.jobs import PlatformName
from headway.errors import ConfigError

# A delivery that is older, or from the future, is a replay, or one of the two clocks is wrong.
AGE_S_MAX = 300
STAMP = re.compile(r"[0-9]{1,12}")
ETSY_PREFIX = "whsec_"
# The setting that holds each platform's secret.
SETTINGS: Mapping[PlatformName, str] = {
    PlatformName.SHOPIFY: "HEADWAY_SHOPIFY_CLIENT_SECRET",
    PlatformName.ETSY: "HEADWAY_ETSY_WEBHOOK_SECRET",
    PlatformName.PRINTIFY: "HEADWAY_PRINTIFY_WEBHOOK_SECRET",
}


def is_signed(
    platform: PlatformName, secret: str, headers: Mapping[str, str], body: bytes, *, now: datetime
) -> bool:
    """Tell whether the platform signed this body; header names in lower case.

    Raises ConfigError where the secret is missing or is none, and never says what it is.
    """
    if not secret:
        raise ConfigError(f"{SETTINGS[platform]} is not set, so no webhook can be verified")
    if platform is PlatformName.SHOPIFY:
        return _is_shopifys(secret, headers, body)
    if platform is PlatformName.ETSY:
        return _is_etsys(secret, headers, body, now)
    return _is_printifys(secret, headers, body)


def _is_shopifys(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    wanted = base64.b64encode(_mac(secret.encode(), body)).decode()
    return _is_same(wanted, headers.get("x-shopify-hmac-sha256", ""))


def _is_etsys(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    stamp = headers.get("webhook-timestamp", "")
    if not STAMP.fullmatch(stamp) or abs(now.timestamp() - int(stamp)) > AGE_S_MAX:
        return False
    signed = f"{headers.get('webhook-id', '')}.{stamp}.".encode() + body
    wanted = base64.b64encode(_mac(_etsy_key(secret), signed)).decode()
    given = headers.get("webhook-signature", "").split(" ")
    # While a secret is being changed there is a signature for each of the two.
    return any(_is_same(f"v1,{wanted}", each) for each in given)


def _is_printifys(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    wanted = _mac(secret.encode(), body).hex()
    return _is_same(f"sha256={wanted}", headers.get("x-pfy-signature", ""))


def _etsy_key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(ETSY_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        setting = SETTINGS[PlatformName.ETSY]
        raise ConfigError(f"{setting} is not a signing secret; copy it whole, {ETSY_PREFIX}...")
    return key


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


def _is_same(wanted: str, given: str) -> bool:
    return hmac.compare_digest(wanted.encode(), given.encode("utf-8", "surrogateescape"))
