"""What is wrong now and needs a person, or at least a look; the worst first.

Decides what counts as an alert, how bad it is and what is said of it; whom to tell, how often and
from which number on is decided elsewhere.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from headway.core.breaker import Breaker
from headway.core.model import SellerId
from headway.core.pauses import Pause, PauseKind
from headway.core.reasons import say_span, say_time

DAY = timedelta(days=1)
# A token that nobody renews in that time is gone before most people are back from a holiday.
TOKEN_NOTICE = timedelta(days=7)


class Severity(StrEnum):
    """How bad it is, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One thing that is wrong; `link` is the page where something can be done about it."""

    name: str
    severity: Severity
    sentence: str
    since: datetime | None = None
    count: int = 1
    seller: SellerId | None = None
    link: str = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSign:
    """A seller's shop or account: whether it is connected, and what is wrong with it."""

    seller: SellerId
    name: str
    is_connected: bool
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSign:
    """A platform's day: what is left of it, and until when none is."""

    platform: str
    left: float
    limit: float
    room_at: datetime | None = None
    paused_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSign:
    """What a tier was promised, and for which share of its listings that was kept."""

    tier: str
    promise_min: float
    kept_share: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSign:
    """A grant that ends at an instant unless somebody connects again."""

    seller: SellerId
    name: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What alerts are judged by, at one instant."""

    now: datetime
    breaker: Breaker
    calls_paused_until: datetime | None = None
    calls_paused_reason: str = ""
    pauses: Sequence[Pause] = ()
    stale: int = 0
    total: int = 0
    oldest_read_at: datetime | None = None
    broken_promises: Sequence[TierSign] = ()
    held: int = 0
    held_since: datetime | None = None
    failing: int = 0
    refused: int = 0
    parked: int = 0
    connections: Sequence[ConnectionSign] = ()
    dead_jobs: int = 0
    quotas: Sequence[QuotaSign] = ()
    tokens: Sequence[TokenSign] = ()


def alerts(signs: Signs) -> list[Alert]:
    """Return what is wrong, the worst first, then what has been wrong for longest."""
    found = [alert for check in CHECKS for alert in check(signs)]
    rank = list(Severity)
    return sorted(
        found, key=lambda each: (rank.index(each.severity), each.since or signs.now, each.name)
    )


def _supplier(signs: Signs) -> Iterator[Alert]:
    breaker, now = signs.breaker, signs.now
    if breaker.is_open:
        since = breaker.opened_at or now
        tried = f"tried again at {say_time(breaker.open_until or now, now)}"
        yield Alert(
            name="supplier_down",
            severity=Severity.CRITICAL,
            since=since,
            sentence=(
                f"The supplier has not answered for {say_span(now - since)}"
                f" ({breaker.reason or 'no reason given'}); {tried}."
            ),
        )
    until = signs.calls_paused_until
    if until is not None and until > now:
        yield Alert(
            name="calls_paused",
            severity=Severity.WARNING,
            sentence=(
                f"No call to the supplier leaves before {say_time(until, now)}"
                f" ({signs.calls_paused_reason or 'no reason given'})."
            ),
        )


def _pauses(signs: Signs) -> Iterator[Alert]:
    for each in signs.pauses:
        is_wide = each.kind in {PauseKind.ALL, PauseKind.SUPPLIER}
        end = f"until {say_time(each.until, signs.now)}" if each.until else "until somebody resumes"
        why = f": {each.reason}" if each.reason else ""
        yield Alert(
            name="paused",
            severity=Severity.WARNING if is_wide else Severity.NOTICE,
            since=each.since,
            seller=each.seller,
            sentence=f"{_paused(each)} is paused by {each.actor or 'somebody'} {end}{why}.",
        )


def _paused(pause: Pause) -> str:
    what = {
        PauseKind.ALL: "Everything",
        PauseKind.SUPPLIER: "Reading the supplier",
        PauseKind.SELLER: f"Everything of {pause.seller}",
        PauseKind.LISTING: f"{pause.sku} of {pause.seller}",
    }
    return what[pause.kind]


def _freshness(signs: Signs) -> Iterator[Alert]:
    if signs.stale:
        oldest = signs.oldest_read_at
        age = f"; the oldest read is {say_span(signs.now - oldest)} old" if oldest else ""
        yield Alert(
            name="overdue",
            severity=Severity.WARNING,
            since=oldest + DAY if oldest and oldest + DAY < signs.now else None,
            count=signs.stale,
            link="/parts?state=stale",
            sentence=f"{_of(signs.stale, 'listing')} not read for more than 24 h{age}.",
        )
    for each in signs.broken_promises:
        yield Alert(
            name="promise_broken",
            severity=Severity.WARNING,
            since=each.at,
            sentence=(
                f"Sellers who pay for {each.tier} are promised data no older than"
                f" {say_span(timedelta(minutes=each.promise_min))}; it was kept for"
                f" {each.kept_share:.1%} of their listings."
            ),
        )


def _listings(signs: Signs) -> Iterator[Alert]:
    if signs.held:
        yield Alert(
            name="held",
            severity=Severity.WARNING,
            since=signs.held_since,
            count=signs.held,
            link="/changes",
            sentence=f"{_of(signs.held, 'change')} held for a person to approve or reject.",
        )
    if signs.parked:
        yield Alert(
            name="parked",
            severity=Severity.WARNING,
            count=signs.parked,
            link="/trouble",
            sentence=f"{_of(signs.parked, 'listing')} parked after repeated failure; see why, then"
            " revive.",
        )
    if signs.refused:
        yield Alert(
            name="refused_by_shop",
            severity=Severity.WARNING,
            count=signs.refused,
            link="/trouble",
            sentence=f"{_of(signs.refused, 'listing')} not taken by the shop; it is tried again.",
        )
    if signs.failing:
        yield Alert(
            name="failing",
            severity=Severity.NOTICE,
            count=signs.failing,
            link="/trouble",
            sentence=f"{_of(signs.failing, 'listing')} failing at the supplier; tried again later.",
        )


def _accounts(signs: Signs) -> Iterator[Alert]:
    for each in signs.connections:
        if each.is_connected and not each.trouble:
            continue
        said = each.trouble or "no reason given"
        yield Alert(
            name="shop_refused" if each.is_connected else "disconnected",
            severity=Severity.WARNING if each.is_connected else Severity.CRITICAL,
            seller=each.seller,
            link="/accounts",
            sentence=(
                f"{each.name} of {each.seller} does not answer: {said}."
                if each.is_connected
                else f"{each.name} of {each.seller} is disconnected: {said}. Connect it again."
            ),
        )
    for token in signs.tokens:
        if token.expires_at > signs.now + TOKEN_NOTICE:
            continue
        is_gone = token.expires_at <= signs.now
        when = say_time(token.expires_at, signs.now)
        yield Alert(
            name="token_expiring",
            severity=Severity.CRITICAL if is_gone else Severity.WARNING,
            seller=token.seller,
            link="/accounts",
            sentence=(
                f"The grant of {token.name} of {token.seller}"
                f" {'ended' if is_gone else 'ends'} at {when}; connect it again."
            ),
        )


def _jobs(signs: Signs) -> Iterator[Alert]:
    if signs.dead_jobs:
        yield Alert(
            name="dead_jobs",
            severity=Severity.WARNING,
            count=signs.dead_jobs,
            link="/accounts",
            sentence=f"{_of(signs.dead_jobs, 'job')} dead after repeated failure; revive when"
            " mended.",
        )
    for each in signs.quotas:
        is_paused = each.paused_until is not None and each.paused_until > signs.now
        if each.left >= 1 and not is_paused:
            continue
        until = each.paused_until if is_paused else each.room_at
        again = f"; the next call may leave at {say_time(until, signs.now)}" if until else ""
        spent = "told us to wait" if is_paused else f"has no call left of its {each.limit:,.0f}"
        yield Alert(
            name="quota_spent",
            severity=Severity.WARNING,
            link="/accounts",
            sentence=f"{each.platform.capitalize()} {spent}{again}.",
        )


def _of(count: int, noun: str) -> str:
    return f"1 {noun} is" if count == 1 else f"{count:,} {noun}s are"


CHECKS: tuple[Callable[[Signs], Iterator[Alert]], ...] = (
    _supplier,
    _pauses,
    _freshness,
    _listings,
    _accounts,
    _jobs,
)
