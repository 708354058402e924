"""Cursors: the place where the next page of a list begins, as one word that fits a URL.

A cursor contains the sort values of the last row. It is opaque, not secret: it gives no access.
"""

import base64
import binascii
import json
import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from headway.errors import InvalidError

CHARS_MAX = 4000
BIGINT_MAX = 2**63 - 1
UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
INVALID = "cursor: it belongs to another list; begin without one"

Part = str | int | datetime | None


def encode(*parts: Part) -> str:
    """Encode the parts as one word."""
    encoded = [{"at": part.isoformat()} if isinstance(part, datetime) else part for part in parts]
    text = json.dumps(encoded, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(cursor: str, *kinds: type | tuple[type, ...]) -> tuple[Any, ...]:
    """Decode the parts, each of its type; raise InvalidError if the cursor is invalid."""
    parts = _parts(cursor)
    if len(parts) != len(kinds) or not all(map(_is_a, parts, kinds)):
        raise InvalidError(INVALID)
    return tuple(parts)


def name(cursor: str) -> str:
    """Return the first part, by which a list knows its own; raises InvalidError."""
    first, *_ = [*_parts(cursor), None]
    if not isinstance(first, str):
        raise InvalidError(INVALID)
    return first


def _is_a(part: Part, kind: type | tuple[type, ...]) -> bool:
    """Return True for a part of this type; a UUID is written as text."""
    if kind is UUID:
        return isinstance(part, str) and UUID_TEXT.fullmatch(part) is not None
    return isinstance(part, kind)


def _parts(cursor: str) -> list[Part]:
    if len(cursor) > CHARS_MAX:
        raise InvalidError(INVALID)
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        decoded = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        return [_part(part) for part in decoded] if isinstance(decoded, list) else []
    except (ValueError, binascii.Error, OverflowError, RecursionError, TypeError, KeyError):
        raise InvalidError(INVALID) from None


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
