"""Template filters: times, durations, money, and labels."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from markupsafe import Markup, escape

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.change_outcomes import ChangeOutcome
from headway.core.catalog.channels import visibility_change
from headway.core.catalog.listings import Priority, SellerId, Sku, own_values
from headway.core.catalog.price_history import SeriesPoint
from headway.core.dispatch import STOREFRONT
from headway.core.limits import forecast
from headway.core.reasons import format_duration, format_time

if TYPE_CHECKING:
    from headway.core.timetable.day import DayTimetable
    from headway.core.timetable.next_call import Seat
    from headway.store.accounts.status import AccountView
    from headway.store.catalog.change_list import ObservedChange
    from headway.store.catalog.history import HistoryEvent
    from headway.store.catalog.shop_status import HeldListing
    from headway.store.limits.quotas import Budget
    from headway.store.monitoring.freshness import Freshness
    from headway.store.monitoring.processes import Process

CENT = Decimal("0.01")
RESULTS = {"oauth": "sign-in", "part_token": "part token", "ok": "read", "begun": "under way"}
COUNTED_MAX = 10_000
TENTHS_BELOW_S = 10
DOES = {"run": "the work, page and API", "worker": "the work", "api": "page and API"}
# A process sends a heartbeat every half minute, and may miss one.
HEARD_WITHIN = timedelta(seconds=75)
LIMIT_NEAR = 3
PRICES = {"list_price": "", "price": "", "net_price": "cost ", "cost": "cost "}
FATES = {
    ChangeOutcome.WRITTEN: "in the shop",
    ChangeOutcome.WAITING: "waiting",
    ChangeOutcome.HELD: "held",
    ChangeOutcome.REFUSED: "refused",
    ChangeOutcome.REJECTED: "rejected",
    ChangeOutcome.REPLACED: "replaced",
    ChangeOutcome.UNNEEDED: "no change",
    ChangeOutcome.NO_SHOP: "no shop",
}


class ShownPart(Protocol):
    """Any row that is about one listing."""

    @property
    def seller(self) -> SellerId:
        """The seller."""

    @property
    def sku(self) -> Sku:
        """The part number."""


def clock_time(at: datetime) -> str:
    """Write the time of day, in UTC."""
    return f"{at:%H:%M:%S}"


def ago(at: datetime | None, now: datetime) -> str:
    """Return "3 min ago" or "in 3 min"."""
    if at is None:
        return "never"
    if at > now:
        return f"in {format_duration(at - now)}"
    return f"{format_duration(now - at)} ago"


def since(at: datetime | None, now: datetime) -> str:
    """Return "3 min ago"; a time that is in the future by another clock counts as now."""
    return ago(None if at is None else min(at, now), now)


def does(process: Process) -> str:
    """Return what a process does."""
    return DOES.get(process.verb, process.verb)


def is_silent(process: Process, now: datetime) -> bool:
    """Return True if a process has missed its heartbeat."""
    return now - process.seen_at > HEARD_WITHIN


def age(at: datetime | None, now: datetime) -> str:
    """Return an age."""
    return "none yet" if at is None else format_duration(now - at)


def money(amount: Decimal | None) -> str:
    """Return a price with cents, and with whatever is smaller."""
    if amount is None:
        return "none"
    has_mills = amount != amount.quantize(CENT)
    return f"{amount if has_mills else amount.quantize(CENT):,}"


def number(count: float | None) -> str:
    """Return a whole number with thousands separators."""
    return "none" if count is None else f"{count:,.0f}"


def bounded(count: int) -> str:
    """Return a count, with a plus sign where counting stopped at its maximum."""
    return f"{count:,}+" if count >= COUNTED_MAX else f"{count:,}"


def percent(share: float | None) -> str:
    """Return a share in percent; 100 % only if nothing is missing."""
    if share is None:
        return "none yet"
    shown = min(share * 100, 99.9) if share < 1 else 100.0
    return f"{shown:.0f} %" if shown in {0.0, 100.0} else f"{shown:.1f} %"


def countdown(at: datetime | None, now: datetime) -> str:
    """Return the time left as 2:05 or 1:02:05."""
    left_s = 0 if at is None else max(0, int((at - now).total_seconds()))
    hours, rest = divmod(left_s, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def lag(seconds: float | None) -> str:
    """Return how long something took, in tenths of a second if it was quick."""
    if seconds is None:
        return "none yet"
    return (
        f"{seconds:.1f} s"
        if seconds < TENTHS_BELOW_S
        else format_duration(timedelta(seconds=seconds))
    )


def fate(change: ObservedChange) -> str:
    """Return the label for what happened to a change in its shop."""
    return FATES[change.fate]


def waiting_reason(change: ObservedChange, now: datetime) -> str:
    """Return why a change is not in its shop, and when it is tried again."""
    again = "" if change.until is None else f" (next try {format_time(change.until, now)})"
    return change.reason + again


def decide(held: HeldListing) -> str:
    """Return the command that decides a held change."""
    verb = "approve" if held.can_approve else "publish" if held.price_old is None else "reject"
    dashes = ["--"] if held.sku.startswith("-") else []
    return shlex.join(["headway", verb, "--seller", held.seller, *dashes, held.sku])


def result(text: str) -> str:
    """Return the label of a result in the call ledger."""
    return RESULTS.get(text, text)


def sentence(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]


def platform(name: PlatformName) -> str:
    """Return a platform's own spelling of its name."""
    from headway.providers.registry import platform_title  # noqa: PLC0415 - slow to import

    return platform_title(name)


