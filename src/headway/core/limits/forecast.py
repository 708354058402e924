"""Forecast of a rolling quota for the next hours, if demand stays as it is.

Each use leaves the window at a known instant. The demand until then is an estimate: as much as in
the same hours of the last day or, where that is unknown, as in the known hours. The forecast never
exceeds what the window allows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from headway.core.reasons import format_time

HOUR = timedelta(hours=1)
HOURS = 24
DAY = HOURS * HOUR
# Less than one call is of no use.
CALL = 1.0
# Sums of fractions are not exact; a millionth of a call is none.
NOTHING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """So many calls, which count until they leave the window."""

    leaves_at: datetime
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaPoint:
    """How much of the quota will be in use at an instant."""

    at: datetime
    """The instant."""
    used: float
    """Calls in use at that instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The next day of a quota, hour by hour.

    `spent_at` is when less than one call is left, `room_at` when there is one again; each is None
    if that does not come within the day. `unmet` is how many calls cannot be made.
    """

    points: tuple[QuotaPoint, ...]
    """Expected use, hour by hour."""
    spent_at: datetime | None
    """When the quota runs out; null if it does not."""
    room_at: datetime | None
    """When calls are available again; null if they are now."""
    demand: float
    """Calls that all jobs would make in 24 hours."""
    unmet: float
    """Calls that could not be made."""


def hour_of(at: datetime) -> datetime:
    """Return the full hour that an instant lies in."""
    return at.replace(minute=0, second=0, microsecond=0)


def pace(used: Mapping[datetime, float], now: datetime) -> tuple[float, ...]:
    """Estimate the demand of the next 24 hours from the use by full hour.

    A completely known day is repeated; otherwise the mean of the known hours is used.
    """
    present = hour_of(now)
    known = [hour for hour in used if hour <= present]
    if not known:
        return (0.0,) * HOURS
    first = min(known)
    if present - first >= DAY:
        return tuple(used.get(present - DAY + step * HOUR, 0.0) for step in range(HOURS))
    recent = sum(used[hour] for hour in known)
    return (recent / max(1.0, (now - first) / HOUR),) * HOURS


def forecast_quota(
    uses: Iterable[Use],
    *,
    limit: float,
    reserved: float,
    demand: Sequence[float],
    now: datetime,
) -> Forecast:
    """Simulate the next day: uses leave the window, demand is served while there is room.

    `demand` is by hour from now on. Reservations count as used at once, and as the first
    part of the hour's demand. What is used from now on stays until the day is over.
    """
    leaving = sorted((max(use.leaves_at, now), use.amount) for use in uses if use.leaves_at > now)
    level = sum(amount for _, amount in leaving) + reserved
    points = [QuotaPoint(at=now, used=level)]
    spent_at = now if limit - level < CALL else None
    room_at: datetime | None = None
    unmet = 0.0
    for step, hour_demand in enumerate(demand):
        begin, end = now + step * HOUR, now + (step + 1) * HOUR
        left = max(0.0, hour_demand - reserved) if step == 0 else hour_demand
        rate = left / HOUR.total_seconds()
        cuts = [begin, *(at for at, _ in leaving if begin < at < end), end]
        for starts_at, ends_at in pairwise(cuts):
            while leaving and leaving[0][0] <= starts_at:
                level -= leaving.pop(0)[1]
            room = limit - level
            if spent_at is not None and room_at is None and room >= CALL:
                room_at = starts_at
            calls = rate * (ends_at - starts_at).total_seconds()
            taken = max(0.0, min(calls, room))
            unmet += calls - taken
            level += taken
            if spent_at is None and limit - level < CALL:
                spent_at = starts_at + _until(room - CALL, rate, ends_at - starts_at)
        points.append(QuotaPoint(at=end, used=level))
    return Forecast(
        points=tuple(points),
        spent_at=spent_at,
        room_at=room_at,
        demand=sum(demand),
        unmet=unmet if unmet > NOTHING else 0.0,
    )


def _until(room: float, rate: float, span: timedelta) -> timedelta:
    """Return how soon that much room is used up, at most the span."""
    return min(span, timedelta(seconds=room / rate)) if rate > 0 else timedelta(0)


def forecast_text(forecast: Forecast, now: datetime) -> str:
    """Return a sentence for people: whether the quota is enough and, if not, from when to when."""
    if forecast.spent_at is None:
        return "enough for the next 24 h at the present rate"
    spent = (
        "used up"
        if forecast.spent_at <= now
        else f"runs out at {format_time(forecast.spent_at, now)}"
    )
    room = "none available within 24 h"
    if forecast.room_at is not None:
        room = f"available again at {format_time(forecast.room_at, now)}"
    unmet = f"; {forecast.unmet:,.0f} calls cannot be made" if forecast.unmet >= CALL else ""
    return f"{spent}, {room}{unmet}"
