"""The rows of `dispatch_leases`: which subjects have a message or a worker, and until when.

On a real clock the server's time counts, so that hosts with different clocks agree.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headway.clock import Clock
from headway.core.dispatch import DispatchLease, Subject, Verb, WorkerState, subject_of
from headway.store.pool import Pool
from headway.store.queries import Queries

STATE: TypeAdapter[WorkerState] = TypeAdapter(WorkerState)
NOW = "coalesce(%(now)s::timestamptz, clock_timestamp())"

# In one order, so that two callers that take many at once do not deadlock.
TAKE = f"""
INSERT INTO dispatch_leases AS lease (verb, subject, until)
SELECT verb, subject, {NOW} + %(life)s
FROM unnest(%(verbs)s::text[], %(subjects)s::text[]) AS requested (verb, subject)
ORDER BY verb, subject
ON CONFLICT (verb, subject) DO UPDATE SET until = excluded.until WHERE lease.until <= {NOW}
RETURNING verb, subject, fence
"""
# The carried state goes to the worker that takes the lease: it must never be used twice.
TAKE_UP = f"""
WITH before AS (
  SELECT verb, subject, carried FROM dispatch_leases
  WHERE verb = %(verb)s AND subject = %(subject)s AND fence = %(fence)s FOR NO KEY UPDATE
)
UPDATE dispatch_leases AS lease SET fence = fence + 1, until = {NOW} + %(life)s, carried = NULL
FROM before WHERE lease.verb = before.verb AND lease.subject = before.subject
RETURNING lease.fence, before.carried
"""
KEEP = f"""
UPDATE dispatch_leases AS lease SET until = {NOW} + %(life)s
FROM unnest(%(verbs)s::text[], %(subjects)s::text[], %(fences)s::bigint[])
  AS ours (verb, subject, fence)
WHERE lease.verb = ours.verb AND lease.subject = ours.subject AND lease.fence = ours.fence
"""
REST = f"""
UPDATE dispatch_leases SET until = {NOW} + %(wait)s, carried = %(carried)s::jsonb
WHERE verb = %(verb)s AND subject = %(subject)s AND fence = %(fence)s
"""
WAKING = f"""
SELECT verb, subject FROM dispatch_leases WHERE carried IS NOT NULL AND until <= {NOW}
ORDER BY until LIMIT %(limit)s
"""
NEXT_IN = f"SELECT min(until) - {NOW} FROM dispatch_leases WHERE carried IS NOT NULL"
LIVING = f"SELECT verb, subject FROM dispatch_leases WHERE verb = %(verb)s AND until > {NOW}"
FORGET = "DELETE FROM dispatch_leases WHERE until < %(before)s"


def is_resting(verb: Verb, subject: str) -> str:
    """Return the condition that a subject, an expression, needs no message at `%(now)s`."""
    return f"""EXISTS (SELECT FROM dispatch_leases AS lease WHERE lease.verb = '{verb}'
    AND lease.subject = {subject} AND lease.until > %(now)s)"""


class DispatchLeases(Queries):
    """Table `dispatch_leases` behind the engine's port."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        super().__init__(pool)
        self._clock = clock

    def take(self, subjects: Sequence[Subject], *, life: timedelta) -> list[DispatchLease]:
        """Take the leases of subjects without a message; each may be sent one now."""
        rows = self._ask(TAKE, **_columns(subjects), life=life) if subjects else []
        return [
            DispatchLease(subject=subject_of(verb, subject), fence=fence)
            for verb, subject, fence in rows
        ]

    def take_up(self, dispatch_lease: DispatchLease, *, life: timedelta) -> DispatchLease | None:
        """Take the lease that a message names, under a new fence; None if the message is old."""
        rows = self._ask(TAKE_UP, **_key(dispatch_lease), life=life)
        if not rows:
            return None
        ((fence, state),) = rows
        return DispatchLease(subject=dispatch_lease.subject, fence=fence, state=_read(state))

    def keep(self, dispatch_leases: Collection[DispatchLease], *, life: timedelta) -> int:
        """Extend leases; return how many are still held."""
        values = _columns([lease.subject for lease in dispatch_leases])
        fences = [lease.fence for lease in dispatch_leases]
        return self._write(KEEP, {**values, "fences": fences, "life": life, "now": self._now()})

    def rest(
        self, dispatch_lease: DispatchLease, *, wait: timedelta, state: WorkerState | None = None
    ) -> bool:
        """Release a lease until then, with state to carry over; return False if it was lost."""
        dumped = None if state is None else STATE.dump_json(state).decode()
        values = {**_key(dispatch_lease), "wait": wait, "carried": dumped, "now": self._now()}
        return self._write(REST, values) > 0

    def waking(self, *, limit: int) -> list[Subject]:
        """Return due leases with carried state, the longest due first."""
        return [subject_of(verb, subject) for verb, subject in self._ask(WAKING, limit=limit)]

    def next_in(self) -> timedelta | None:
        """Return the time until the next lease with carried state is due; None if there is none."""
        ((wait,),) = self._ask(NEXT_IN)
        return None if wait is None else max(timedelta(0), wait)

    def living(self, verb: Verb) -> list[Subject]:
        """Return the leases of a verb that need no message now."""
        return [subject_of(*row) for row in self._ask(LIVING, verb=verb.value)]

    def forget(self, before: datetime) -> int:
        """Delete leases that were not used since then; return how many."""
        return self._write(FORGET, {"before": before})

    def _ask(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        return self._rows(statement, {**values, "now": self._now()})

    def _now(self) -> datetime | None:
        return None if self._clock.is_real else self._clock.now()


def _key(dispatch_lease: DispatchLease) -> dict[str, Any]:
    subject = dispatch_lease.subject
    return {"verb": subject.verb.value, "subject": subject.name, "fence": dispatch_lease.fence}


def _columns(subjects: Sequence[Subject]) -> dict[str, Any]:
    return {
        "verbs": [subject.verb.value for subject in subjects],
        "subjects": [subject.name for subject in subjects],
    }


def _read(stored: object) -> WorkerState | None:
    """Decode carried state; return None for what another version wrote and this one cannot read."""
    try:
        return None if stored is None else STATE.validate_python(stored)
    except ValidationError:
        return None
