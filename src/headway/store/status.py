"""What the screens show, read straight from the tables: one overview for terminal, page and API.

Every statement is a short range of an index, a bounded count, or a sample, so that the cost does
not grow with the table. Nothing here writes.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from psycopg import Connection

from headway.core.catalog.listings import (
    MAIN,
    Candidate,
    LimitKey,
    Priority,
    SellerId,
    Sku,
    SupplierName,
)
from headway.core.limits.breaker import Breaker
from headway.core.limits.rules import Resource
from headway.core.pauses import Pause, longest
from headway.core.reasons import say_pause
from headway.core.timetable.seats import URGENT, SeatRule, departure, join_call
from headway.store.accounts.status import AccountsStatus
from headway.store.catalog.change_list import ROWS_SHOWN, ObservedChange, latest_changes
from headway.store.catalog.counts import ListingCounts, count_listings
from headway.store.catalog.shop_status import StorefrontStatus, shop_calls, storefront_status
from headway.store.limits.breakers import Breakers
from headway.store.pauses import standing
from headway.store.pool import Lent, Pool, guarded
from headway.store.timetable.schedule import Schedule

DAY = timedelta(days=1)
HOUR_S = 3600
FRONT_PER_SEAT = 5
PAUSES_SHOWN = 50

TROUBLE = """
SELECT user_id, sku, consecutive_failures, coalesce(last_error, ''), next_sync_at, NOT is_active
FROM product_sync_schedule WHERE consecutive_failures > 0 {whose}
ORDER BY consecutive_failures DESC LIMIT %(most)s
"""
# The last day, by the hour. A call that was not sent cost the supplier nothing.
SPENT = """
SELECT floor(extract(epoch FROM %(now)s - begun_at) / 3600)::int AS hours_ago, count(*),
  count(*) FILTER (WHERE coalesce(arrived_by, %(now)s) > %(minute_ago)s),
  coalesce(sum(cardinality(skus)) FILTER (WHERE seats_paid > 0 AND status = 'sent'), 0),
  coalesce(sum(seats_paid) FILTER (WHERE status = 'sent'), 0)
FROM call_ledger
WHERE limit_key = %(limit_key)s AND begun_at > %(day_ago)s AND begun_at <= %(now)s AND status <>
  'unsent'
GROUP BY 1
"""
CALLS = """
SELECT begun_at, finished_at, status, coalesce(result, ''), http_status,
  coalesce(cardinality(skus), 0), coalesce(seats_paid, 0)
FROM call_ledger WHERE limit_key = %(limit_key)s AND begun_at <= %(now)s
ORDER BY begun_at DESC LIMIT %(most)s
"""


class Why(StrEnum):
    """What the next call waits for."""

    NOTHING = "nothing"
    PAUSED = "paused"
    BREAKER = "breaker"
    TOLD_TO_WAIT = "told to wait"
    PERMIT = "permit"
    SEATS = "seats"
    SLACK = "slack"
    NOW = "now"


REASONS = {
    Why.NOTHING: "nothing is listed yet",
    Why.BREAKER: "the supplier does not answer; one probe goes then",
    Why.TOLD_TO_WAIT: "calls are to wait until then",
    Why.PAUSED: "paused",
    Why.PERMIT: "the limit allows the next call then",
    Why.SEATS: "leaves full, when the last seat comes due",
    Why.SLACK: "leaves when the first part due has waited long enough; spare seats are borrowed",
    Why.NOW: "leaving now",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitStatus:
    """What the limiter says: when a permit is free, and whether somebody paused it."""

    free_at: datetime
    paused_until: datetime | None = None
    pause_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Somebody who would board the next call; `priority` is the reason.

    Of another seller's, whoever looks from behind a wall sees the turn alone.
    """

    sku: Sku | None = None
    user_id: SellerId | None = None
    priority: Priority
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCall:
    """When the next call leaves, what it waits for, and who would board."""

    leaves_at: datetime | None
    why: Why
    seats: tuple[Seat, ...]
    seats_max: int
    pause: Pause | None = None
    told: str = ""

    @property
    def reason(self) -> str:
        """What a person is told about the wait."""
        return self.told or REASONS[self.why]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was used of the supplier's limit."""

    minute_count: int
    minute_limit: int
    day_count: int
    day_limit: int
    fill: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentCall:
    """One line of the ledger; seats are 0 for a request that carries none."""

    at: datetime
    result: str
    is_good: bool
    is_over: bool
    seats_used: int
    seats_paid: int
    duration_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A listing that failed, and when it is tried again."""

    user_id: SellerId
    sku: Sku
    failures: int
    error: str
    next_at: datetime
    is_parked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything the first screen shows, at one instant, with the line of one supplier.

    `oldest_read_at` leaves failing listings aside; they are shown with their reasons. `pauses` are
    the first few: of everything, of the supplier, then the oldest.
    """

    now: datetime
    next_call: NextCall
    spent: Spent
    counts: ListingCounts
    oldest_read_at: datetime | None
    ages_h: tuple[int, ...]
    breaker: Breaker
    gate: PermitStatus
    changes: tuple[ObservedChange, ...]
    storefront: StorefrontStatus
    calls: tuple[RecentCall, ...]
    trouble: tuple[Trouble, ...]
    calls_per_hour: tuple[int, ...]
    supplier: SupplierName = MAIN
    pauses: tuple[Pause, ...] = ()
    accounts: AccountsStatus = field(default_factory=AccountsStatus)


