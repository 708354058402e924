"""Read the front of a supplier's queue, and the seat rule that holds at this instant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headway.core.catalog.listings import Candidate, Priority
from headway.core.timetable.seats import FRONT_PER_SEAT, SeatRule, fill_call, rule_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from headway.core.timetable.policies.policy import Policy
    from headway.engine.ports import MarketsPort, SchedulePort


def read_front(
    schedule: SchedulePort, now: datetime, rule: SeatRule, *, after_failure: bool = False
) -> list[Candidate]:
    """Read deep enough into the queue to fill the seats with different SKUs.

    After a failed call, skip listings that were in one as long as there are others.
    """
    limit = rule.seats * FRONT_PER_SEAT
    front: list[Candidate] = []
    for only_clean in (True, False) if after_failure else (False,):
        more = schedule.front(now, limit=limit, only_clean=only_clean)
        front = front + more
        while len(more) >= limit and not _fills(front, now, rule):
            skus = {candidate.sku for candidate in front}
            more = schedule.front(now, limit=limit, without=skus, only_clean=only_clean)
            front = front + more
        if _fills(front, now, rule):
            break
    return front


def _fills(front: Sequence[Candidate], now: datetime, rule: SeatRule) -> bool:
    """Return True if these take every seat; usually counting them is enough to know."""
    certain = {
        candidate.sku
        for candidate in front
        if candidate.priority is Priority.SCHEDULED and not candidate.suspicion
    }
    return len(certain) >= rule.seats or len(fill_call(front, now, rule)) >= rule.seats


def current_rule(
    rule: SeatRule,
    front: Sequence[Candidate],
    now: datetime,
    *,
    policy: Policy,
    schedule: SchedulePort,
    markets: MarketsPort,
) -> SeatRule:
    """Return the seat rule with what holds now: the market's, and the retry window's seats left."""
    if rule.is_eager:
        rule = rule_in(markets.load((), now), rule, now)
    if not any(
        candidate.priority is Priority.RETRY and candidate.next_sync_at <= now
        for candidate in front
    ):
        return rule
    window = policy.retry_window(now, schedule.listed())
    if window is None:
        return rule
    left = max(0, window.seats_max - schedule.retried_since(window.opens_at))
    return replace(rule, retries_left=left)
