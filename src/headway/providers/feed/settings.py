"""The options of a price list: where its columns are, how it is written, how often it is read."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headway.errors import ConfigError

# Texts about a product that a list may have, beside those that make its price and stock.
TEXTS = (
    "name", "description", "vendor", "weight", "weight_unit", "origin", "tariff_code", "condition",
    "image",
)  # fmt: skip
FIELDS = (
    "sku", "price", "list_price", "currency", "quantity", "in_stock", "location", "unit", *TEXTS,
)  # fmt: skip
NAMES = frozenset(
    {
        "columns", "currency", "interval", "format", "delimiter", "location", "items", "trailer",
        "seats", "limit", "rows_max", "shrink",
    }
)  # fmt: skip
DURATION = re.compile(r"([0-9]{1,4})\s*([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
CURRENCY = re.compile(r"[A-Za-z]{3}")
INTERVAL_MIN, INTERVAL_MAX = timedelta(minutes=1), timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedOptions:
    """How a price list is read.

    `columns` maps our fields to the list's columns; `items` is the key of the rows in a JSON
    object. A list with a `trailer` must end with a row that begins with that text; a number after
    it is the count of rows. `shrink` is the share of rows that a list may lose at once.
    """

    columns: Mapping[str, str]
    format: str = "csv"
    delimiter: str = ","
    currency: str = ""
    location: str = "default"
    items: str = ""
    trailer: str = ""
    interval: timedelta = timedelta(hours=1)
    seats: int = 500
    limit: int = 10
    rows_max: int = 1_000_000
    shrink: float = 0.5
    text: str = field(default="{}", repr=False)


def read_options(url: str, options: Mapping[str, Any]) -> FeedOptions:
    """Return the options that an operator chose; raises ConfigError."""
    if unknown := sorted(set(options) - NAMES):
        raise ConfigError(f"a feed has no option {unknown[0]}; it has {', '.join(sorted(NAMES))}")
    format_ = _choice(options, "format", ("csv", "json"), _format_of(url))
    columns = _columns(options.get("columns", {}), str(options.get("currency", "")))
    currency = str(options.get("currency", "")).upper()
    if currency and not CURRENCY.fullmatch(currency):
        raise ConfigError(f"currency: write three letters such as USD, not {currency!r}")
    delimiter = str(options.get("delimiter", ",")).replace("\\t", "\t").replace("tab", "\t")
    if len(delimiter) != 1:
        raise ConfigError("delimiter: write one character, or tab")
    return FeedOptions(
        columns=columns,
        format=format_,
        delimiter=delimiter,
        currency=currency,
        location=str(options.get("location", "default")).strip() or "default",
        items=str(options.get("items", "")),
        trailer=str(options.get("trailer", "")),
        interval=_interval(options.get("interval", "1h")),
        seats=_whole(options, "seats", 500, most=2000),
        limit=_whole(options, "limit", 10, most=600),
        rows_max=_whole(options, "rows_max", 1_000_000, most=5_000_000),
        shrink=_share(options.get("shrink", 0.5)),
        text=json.dumps(dict(options), sort_keys=True, default=str),
    )


def check_address(url: str) -> None:
    """Raise ConfigError unless this is https, http on this machine, or an existing file."""
    if path := path_of(url):
        if not path.is_file():
            raise ConfigError(f"url: there is no file {path}")
        return
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError("url: write https://..., or the full path of a file on this machine")
    if parts.username or parts.password:
        raise ConfigError("url: leave the password out; give it with --secrets-file")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ConfigError("url: use https; http is only allowed on this machine")


def path_of(url: str) -> Path | None:
    """Return the file that an address names; None for an address on the network."""
    if url.startswith("file://"):
        return Path(url.removeprefix("file://"))
    return Path(url) if url.startswith("/") else None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _format_of(url: str) -> str:
    return "json" if urlsplit(url).path.lower().endswith((".json", ".jsonl", ".ndjson")) else "csv"


def _columns(chosen: object, currency: str) -> dict[str, str]:
    if not isinstance(chosen, Mapping) or set(chosen) - set(FIELDS):
        raise ConfigError(f"columns: the fields are {', '.join(FIELDS)}")
    columns = {field: str(chosen.get(field, "")) for field in FIELDS if chosen.get(field)}
    columns.setdefault("sku", "sku")
    columns.setdefault("price", "price")
    if "quantity" not in columns and "in_stock" not in columns:
        columns["quantity"] = "quantity"
    if "currency" not in columns and not currency:
        columns["currency"] = "currency"
    return columns


def _choice(options: Mapping[str, Any], name: str, choices: tuple[str, ...], default: str) -> str:
    value = str(options.get(name, default)).lower()
    if value not in choices:
        raise ConfigError(f"{name}: write {' or '.join(choices)}, not {value!r}")
    return value


def _interval(value: object) -> timedelta:
    match = DURATION.fullmatch(str(value).strip().lower())
    interval = timedelta(**{UNITS[match[2]]: int(match[1])}) if match else timedelta(0)
    if not INTERVAL_MIN <= interval <= INTERVAL_MAX:
        raise ConfigError("interval: write a time from 1m to 24h, such as 30m or 1h")
    return interval


def _whole(options: Mapping[str, Any], name: str, default: int, *, most: int) -> int:
    text = str(options.get(name, default))
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= most:
        raise ConfigError(f"{name}: write a whole number from 1 to {most:,}")
    return int(text)


def _share(value: object) -> float:
    try:
        share = float(str(value))
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise ConfigError("shrink: write a share above 0 and up to 1, such as 0.5")
    return share
