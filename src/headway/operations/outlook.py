"""Inputs of the forecast in `explain`: the queue, the coming permits, and the current policy."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import fmean

from headway.app import App
from headway.core.catalog.listings import Sku
from headway.core.limits.state import LedgerCall
from headway.core.timetable.next_call import SupplierQueue
from headway.core.timetable.outlook import Departures, Outlook, foresee
from headway.providers.registry import main_supplier

# A token's lifetime is known when it is issued; for the next one the usual lifetime is assumed.
TOKEN_LIFE = timedelta(hours=1)
# The duration of a call is the mean of this period: 0.05 s per call add up to a minute in 10 hours.
LOOK_BACK = timedelta(hours=6)


def queue_ahead(app: App, now: datetime, skus: Collection[Sku]) -> SupplierQueue:
    """Read the state of the supplier queue, and when these parts will be in a call."""
    queue, policy = app.supplier_queue(now), app.policy
    if not skus:
        return queue
    if policy.is_eager:
        policy = policy.informed(app.markets.load((), now))
    early = main_supplier()[1].sign_in_early
    headway = queue.pace + _lasting(app.limiter.calls_since(app.limit_key, now - LOOK_BACK))
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


def _lasting(calls: Sequence[LedgerCall]) -> timedelta:
    """Return how long a call lasts, as of late: the next permit counts from its end."""
    spans_s = [
        (call.arrived_by - call.begun_at).total_seconds()
        for call in calls
        if call.arrived_by is not None
    ]
    return timedelta(seconds=fmean(spans_s)) if spans_s else timedelta(0)
