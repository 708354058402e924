"""Marks: where a reader of a long list goes on, as one opaque word that fits an address."""

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from headway.errors import InvalidError

CHARS_MAX = 2000
STRANGE = "cursor: it was not given by this server; begin without one"


def dump(*parts: str | datetime) -> str:
    """Write what the last row was sorted by as one word."""
    told = [part.isoformat() if isinstance(part, datetime) else part for part in parts]
    return base64.urlsafe_b64encode(json.dumps(told).encode()).decode().rstrip("=")


def load(mark: str, count: int) -> Sequence[str]:
    """Read the parts of a mark back; raises InvalidError for what is none of ours."""
    try:
        padded = mark.encode("ascii") + b"=" * (-len(mark) % 4)
        parts = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        parts = None
    is_ours = len(mark) <= CHARS_MAX and isinstance(parts, list) and len(parts) == count
    if not is_ours or not all(isinstance(part, str) and "\0" not in part for part in parts or ()):
        raise InvalidError(STRANGE)
    return [str(part) for part in parts or ()]


def instant(part: str) -> datetime:
    """Read a part that is an instant; raises InvalidError."""
    try:
        at = datetime.fromisoformat(part)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidError(STRANGE) from None
