"""A parsed request to a simulated Etsy: its endpoint, its shop, its values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

API = "/v3/application"
ENDPOINTS = (
    ("receipts", re.compile(rf"{API}/shops/(?P<shop>\d+)/receipts")),
    ("receipt", re.compile(rf"{API}/shops/(?P<shop>\d+)/receipts/(?P<number>\d+)")),
    ("listings", re.compile(rf"{API}/shops/(?P<shop>\d+)/listings")),
    ("ledger", re.compile(rf"{API}/shops/(?P<shop>\d+)/payment-account/ledger-entries")),
    ("payments", re.compile(rf"{API}/shops/(?P<shop>\d+)/payments")),
    ("shop", re.compile(rf"{API}/shops/(?P<shop>\d+)")),
    ("me", re.compile(rf"{API}/users/me")),
    ("owned", re.compile(rf"{API}/users/(?P<number>\d+)/shops")),
    ("token", re.compile(r"/v3/public/oauth/token")),
    ("scopes", re.compile(rf"{API}/scopes")),
    ("consent", re.compile(r"/oauth/connect")),
)
# The access that an endpoint requires.
SCOPES = {
    "receipts": "transactions_r",
    "receipt": "transactions_r",
    "listings": "listings_r",
    "ledger": "transactions_r",
    "payments": "transactions_r",
    "me": "shops_r",
}
# Requests with a form.
FORMS = frozenset({"token", "scopes"})
FIRST_S = 946_684_800
OFFSET_MAX = 12_000
LEDGER_SPAN_S = 31 * 86_400
BEYOND = "Offset provided is greater than the maximum offset allowed."
TOO_WIDE = (
    "Time window between min_created and max_created must be no more than"
    f" {LEDGER_SPAN_S} seconds (31 days)."
)
TIMES = ("min_created", "max_created", "min_last_modified", "max_last_modified")
FLAGS = ("was_paid", "was_shipped", "was_delivered", "was_canceled", "legacy")
ORDERS = ("asc", "ascending", "desc", "descending", "up", "down")
WORDS = {
    "receipts": {"sort_on": ("created", "updated", "receipt_id"), "sort_order": ORDERS},
    "listings": {
        "state": ("active", "inactive", "sold_out", "draft", "expired"),
        "sort_on": ("created", "price", "updated", "score"),
        "sort_order": ORDERS,
    },
}
NUMBERS = {"receipts": TIMES, "ledger": ("min_created", "max_created")}


@dataclass(frozen=True, slots=True, kw_only=True)
class EtsyRequest:
    """A parsed request; `wrong` describes invalid values."""

    endpoint: str
    shop_id: int = 0
    number: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    wrong: str = ""


def read_call(method: str, path: str, body: bytes) -> EtsyRequest:
    """Parse a request; `endpoint` is empty for an unknown endpoint."""
    path, _, query = path.partition("?")
    for endpoint, pattern in ENDPOINTS:
        match = pattern.fullmatch(path)
        if match is None:
            continue
        if method != ("POST" if endpoint in FORMS else "GET"):
            break
        named = match.groupdict()
        raw_params = dict(parse_qsl(body.decode("latin-1") if endpoint in FORMS else query))
        params, wrong = (
            (raw_params, "") if endpoint in FORMS | {"consent"} else _read(endpoint, raw_params)
        )
        return EtsyRequest(
            endpoint=endpoint,
            shop_id=int(named.get("shop") or 0),
            number=int(named.get("number") or 0),
            params=params,
            wrong=wrong,
        )
    return EtsyRequest(endpoint="")


def _read(endpoint: str, params: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    values: dict[str, Any] = {}
    if endpoint in {"receipts", "listings", "ledger"}:
        values = {"limit": 25, "offset": 0}
    for name, text in params.items():
        value = _value(endpoint, name, text)
        if value is None:
            return {}, f"Invalid value for {name}"
        values[name] = value
    if endpoint == "ledger" and not {"min_created", "max_created"} <= values.keys():
        return {}, "min_created and max_created are required"
    if endpoint == "ledger" and values["max_created"] - values["min_created"] > LEDGER_SPAN_S:
        return {}, TOO_WIDE
    if values.get("offset", 0) > OFFSET_MAX:
        return {}, BEYOND
    if endpoint == "payments" and "payment_ids" not in values:
        return {}, "payment_ids is required"
    return values, ""


def _value(endpoint: str, name: str, text: str) -> object:
    """Return a value of its type, or None if Etsy would not take it."""
    is_list = endpoint in {"receipts", "listings", "ledger"}
    if (endpoint, name) == ("payments", "payment_ids"):
        ids = [_number(part, 1, 2**62) for part in text.split(",")]
        return None if None in ids else ids
    if name in NUMBERS.get(endpoint, ()):
        return _number(text, FIRST_S, 2**40)
    if name == "limit" and is_list:
        return _number(text, 1, 100)
    if name == "offset" and is_list:
        return _number(text, 0, 2**40)
    if name in FLAGS and endpoint in {"receipts", "receipt"}:
        return {"true": True, "false": False}.get(text)
    words = WORDS.get(endpoint, {}).get(name, ())
    return text if text in words else None


def _number(text: str, least: int, most: int) -> int | None:
    if not text.isascii() or not text.isdigit():
        return None
    return int(text) if least <= int(text[:20]) <= most else None
