"""Where a person who connected a shop is sent, with an outcome that the application can verify.

An operator lists the addresses that links may return to. The outcome is in query fields that begin
with `headway_`; the last one signs the others, so nobody can make one up.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from headway.errors import InvalidError

PREFIX = "headway_"
SIGNATURE = f"{PREFIX}signature"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
URL_CHARS_MAX = 2000
# Browsers read these in other ways than parsers do.
ODD = re.compile(r"[\\\s\x00-\x1f\x7f]")


def check_return_url(url: str, allowed: Collection[str]) -> None:
    """Raise InvalidError unless an address begins with one that is allowed, part by part."""
    parts = urlsplit(url)
    if len(url) > URL_CHARS_MAX or ODD.search(url) or parts.fragment or "@" in parts.netloc:
        raise InvalidError("return_url: write an address such as https://app.example.com/connected")
    if not is_safe(url):
        raise InvalidError("return_url: it must begin with https:// (http only for this machine)")
    if not any(_begins_with(url, prefix) for prefix in allowed):
        raise InvalidError(
            "return_url: HEADWAY_RETURN_URLS does not allow it; add"
            f" {parts.scheme}://{parts.netloc} there"
        )


def read_return_urls(text: str) -> tuple[str, ...]:
    """Return the addresses of a setting, separated by commas; raises InvalidError."""
    urls = tuple(url.strip() for url in text.split(",") if url.strip())
    for url in urls:
        if not is_safe(url) or ODD.search(url) or urlsplit(url).query or "@" in url:
            raise InvalidError(f"{url}: write an address such as https://app.example.com/connected")
    return urls


def is_safe(url: str) -> bool:
    """Return True for an https address, or an http one of this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    )


def outcome_url(
    url: str, outcome: Mapping[str, str], *, secret: str, state: str, at: datetime
) -> str:
    """Return the address with the signed outcome added to its query."""
    named = {**outcome, "state": state, "at": str(int(at.timestamp()))}
    fields = {f"{PREFIX}{name}": text for name, text in named.items()}
    parts = urlsplit(url)
    kept = [
        pair
        for pair in parse_qsl(parts.query, keep_blank_values=True)
        if not pair[0].startswith(PREFIX)
    ]
    query = urlencode([*kept, *fields.items(), (SIGNATURE, sign(fields, secret))])
    return urlunsplit(parts._replace(query=query))


def sign(fields: Mapping[str, str], secret: str) -> str:
    """Return the signature of an outcome: HMAC-SHA256 of its fields, sorted, as a query string."""
    text = urlencode(sorted((name, text) for name, text in fields.items() if name != SIGNATURE))
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def _begins_with(url: str, prefix: str) -> bool:
    """Return True if scheme, host and port are the same, and the path is at or below the other."""
    mine, other = urlsplit(url), urlsplit(prefix)
    if (mine.scheme, mine.netloc.lower()) != (other.scheme, other.netloc.lower()):
        return False
    if ".." in mine.path.split("/") or "%" in mine.path:
        return mine.path == other.path
    path = other.path.rstrip("/")
    return mine.path == path or mine.path.startswith(f"{path}/")
