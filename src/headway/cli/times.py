"""Instants as people type them: a date and a time, or how long ago, or from now."""

import re
from datetime import UTC, datetime, timedelta

from headway.errors import InvalidError

SPAN = re.compile(r"(\d{1,5})\s*(s|m|min|h|d|w)")
AGO = re.compile(r"\s+ago$")
UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def instant(text: str, now: datetime, option: str) -> datetime:
    """Read a past instant, or how long ago it was; raises InvalidError."""
    span = _span(AGO.sub("", text.strip()))
    at = _instant(text, option, "for so long ago") if span is None else now - span
    if at > now:
        raise InvalidError(f"{option}: {text} has not come yet; it is {now:%Y-%m-%d %H:%M} UTC")
    return at


def instant_to_come(text: str, now: datetime, option: str) -> datetime:
    """Read a future instant, or how long it is until then; raises InvalidError."""
    span = _span(text)
    at = _instant(text, option, "from now") if span is None else now + span
    if at <= now:
        raise InvalidError(f"{option}: {text} is in the past; it is {now:%Y-%m-%d %H:%M} UTC")
    return at


def _span(text: str) -> timedelta | None:
    match = SPAN.fullmatch(text.strip().lower())
    return None if match is None else timedelta(**{UNITS[match[2]]: int(match[1])})


def _instant(text: str, option: str, what: str) -> datetime:
    try:
        at = datetime.fromisoformat(text.strip())
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidError(
            f"{option}: {text!r} is not a time; write 2026-03-04T09:00 (UTC), or 2h or 3d {what}"
        ) from None
