"""Daily quotas for display: used by hour, reserved, and the forecast of the next day."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from psycopg import Connection
from pydantic import computed_field

from headway.core.accounts.job_outlook import DayOutlook
from headway.core.accounts.jobs import CALLS_MIN, PlatformName
from headway.core.limits.daily_shares import DayPlan, DayShare
from headway.core.limits.forecast import (
    DAY,
    HOUR,
    HOURS,
    Forecast,
    QuotaPoint,
    Use,
    forecast_quota,
    hour_of,
    pace,
)
from headway.core.limits.rules import Quota, QuotaUse, Resource
from headway.core.limits.state import LimitState, at_us, instant, load
from headway.core.limits.transitions import enter
from headway.store.limits.day_demand import DayDemand, used_by_hour, used_by_share

# A stretch below this is not shown.
STRETCHED = 1.05
STATES = "SELECT limit_key, state FROM limiter WHERE limit_key = ANY (%(keys)s) AND state <> '{}'"
USED = """
SELECT limit_key, hour, sum(used), sum(used) FILTER (WHERE tier <> 'free') FROM rate_budgets
WHERE limit_key = ANY (%(keys)s) AND hour >= %(since)s AND hour <= %(now)s
GROUP BY limit_key, hour
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HourUse:
    """Use of a quota in one hour, by all sellers and by paying ones."""

    hour: datetime
    """When the hour began."""
    used: float
    """Calls of all sellers."""
    used_by_paid: float
    """Calls of paying sellers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A platform's day, shared by all its sellers: `past` and `forecast` are of the rolling sum.

    `left_to_paid` is what sellers who do not pay leave of the rest to those who do, `stretch` how
    many times their interval each share waits. There is room for a run `from_at`; None is at once.
    """

    platform: PlatformName
    limit: float
    """Calls permitted in 24 hours."""
    used: float
    """Calls used in the last 24 hours."""
    reserved: float
    """Calls reserved by jobs that run."""
    left_to_paid: float
    """Calls that only paying sellers may still use."""
    paused_until: datetime | None
    pause_reason: str
    stretch: Mapping[DayShare, float]
    """How many times longer the interval of each share is while calls are short.
    Example: `{"paid": 1.0, "free": 2.0, "history": 4.0}`
    """
    from_at: Mapping[DayShare, datetime | None]
    """When each share may use calls again; null if it may now.
    Example: `{"paid": null, "free": null, "history": "2026-03-04T12:00:00Z"}`
    """
    hours: tuple[HourUse, ...]
    """Use in each of the last hours."""
    past: tuple[QuotaPoint, ...]
    """Use over the last 24 hours."""
    forecast: Forecast
    """Expected use over the next 24 hours."""

    @property
    def stretched(self) -> str:
        """Return which intervals are stretched and by how much; empty if none is."""
        longer = {share: times for share, times in self.stretch.items() if times >= STRETCHED}
        return ", ".join(f"{share} {times:.1f} times" for share, times in longer.items())

    @computed_field  # type: ignore[prop-decorator]
    @property
    def left(self) -> float:
        """What is neither used nor reserved."""
        return max(0.0, self.limit - self.used - self.reserved)

    def why_shut(self, share: DayShare) -> str:
        """Return why a job of this share gets no budget now."""
        name = self.platform.capitalize()
        if self.paused_until is not None:
            return f"{name} asked us to wait"
        spent = f"{self.used + self.reserved:,.0f} of {name}'s {self.limit:,.0f} calls"
        if share is DayShare.PAID or self.left < CALLS_MIN:
            return f"{spent} in 24 h are used or reserved"
        others = "paying sellers" if share is DayShare.FREE else "new data"
        return f"the last {self.left:,.0f} of {name}'s day are reserved for {others}"


def read_budgets(
    connection: Connection,
    now: datetime,
    days: Mapping[PlatformName, Resource],
    demand: DayDemand,
) -> tuple[Budget, ...]:
    """Read the daily quota of each platform that has one."""
    keys = [day.key for day in days.values()]
    values = {"keys": keys, "since": hour_of(now) - 2 * DAY, "now": now}
    states = {key: load(state) for key, state in connection.execute(STATES, values).fetchall()}
    used: dict[str, list[HourUse]] = {key: [] for key in keys}
    for key, hour, amount, paid in connection.execute(USED, values).fetchall():
        at = hour.astimezone(UTC)
        used[key].append(HourUse(hour=at, used=amount, used_by_paid=paid or 0.0))
    return tuple(
        _budget(
            platform,
            day,
            states.get(day.key),
            used[day.key],
            demand=demand.calls_per_day(platform, now, connection),
            by_share=used_by_share(connection, day.key, now),
            now=now,
        )
        for platform, day in days.items()
    )


