"""How values read on the page: times, spans, money, and the words of the ledger."""

import shlex
from datetime import datetime, timedelta
from decimal import Decimal

from headway.core import forecast
from headway.core.jobs import PlatformName
from headway.core.reasons import say_span, say_time
from headway.store.views_accounts import AccountView
from headway.store.views_changes import Change, Fate
from headway.store.views_quotas import Budget
from headway.store.views_shop import Held

CENT = Decimal("0.01")
RESULTS = {"oauth": "sign-in", "part_token": "part token", "ok": "read", "begun": "under way"}
COUNTED_MAX = 10_000
TENTHS_BELOW_S = 10
FATES = {
    Fate.WRITTEN: "in the shop",
    Fate.WAITING: "waiting",
    Fate.HELD: "held",
    Fate.REFUSED: "refused",
    Fate.REJECTED: "rejected",
    Fate.REPLACED: "replaced",
    Fate.UNNEEDED: "no change",
    Fate.NO_SHOP: "no shop",
}


def clock_time(at: datetime) -> str:
    """Write the time of day, in UTC."""
    return f"{at:%H:%M:%S}"


def ago(at: datetime | None, now: datetime) -> str:
    """Write how long ago something was, or how soon it will be."""
    if at is None:
        return "never"
    if at > now:
        return f"in {say_span(at - now)}"
    return f"{say_span(now - at)} ago"


def age(at: datetime | None, now: datetime) -> str:
    """Write how old something is."""
    return "none yet" if at is None else say_span(now - at)


def money(amount: Decimal | None) -> str:
    """Write a price with cents."""
    return "none" if amount is None else f"{amount.quantize(CENT):,}"


def number(count: float | None) -> str:
    """Write a whole number in groups of three; a count that stopped at its bound says so."""
    return "none" if count is None else f"{count:,.0f}"


def bounded(count: int) -> str:
    """Write a count that stops at a bound."""
    return f"{count:,}+" if count >= COUNTED_MAX else f"{count:,}"


def percent(share: float | None) -> str:
    """Write a share; 100 % only when nothing is missing."""
    if share is None:
        return "none yet"
    shown = min(share * 100, 99.9) if share < 1 else 100.0
    return f"{shown:.0f} %" if shown in {0.0, 100.0} else f"{shown:.1f} %"


def countdown(at: datetime | None, now: datetime) -> str:
    """Write the time left as a timetable would: 2:05, or 1:02:05."""
    left_s = 0 if at is None else max(0, int((at - now).total_seconds()))
    hours, rest = divmod(left_s, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def lag(seconds: float | None) -> str:
    """Write how long something took; tenths matter while it is quick."""
    if seconds is None:
        return "none yet"
    return f"{seconds:.1f} s" if seconds < TENTHS_BELOW_S else say_span(timedelta(seconds=seconds))


def fate(change: Change) -> str:
    """Name what became of a change in its shop."""
    return FATES[change.fate]


def decide(held: Held) -> str:
    """Write the command by which a person decides about a held change."""
    verb = "approve" if held.can_approve else "publish" if held.price_old is None else "reject"
    dashes = ["--"] if held.sku.startswith("-") else []
    return shlex.join(["headway", verb, "--seller", held.user_id, *dashes, held.sku])


def result(text: str) -> str:
    """Name what the ledger calls a result."""
    return RESULTS.get(text, text)


def sentence(text: str) -> str:
    """Begin with a capital, and leave the rest as it is."""
    return text[:1].upper() + text[1:]


def platform(name: PlatformName) -> str:
    """Write a platform as it writes itself."""
    return name.value.capitalize()


def connect(account: AccountView) -> str:
    """Write the command by which a lost account is connected again."""
    shop = "etsy" if account.platform is PlatformName.ETSY else account.shop
    words = ["headway", "connect", shop, "--seller", account.user_id]
    if account.platform is PlatformName.PRINTIFY:
        words += ["--platform", "printify"]
    return shlex.join(words)


def curve(budget: Budget) -> dict[str, object]:
    """Return what the page's script draws of a quota: instants in seconds."""
    return {
        "limit": budget.limit,
        "past": [[round(each.at.timestamp()), each.used] for each in budget.past],
        "next": [[round(each.at.timestamp()), each.used] for each in budget.forecast.points],
        "hours": [[round(each.hour.timestamp()), each.used] for each in budget.hours],
    }


def epoch_ms(at: datetime | None) -> int | None:
    """Return what the page's script counts in."""
    return None if at is None else int(at.timestamp() * 1000)


FILTERS = {
    "clock_time": clock_time,
    "ago": ago,
    "age": age,
    "money": money,
    "number": number,
    "bounded": bounded,
    "percent": percent,
    "countdown": countdown,
    "lag": lag,
    "fate": fate,
    "decide": decide,
    "result": result,
    "sentence": sentence,
    "epoch_ms": epoch_ms,
    "platform": platform,
    "connect": connect,
    "curve": curve,
    "forecast": forecast.say,
    "short_time": say_time,
}
