"""Cursors: where the reader of a long list goes on, as one word that fits an address.

A cursor holds what the last row was sorted by. It is opaque, not secret: whatever it names, a
reader sees no more than without it.
"""

import base64
import binascii
import json
from datetime import UTC, datetime
from typing import Any

from headway.errors import InvalidError

CHARS_MAX = 4000
BIGINT_MAX = 2**63 - 1
STRANGE = "cursor: it was not given by this list; begin without one"

Part = str | int | datetime | None


def encode(*parts: Part) -> str:
    """Encode the parts as one word."""
    encoded = [{"at": part.isoformat()} if isinstance(part, datetime) else part for part in parts]
    text = json.dumps(encoded, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(cursor: str, *kinds: type | tuple[type, ...]) -> tuple[Any, ...]:
    """Decode the parts, each of its type; raise InvalidError if the cursor is invalid."""
    parts = _parts(cursor)
    if len(parts) != len(kinds) or not all(map(isinstance, parts, kinds)):
        raise InvalidError(STRANGE)
    return tuple(parts)


def name(cursor: str) -> str:
    """Return the first part, by which a list knows its own; raises InvalidError."""
    first, *_ = [*_parts(cursor), None]
    if not isinstance(first, str):
        raise InvalidError(STRANGE)
    return first


def _parts(cursor: str) -> list[Part]:
    if len(cursor) > CHARS_MAX:
        raise InvalidError(STRANGE)
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        decoded = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        return [_part(part) for part in decoded] if isinstance(decoded, list) else []
    except (ValueError, binascii.Error, OverflowError, RecursionError, TypeError, KeyError):
        raise InvalidError(STRANGE) from None


def _part(value: Any) -> Part:  # noqa: ANN401 - JSON's word for anything
    """Return a part as it was; raises ValueError for what no column could hold."""
    if isinstance(value, dict):
        at = datetime.fromisoformat(value["at"])
        if at.tzinfo is None:
            raise ValueError("an instant without a zone")
        return at.astimezone(UTC)
    if isinstance(value, str):
        value.encode()  # half a character fails here, not in the database
        if "\0" in value:
            raise ValueError("a character that no text may hold")
        return value
    if value is None or (type(value) is int and abs(value) <= BIGINT_MAX):
        return value
    raise ValueError("of no kind that we write")
