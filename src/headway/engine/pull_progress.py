"""See that a run ends: one that asks for, or gets, the same again and again makes no progress."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from headway.core.accounts.jobs import Job, JobType
from headway.core.accounts.pagination import RUN, Cursor, PageRequest, PageStep

TRACE, STUCK = "trace", "stuck"
# Rows that move make a walk read a few pages twice; more than so many repeats are no accident.
REPEATS_MAX = 30
RECENT_MAX, CIRCLE_WEIGHT = 16, 10
# A run that has an estimate may need so many times as much, and no more.
CALLS_MIN, CALLS_FACTOR = 2_000, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A step with its trace; `reason` if the run must end: then the next begins from the start.

    `failures` counts the runs in a row that ended so, whatever they read.
    """

    step: PageStep
    reason: str = ""
    failures: int = 0


def without_trace(cursor: Cursor) -> Cursor:
    """Return what a paginator knows of a cursor."""
    return {name: value for name, value in cursor.items() if name != STUCK}


def with_failures(cursor: Cursor, earlier: Cursor) -> Cursor:
    """Return the cursor of a run with the number of runs before it that did not end."""
    count = earlier.get(STUCK, 0)
    if not count or TRACE in cursor[RUN]:
        return cursor
    return {**cursor, RUN: {**cursor[RUN], TRACE: {STUCK: count}}}


def followed(
    job: Job, cursor: Cursor, ask: PageRequest, step: PageStep, rows: Sequence[str]
) -> Progress:
    """Return the step with a trace of the requests so far, and whether the run must end.

    `rows` are the ids that the page brought.
    """
    if step.is_done or not step.is_progress:
        return Progress(step=_traced(step, cursor[RUN].get(TRACE)))
    trace = _after(cursor[RUN].get(TRACE) or {}, ask, rows)
    reason = ""
    if trace["repeats"] > REPEATS_MAX:
        reason = f"no progress: {ask.what} was asked for again {trace['repeats']} times"
    elif trace["echoes"] > REPEATS_MAX:
        reason = f"no progress: {ask.what} was asked for again and brought the same rows"
    calls_max = max(CALLS_MIN, CALLS_FACTOR * job.calls_estimate)
    if job.type is not JobType.BACKFILL and not job.is_first and job.run_calls > calls_max:
        reason = f"no end after {job.run_calls} calls"
    if not reason:
        return Progress(step=_traced(step, trace))
    failures = trace.get(STUCK, 0)
    lasting = {name: value for name, value in step.cursor.items() if name != RUN}
    ended = replace(step, cursor={**lasting, STUCK: failures + 1}, is_progress=False)
    return Progress(step=ended, reason=reason, failures=failures)


def _traced(step: PageStep, trace: Mapping[str, Any] | None) -> PageStep:
    if trace is None or RUN not in step.cursor:
        return step
    return replace(step, cursor={**step.cursor, RUN: {**step.cursor[RUN], TRACE: trace}})


def _after(trace: Mapping[str, Any], ask: PageRequest, rows: Sequence[str]) -> dict[str, Any]:
    """Return the trace after a request: the last ones, and one of long ago for long circles.

    Other requests that bring the same rows are counted too: a list may answer the same to all.
    """
    digest = _digest([ask.what, dict(ask.values)])
    shown = _digest([ask.what, sorted(rows)]) if rows else ""
    recent, count = trace.get("recent", []), trace.get("count", 0) + 1
    # A long circle comes by its anchor seldom, but then a whole circle was repeated.
    weight = 1 if digest in recent else CIRCLE_WEIGHT * (digest == trace.get("anchor"))
    is_power_of_two = count & (count - 1) == 0
    return {
        **trace,
        "recent": [*recent, digest][-RECENT_MAX:],
        "anchor": digest if is_power_of_two else trace.get("anchor"),
        "count": count,
        "repeats": trace.get("repeats", 0) + weight,
        "shown": shown,
        "echoes": trace.get("echoes", 0) + (shown != "" and shown == trace.get("shown")),
    }


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:8]
