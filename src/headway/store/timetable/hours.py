"""The timetable of a day: calls planned for the hours ahead, calls made in those behind.

What is planned follows from due times, counted on a sample where there are many; what was made is
in the ledger. Hours are those of the clock, in UTC.
"""

from datetime import datetime

from headway.core.catalog.listings import MAIN, LimitKey, SupplierName
from headway.core.timetable.day import (
    DAY,
    HOUR,
    DayTimetable,
    PastHour,
    plan_hours,
    retry_windows,
    slot_state,
)
from headway.core.timetable.policies.policy import HOURS, Policy
from headway.store.pool import Pool, guarded
from headway.store.sampling import share_of

# Overdue listings count as due in the current hour.
PLANNED = """
SELECT grouping(hour) = 0, coalesce(hour, hour_bucket)::int, count(*)
FROM (SELECT hour_bucket, CASE WHEN next_sync_at < %(start)s + interval '1 day' THEN
        greatest(0, floor(extract(epoch FROM next_sync_at - %(start)s) / 3600)) ELSE -1 END AS hour
      FROM product_sync_schedule TABLESAMPLE SYSTEM (%(percent)s)
      WHERE supplier = %(supplier)s AND is_active AND NOT is_paused) AS listing
GROUP BY GROUPING SETS ((hour), (hour_bucket))
"""
MADE = """
SELECT floor(extract(epoch FROM begun_at - %(since)s) / 3600)::int, count(*),
  count(*) FILTER (WHERE status = 'sent' AND coalesce(http_status, 200) = 200),
  coalesce(sum(cardinality(skus)) FILTER (WHERE seats_paid > 0), 0)
FROM call_ledger
WHERE limit_key = %(limit_key)s AND begun_at >= %(since)s AND begun_at <= %(now)s AND status <>
  'unsent'
GROUP BY 1
"""


class TimetableQueries:
    """The timetable of a day, for people."""

    def __init__(self, pool: Pool, *, seats: int, calls_per_hour: float) -> None:
        self._pool = pool
        self._seats = seats
        self._calls_per_hour = calls_per_hour

    def day(
        self,
        now: datetime,
        *,
        supplier: SupplierName = MAIN,
        limit_key: LimitKey,
        policy: Policy,
        listed: int,
    ) -> DayTimetable:
        """Read a supplier's day around now; `listed` is how many listings it has."""
        start = now.replace(minute=0, second=0, microsecond=0)
        since = start - DAY + HOUR
        with guarded(), self._pool.connection() as connection:
            share = share_of(connection, "product_sync_schedule")
            values = {"start": start, "percent": share.percent, "supplier": supplier}
            counted = connection.execute(PLANNED, values).fetchall()
            made = {
                hour: figures
                for hour, *figures in connection.execute(
                    MADE, {"limit_key": limit_key, "since": since, "now": now}
                )
            }
        weight = share.weight
        due = {hour: round(count * weight) for is_due, hour, count in counted if is_due}
        slots = {hour: round(count * weight) for is_due, hour, count in counted if not is_due}
        planned, backlog = plan_hours(
            start,
            [due.get(hour, 0) for hour in range(HOURS)],
            policy=policy,
            seats=self._seats,
            calls_per_hour=self._calls_per_hour,
        )
        counts = () if policy.is_eager else tuple(slots.get(hour, 0) for hour in range(HOURS))
        return DayTimetable(
            now=now,
            planned=planned,
            made=tuple(_made(since + hour * HOUR, made.get(hour)) for hour in range(HOURS)),
            windows=retry_windows(now, policy, listed),
            slots=counts,
            slot_states=tuple(slot_state(count, self._seats) for count in counts),
            backlog=backlog,
            is_estimate=share.is_estimate,
        )


def _made(at: datetime, figures: list[int] | None) -> PastHour:
    calls, good, seats = figures or (0, 0, 0)
    return PastHour(at=at, calls=calls, good=good, seats=int(seats))
