"""The state of a supplier queue, from which `core.timetable.next_call` tells the next call."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import fmean

from headway.app import App
from headway.app.rules import MINUTE_S
from headway.core.catalog.listings import Sku
from headway.core.limits.state import LedgerCall
from headway.core.limits.status import LimitStatus
from headway.core.timetable.next_call import SupplierQueue
from headway.core.timetable.outlook import Departures, Outlook, foresee
from headway.engine.supplier_queue import current_rule, read_front
from headway.store.limits.breakers import Breakers
from headway.store.pool import Pool
from headway.store.timetable.schedule import Schedule

# A token's lifetime is known when it is issued; for the next one the usual lifetime is assumed.
TOKEN_LIFE = timedelta(hours=1)
# The duration of a call is the mean of this period: 0.05 s per call add up to a minute in 10 hours.
LOOK_BACK = timedelta(hours=6)


def supplier_queue(
    app: App, now: datetime, *, pool: Pool | None = None, status: LimitStatus | None = None
) -> SupplierQueue:
    """Read what every listing waits for: permits, the supplier, the front of the queue.

    With `pool`, read the rows through that one; `status` is the limiter's, if already read.
    """
    status = status or app.limiter.status(app.limit_key)
    if pool is not None:
        app = _over(app, pool)
    pace_s = max(app.pace.gap_s, MINUTE_S / app.pace.calls_per_min)
    front = read_front(app.schedule, now, app.rule.seat_rule)
    rule = current_rule(
        app.rule.seat_rule,
        front,
        now,
        policy=app.policy,
        schedule=app.schedule,
        markets=app.markets,
    )
    is_full = rule.retries_left == 0
    window = app.policy.retry_window(now, app.schedule.listed()) if is_full else None
    return SupplierQueue(
        rule=rule,
        breaker=app.breakers.load(app.limit_key),
        # The next permit may already be promised to the call that waits for it.
        permit_at=status.promised_at or status.next_free_at,
        pace=max(timedelta(seconds=pace_s), rule.pace),
        paused_until=status.paused_until,
        pause_reason=status.reason,
        retries_from=None if window is None else window.closes_at,
        front=front,
    )


def queue_ahead(app: App, now: datetime, skus: Collection[Sku]) -> SupplierQueue:
    """Read the state of the supplier queue, and when these parts will be in a call."""
    queue, policy = supplier_queue(app, now), app.policy
    if not skus:
        return queue
    if policy.is_eager:
        policy = policy.informed(app.markets.load((), now))
    early = app.sign_in_early
    headway = queue.pace + _mean_duration(app.limiter.calls_since(app.limit_key, now - LOOK_BACK))
    outlook = Outlook(
        queue=app.ahead.queue(now),
        departures=Departures(
            permit_at=queue.open_at(now),
            headway=headway,
            sign_ins=tuple(at - early for at in app.ahead.token_ends(app.limit_key)),
            token_life=TOKEN_LIFE - early,
        ),
        rule=queue.rule,
        policy=policy,
        retries_from=queue.retries_from,
    )
    return replace(queue, pace=headway, joins_call=foresee(outlook, now, skus))


def _over(app: App, pool: Pool) -> App:
    """Return the same application whose supplier queue is read through this pool."""
    return replace(
        app,
        schedule=Schedule(pool, app.supplier, read_events=app.settings.read_events),
        breakers=Breakers(pool),
        markets=app.markets.over(pool),
    )


def _mean_duration(calls: Sequence[LedgerCall]) -> timedelta:
    """Return how long a call lasts, as of late: the next permit counts from its end."""
    spans_s = [
        (call.arrived_by - call.begun_at).total_seconds()
        for call in calls
        if call.arrived_by is not None
    ]
    return timedelta(seconds=fmean(spans_s)) if spans_s else timedelta(0)
