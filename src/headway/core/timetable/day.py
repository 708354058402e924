"""The timetable of a day: calls planned for the hours ahead, calls made in the past hours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from headway.core.timetable.policies.policy import Policy, RetryWindow

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WINDOWS_MAX = 48


class SlotState(StrEnum):
    """How full an hour is: its listings fill no call, not one, or one and more."""

    DORMANT = "dormant"
    FILLING = "filling"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHour:
    """A coming hour: the listings due in it, and the calls planned for it."""

    at: datetime
    """When the hour begins."""
    due: int
    """Listings due in it."""
    calls: int
    """Calls planned for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastHour:
    """A past hour: calls made, how many succeeded, and the seats they used."""

    at: datetime
    """When the hour began."""
    calls: int
    """Calls made."""
    good: int
    """Calls that succeeded."""
    seats: int
    """Parts in those calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayTimetable:
    """The past day and the next; the current hour is in both.

    `slots` counts the listings of each hour of the day, where the policy gives slots, and
    `slot_states` says how full each is. `backlog` is what is still due after the last hour.
    """

    now: datetime
    planned: tuple[PlannedHour, ...]
    """The coming hours."""
    made: tuple[PastHour, ...]
    """The past hours."""
    windows: tuple[RetryWindow, ...]
    """Windows in which failed listings are tried again."""
    slots: tuple[int, ...]
    """Listings in each hour of the day, from 0 to 23. Example: `[21, 20, 21]`"""
    slot_states: tuple[SlotState, ...]
    """How full each of these hours is. Example: `["active", "active", "filling"]`"""
    backlog: int
    """Listings that are overdue."""
    is_estimate: bool


def slot_state(listings: int, seats: int) -> SlotState:
    """Return how full an hour with this many listings is."""
    if listings == 0:
        return SlotState.DORMANT
    return SlotState.ACTIVE if listings >= seats else SlotState.FILLING


def plan_hours(
    start: datetime, due: Sequence[int], *, policy: Policy, seats: int, calls_per_hour: float
) -> tuple[tuple[PlannedHour, ...], int]:
    """Plan calls for the listings due each hour, up to the limit; return the backlog too."""
    hours, waiting, most = [], 0, math.floor(calls_per_hour)
    for number, count in enumerate(due):
        waiting += count
        calls = most if policy.is_eager else min(most, math.ceil(waiting / seats))
        waiting = max(0, waiting - calls * seats)
        hours.append(PlannedHour(at=start + number * HOUR, due=count, calls=calls))
    return tuple(hours), waiting


def retry_windows(now: datetime, policy: Policy, listed: int) -> tuple[RetryWindow, ...]:
    """Return the retry windows of the next day, the current one first."""
    windows: list[RetryWindow] = []
    at = now
    while at < now + DAY and len(windows) < WINDOWS_MAX:
        window = policy.retry_window(at, listed)
        if window is None or window.closes_at <= at:
            break
        windows.append(window)
        at = window.closes_at
    return tuple(windows)
