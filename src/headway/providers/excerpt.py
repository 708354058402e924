"""Bounds on replies: a short excerpt to show, and the longest Retry-After to accept."""

import unicodedata

EXCERPT_CHARS_MAX = 200
RETRY_AFTER_S_MAX = 86_400.0


def excerpt(body: bytes) -> str:
    """Return the start of a body as one plain line."""
    text = body[: 4 * EXCERPT_CHARS_MAX].decode("utf-8", errors="replace")
    text = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    return " ".join(text.split())[:EXCERPT_CHARS_MAX]
