"""What the signatures of all platforms' webhooks have in common; compared in constant time."""

import hashlib
import hmac


def hmac_sha256(key: bytes, text: bytes) -> bytes:
    """Return the HMAC-SHA256 of a text."""
    return hmac.new(key, text, hashlib.sha256).digest()


def is_same(expected: str, signature: str) -> bool:
    """Return True if both are equal, in constant time."""
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogateescape"))