def connect(account: AccountView) -> str:
    """Return the command that reconnects an account."""
    from headway.providers.registry import platforms  # noqa: PLC0415 - slow to import

    role = platforms().get(account.platform)
    if role is not None and role.consent is not None and role.consent.asks_for_shop:
        return shlex.join(["headway", "connect", account.platform, "--seller", account.seller])
    words = ["headway", "connect", account.shop, "--seller", account.seller]
    if account.platform != STOREFRONT:
        words += ["--platform", account.platform]
    return shlex.join(words)


def curve(budget: Budget) -> dict[str, object]:
    """Return the chart data of a quota; times are in seconds."""
    return {
        "limit": budget.limit,
        "past": [[round(point.at.timestamp()), point.used] for point in budget.past],
        "next": [[round(point.at.timestamp()), point.used] for point in budget.forecast.points],
        "hours": [[round(hour.hour.timestamp()), hour.used] for hour in budget.hours],
    }


def part_url(listing: ShownPart) -> str:
    """Return the address of a listing's page."""
    # A browser takes these two for folders, however they are encoded.
    if listing.sku in {".", ".."}:
        return f"/parts/?sku={listing.sku}&seller={path(listing.seller)}"
    return f"/parts/{path(listing.sku)}?seller={path(listing.seller)}"


def rehearsal_url(seller: str) -> str:
    """Return the address of the rehearsal of a seller's shop."""
    return f"/rehearsal?shop={path(seller)}"


def path(text: str) -> str:
    """Return a text encoded as one segment of a path."""
    return quote(text, safe="")


def put(values: dict[str, object], name: str, value: object) -> dict[str, object]:
    """Return the values with one more."""
    return {**values, name: value}


def anchor(*words: object) -> str:
    """Return a stable element id for any values."""
    key = "\x1f".join(str(word) for word in words)
    return "i" + hashlib.sha256(key.encode()).hexdigest()[:12]


def seat_reason(seat: Seat, now: datetime) -> str:
    """Return why a part is in the call, in a merchant's words."""
    due = "due" if seat.due_at is None else f"due {ago(seat.due_at, now)}"
    return {
        Priority.MANUAL: "requested by a person",
        Priority.ONBOARDING: "new, read for the first time",
        Priority.SCHEDULED: due,
        Priority.RETRY: f"retry after a failure, {due}",
        Priority.AHEAD: f"added to fill the call; {due}",
    }[seat.priority]


def happened(kind: str) -> str:
    """Return the label of an event's kind."""
    return sentence(kind.replace("shopify", "shop").replace("_", " "))