def read_day_outlooks(
    connection: Connection,
    now: datetime,
    days: Mapping[PlatformName, Resource],
    demand: DayDemand,
) -> dict[PlatformName, DayOutlook]:
    """Read each platform's day as a forecast of its jobs needs it."""
    values = {"keys": [day.key for day in days.values()]}
    states = {key: load(state) for key, state in connection.execute(STATES, values).fetchall()}
    outlooks = {}
    for platform, day in days.items():
        quota, meter, reserved = _meter(day, states.get(day.key), now)
        plan = DayPlan(
            limit=float(quota.room(meter)), demand=demand.calls_per_day(platform, now, connection)
        )
        bucket, stay = _bucket(quota)
        outlooks[platform] = DayOutlook(
            plan=plan,
            uses=[(use.leaves_at, use.amount) for use in _uses(quota, meter)],
            hours=used_by_hour(connection, day.key, now),
            reserved=reserved,
            bucket=bucket,
            stay=stay,
        )
    return outlooks


def _meter(
    day: Resource, stored: LimitState | None, now: datetime
) -> tuple[Quota, QuotaUse, float]:
    """Return a day's quota, its use, and what running jobs have reserved."""
    states = enter({day.key: day}, {day.key: stored or LimitState()}, now_us=at_us(now)).states
    state = states[day.key]
    return day.quotas[0], state.quotas[0], float(sum(call.reserved for call in state.calls))


def _budget(
    platform: PlatformName,
    day: Resource,
    stored: LimitState | None,
    hours: list[HourUse],
    *,
    demand: Mapping[DayShare, float],
    by_share: Mapping[DayShare, float],
    now: datetime,
) -> Budget:
    now_us = at_us(now)
    state = enter({day.key: day}, {day.key: stored or LimitState()}, now_us=now_us).states[day.key]
    quota, meter = day.quotas[0], state.quotas[0]
    reserved = float(sum(call.reserved for call in state.calls))
    limit, used = float(quota.room(meter)), float(quota.used_at(meter, now_us))
    by_hour = {hour.hour: hour for hour in hours}
    plan = DayPlan(limit=limit, demand=demand)
    paused_us = state.paused_until_us if state.paused_until_us > now_us else 0

    def free_from(leave: float) -> datetime | None:
        earliest_us = quota.earliest_us(
            meter, state.calls, cost=min(CALLS_MIN, limit), leave=leave, now_us=now_us
        )
        at_last_us = max(earliest_us, paused_us)
        return instant(at_last_us) if at_last_us > now_us else None

    forecast = forecast_quota(
        _uses(quota, meter),
        limit=limit,
        reserved=reserved,
        demand=pace({hour: use.used for hour, use in by_hour.items()}, now),
        now=now,
    )
    return Budget(
        platform=platform,
        limit=limit,
        used=used,
        reserved=reserved,
        left_to_paid=min(plan.leave(DayShare.FREE, by_share), max(0.0, limit - used - reserved)),
        paused_until=instant(paused_us) if paused_us else None,
        pause_reason=state.pause_reason if paused_us else "",
        stretch={share: plan.stretch(share) for share in (DayShare.PAID, DayShare.FREE)},
        from_at={share: free_from(plan.leave(share, by_share)) for share in DayShare},
        hours=tuple(_hour(by_hour, hour_of(now) - step * HOUR) for step in reversed(range(HOURS))),
        past=_past(by_hour, now, used),
        forecast=forecast,
    )


def _uses(quota: Quota, meter: QuotaUse) -> list[Use]:
    """Return what is in the window, and when each entry leaves it."""
    bucket, stay = _bucket(quota)
    epoch = instant(0)
    return [
        Use(leaves_at=epoch + (number + 1) * bucket + stay, amount=amount)
        for number, amount in meter.used
    ]


def _bucket(quota: Quota) -> tuple[timedelta, timedelta]:
    """Return the span of a time bucket, and for how long use counts after its end."""
    if quota.is_rolling:
        return timedelta(seconds=quota.bucket_s), timedelta(seconds=quota.span_s)
    return timedelta(seconds=quota.span_s), timedelta(0)


def _past(
    by_hour: Mapping[datetime, HourUse], now: datetime, used: float
) -> tuple[QuotaPoint, ...]:
    """Return the rolling sum at each full hour of the last day, and now."""
    points = []
    for step in reversed(range(HOURS)):
        end = hour_of(now) - step * HOUR
        inside = [_hour(by_hour, end - back * HOUR).used for back in range(1, HOURS + 1)]
        points.append(QuotaPoint(at=end, used=sum(inside)))
    return (*points, QuotaPoint(at=now, used=used))


def _hour(by_hour: Mapping[datetime, HourUse], hour: datetime) -> HourUse:
    return by_hour.get(hour, HourUse(hour=hour, used=0.0, used_by_paid=0.0))