def overview(
    pool: Pool,
    now: datetime,
    *,
    supplier: SupplierName = MAIN,
    limit_key: LimitKey,
    gate: PermitStatus,
    seat_rule: SeatRule,
    minute_limit: int,
    resource_of: Callable[[str], Resource],
    accounts: Callable[[Pool], AccountsStatus],
    seller: SellerId | None = None,
    theirs: Pool | None = None,
) -> Overview:
    """Read everything the first screen shows; `gate` is the limiter's status of this supplier.

    `resource_of` names the limit that binds a shop, `accounts` reads how the accounts stand. For a
    `seller`, what belongs to sellers is read of that one alone, through the pool `theirs`; of what
    all share there are the clock, the next call, the budget and the breaker, but no ledger.
    """
    asked = _Asked(
        now=now, supplier=supplier, limit_key=limit_key, seat_rule=seat_rule, seller=seller
    )
    # Two halves at once, each on one connection at a time: who held one and waited for another,
    # while others do the same, might wait for ever.
    with ThreadPoolExecutor(1) as aside:
        other = aside.submit(_read_line, pool, asked, minute_limit=minute_limit, accounts=accounts)
        with guarded(), pool.connection() as connection:
            shops = shop_calls(connection, now, resource_of=resource_of, seller=seller)
        with guarded(), (theirs or pool).connection() as connection:
            counts, ages_h, oldest_read_at = count_listings(
                connection, now, seat_rule.slack, seller
            )
            changes = latest_changes(connection, now, seller=seller)
            storefront = storefront_status(
                connection, now, resource_of=resource_of, calls=shops, seller=seller
            )
            trouble = _trouble(connection, seller)
        line = other.result()
    stops = [each for each in line.pauses if each.stops_line(supplier)]
    coming = _paused_call(stops, now, seat_rule) or _next_call(
        line.front, now, seat_rule, line.breaker, gate
    )
    return Overview(
        now=now,
        supplier=supplier,
        next_call=coming if seller is None else _seen_by(seller, coming, line.front),
        spent=line.spent,
        counts=counts,
        oldest_read_at=oldest_read_at,
        ages_h=ages_h,
        breaker=line.breaker,
        gate=gate,
        changes=changes,
        storefront=storefront,
        calls=line.calls,
        trouble=trouble,
        calls_per_hour=line.calls_per_hour,
        pauses=tuple(line.pauses),
        accounts=line.accounts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Of which line, and whose, the overview is."""

    now: datetime
    supplier: SupplierName
    limit_key: LimitKey
    seat_rule: SeatRule
    seller: SellerId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """What all share: the line of the supplier, its calls and pauses, and the account lane."""

    breaker: Breaker
    front: Sequence[Candidate]
    accounts: AccountsStatus
    pauses: Sequence[Pause]
    spent: Spent
    calls: tuple[RecentCall, ...]
    calls_per_hour: tuple[int, ...]


def _read_line(
    pool: Pool, asked: _Asked, *, minute_limit: int, accounts: Callable[[Pool], AccountsStatus]
) -> _Line:
    """Read the half that needs no wall; a seller sees no ledger."""
    now, is_whole = asked.now, asked.seller is None
    with guarded(), pool.connection() as connection:
        lent = Lent(connection)
        spent, per_hour = _spent(connection, now, asked.limit_key, minute_limit)
        return _Line(
            breaker=Breakers(lent).load(asked.limit_key),
            front=Schedule(lent, asked.supplier).front(
                now, limit=asked.seat_rule.seats * FRONT_PER_SEAT
            ),
            accounts=accounts(lent),
            pauses=standing(connection, now, seller=asked.seller, limit=PAUSES_SHOWN),
            spent=spent,
            calls=_calls(connection, now, asked.limit_key) if is_whole else (),
            calls_per_hour=per_hour if is_whole else (),
        )


def _seen_by(seller: SellerId, coming: NextCall, front: Sequence[Candidate]) -> NextCall:
    """Leave of other sellers' seats their turn alone; a part of both is in one seat, and known."""
    own = {each.sku: each for each in front if each.user_id == seller}

    def seen(seat: Seat) -> Seat:
        mine = None if seat.sku is None else own.get(seat.sku)
        if mine is None:
            return Seat(priority=seat.priority)
        return replace(seat, user_id=seller, due_at=mine.next_sync_at)

    return replace(coming, seats=tuple(map(seen, coming.seats)))


def _paused_call(pauses: Sequence[Pause], now: datetime, rule: SeatRule) -> NextCall | None:
    """Return that no call leaves, if there is a pause of everything or of the supplier."""
    pause = longest(pauses)
    if pause is None:
        return None
    told = f"{pause.what} is {say_pause(pause, now)}"
    coming = NextCall(leaves_at=pause.until, why=Why.PAUSED, seats=(), seats_max=rule.seats)
    return replace(coming, pause=pause, told=told)


def _next_call(
    front: Sequence[Candidate], now: datetime, rule: SeatRule, breaker: Breaker, gate: PermitStatus
) -> NextCall:
    """Foretell what `fetch` will do if nothing changes until then."""
    wanted_at = departure(front, now, rule)
    if wanted_at is None:
        return NextCall(leaves_at=None, why=Why.NOTHING, seats=(), seats_max=rule.seats)
    # The last one to say no is the reason; of equals, the first here.
    reasons = [
        (breaker.blocked_until(now) or now, Why.BREAKER),
        (gate.paused_until or now, Why.TOLD_TO_WAIT),
        (max(now, gate.free_at), Why.PERMIT),
        (wanted_at, _why_wanted(front, wanted_at, rule)),
    ]
    leaves_at = max(at for at, _ in reasons)
    why = next(why for at, why in reasons if at == leaves_at) if leaves_at > now else Why.NOW
    in_call = join_call(front, leaves_at, rule, least_suspect=breaker.failures > 0)
    seats = tuple(
        Seat(
            sku=each.sku,
            user_id=each.user_id,
            priority=_priority_of(each, leaves_at),
            due_at=each.next_sync_at,
        )
        for each in in_call
    )
    return NextCall(leaves_at=leaves_at, why=why, seats=seats, seats_max=rule.seats)


def _why_wanted(front: Sequence[Candidate], wanted_at: datetime, rule: SeatRule) -> Why:
    if any(each.priority in URGENT for each in front):
        return Why.NOW
    due = {each.sku for each in front if each.next_sync_at <= wanted_at}
    return Why.SEATS if len(due) >= rule.seats else Why.SLACK


def _priority_of(each: Candidate, leaves_at: datetime) -> Priority:
    """Say `ahead` of a scheduled listing that only fills a spare seat."""
    is_ahead = each.priority is Priority.SCHEDULED and each.next_sync_at > leaves_at
    return Priority.AHEAD if is_ahead else each.priority


def _spent(
    connection: Connection, now: datetime, limit_key: LimitKey, minute_limit: int
) -> tuple[Spent, tuple[int, ...]]:
    """Return what was used, and the calls of each hour, the oldest first, the last ending now."""
    values = {
        "limit_key": limit_key,
        "now": now,
        "minute_ago": now - timedelta(minutes=1),
        "day_ago": now - DAY,
    }
    rows = connection.execute(SPENT, values).fetchall()
    counts = {row[0]: row[1] for row in rows}
    minute_count, used, paid = (sum(row[column] for row in rows) for column in (2, 3, 4))
    spent = Spent(
        minute_count=minute_count,
        minute_limit=minute_limit,
        day_count=sum(counts.values()),
        day_limit=minute_limit * 1440,
        fill=float(used) / float(paid) if paid else None,
    )
    return spent, tuple(counts.get(hours_ago, 0) for hours_ago in reversed(range(24)))


def _calls(connection: Connection, now: datetime, limit_key: LimitKey) -> tuple[RecentCall, ...]:
    rows = connection.execute(
        CALLS, {"limit_key": limit_key, "now": now, "most": ROWS_SHOWN}
    ).fetchall()
    return tuple(map(call_of, rows))


def call_of(row: Sequence[Any]) -> RecentCall:
    """Read a line of the ledger in the order of the columns of `CALLS`."""
    begun_at, finished_at, status, result, http_status, used, paid = row
    return RecentCall(
        at=begun_at,
        result=result or status,
        is_good=status == "sent" and (http_status or 200) == 200,  # noqa: PLR2004 - HTTP's word
        is_over=status != "begun",
        seats_used=used,
        seats_paid=paid,
        duration_s=(finished_at - begun_at).total_seconds() if finished_at else None,
    )


def _trouble(connection: Connection, seller: SellerId | None) -> tuple[Trouble, ...]:
    statement = TROUBLE.format(whose="" if seller is None else "AND user_id = %(seller)s")
    rows = connection.execute(statement, {"most": ROWS_SHOWN, "seller": seller}).fetchall()
    return tuple(
        Trouble(
            user_id=user_id,
            sku=sku,
            failures=failures,
            error=error,
            next_at=at,
            is_parked=is_parked,
        )
        for user_id, sku, failures, error, at, is_parked in rows
    )