def difference(event: HistoryEvent) -> str:
    """Return what an event changed in prices, stock and visibility."""
    old, new = own_values(event.kind, event.old), own_values(event.kind, event.new)
    parts = []
    for name, word in (
        ("list_price", ""),
        ("price", ""),
        ("net_price", "cost "),
        ("cost", "cost "),
        ("stock_status", ""),
    ):
        if new.get(name) is not None and old.get(name) != new.get(name):
            parts.append(f"{word}{_from(old.get(name))}{new[name]}")
    before, after = _stock(old), _stock(new)
    if after is not None and before != after:
        parts.append(f"stock {_from(before)}{after}")
    return ", ".join(filter(None, (*parts, visibility_change(old, new))))


def _from(value: object) -> str:
    return "" if value is None else f"{value} → "


def _stock(values: Mapping[str, Any]) -> int | None:
    quantities = values.get("quantities")
    return sum(quantities.values()) if isinstance(quantities, dict) else None


def prices(points: Sequence[SeriesPoint]) -> dict[str, object]:
    """Return the chart data of a listing's prices and stock."""
    return {
        "supplier": [[_epoch_s(point.at), _float(point.supplier_price)] for point in points],
        "shop": [[_epoch_s(point.at), _float(point.shop_price)] for point in points],
        "stock": [[_epoch_s(point.at), point.supplier_quantity] for point in points],
    }


def shares(series: Sequence[Freshness]) -> list[list[float | None]]:
    """Return the fresh share at each sample, in percent."""
    return [
        [
            _epoch_s(sample.at),
            None if sample.fresh_share is None else round(100 * sample.fresh_share, 2),
        ]
        for sample in series
    ]


def oldest(series: Sequence[Freshness]) -> list[list[float | None]]:
    """Return the age of the oldest good read at each sample, in hours."""
    return [
        [
            _epoch_s(sample.at),
            None if sample.oldest_age_s is None else round(sample.oldest_age_s / 3600, 2),
        ]
        for sample in series
    ]


def two_days(day: DayTimetable, limit: int) -> dict[str, object]:
    """Return the chart data of the timetable.

    A limit far above the bars would flatten them, so it is left out then.
    """
    counts = [hour.calls for hour in day.made] + [hour.calls for hour in day.planned]
    most = max(counts, default=0)
    return {
        "limit": limit if most * LIMIT_NEAR >= limit else None,
        "now": _epoch_s(day.now),
        "made": [[_epoch_s(hour.at), hour.calls] for hour in day.made],
        "planned": [[_epoch_s(hour.at), hour.calls] for hour in day.planned],
        "windows": [
            [_epoch_s(window.opens_at), _epoch_s(window.closes_at)] for window in day.windows
        ],
    }


def _epoch_s(at: datetime) -> int:
    return round(at.timestamp())


def _float(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)


def epoch_ms(at: datetime | None) -> int | None:
    """Return the time in milliseconds, as JavaScript counts it."""
    return None if at is None else int(at.timestamp() * 1000)


def code(text: str) -> Markup:
    """Return text with what is between backticks as code."""
    escaped = str(escape(text))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped))  # noqa: S704 - escaped above


FILTERS = {
    "clock_time": clock_time,
    "ago": ago,
    "age": age,
    "since": since,
    "does": does,
    "is_silent": is_silent,
    "money": money,
    "number": number,
    "bounded": bounded,
    "percent": percent,
    "countdown": countdown,
    "lag": lag,
    "fate": fate,
    "waiting_reason": waiting_reason,
    "decide": decide,
    "result": result,
    "sentence": sentence,
    "epoch_ms": epoch_ms,
    "part_url": part_url,
    "rehearsal_url": rehearsal_url,
    "path": path,
    "put": put,
    "happened": happened,
    "difference": difference,
    "prices": prices,
    "shares": shares,
    "oldest": oldest,
    "two_days": two_days,
    "anchor": anchor,
    "seat_reason": seat_reason,
    "platform": platform,
    "connect": connect,
    "curve": curve,
    "forecast": forecast.forecast_text,
    "short_time": format_time,
    "code": code,
}
