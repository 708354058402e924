"""The rows of `dispatch_leases`: who has a message under way, until when, and what waits with it.

On a real clock the server's own time counts, so that hosts whose clocks are apart agree.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headway.clock import Clock
from headway.core.dispatch import Carried, DispatchLease, Subject, Verb, subject_of
from headway.store.pool import Pool, guarded

CARRIED: TypeAdapter[Carried] = TypeAdapter(Carried)
NOW = "coalesce(%(now)s::timestamptz, clock_timestamp())"

# In one order, so that two who take many at once do not wait for each other in a ring.
TAKE = f"""
INSERT INTO dispatch_leases AS baton (verb, subject, until)
SELECT verb, subject, {NOW} + %(life)s
FROM unnest(%(verbs)s::text[], %(subjects)s::text[]) AS wanted (verb, subject)
ORDER BY verb, subject
ON CONFLICT (verb, subject) DO UPDATE SET until = excluded.until WHERE baton.until <= {NOW}
RETURNING verb, subject, fence
"""
# What is carried goes with who takes it up: it must never be in two hands.
TAKE_UP = f"""
WITH before AS (
  SELECT verb, subject, carried FROM dispatch_leases
  WHERE verb = %(verb)s AND subject = %(subject)s AND fence = %(fence)s FOR NO KEY UPDATE
)
UPDATE dispatch_leases AS baton SET fence = fence + 1, until = {NOW} + %(life)s, carried = NULL
FROM before WHERE baton.verb = before.verb AND baton.subject = before.subject
RETURNING baton.fence, before.carried
"""
KEEP = f"""
UPDATE dispatch_leases AS baton SET until = {NOW} + %(life)s
FROM unnest(%(verbs)s::text[], %(subjects)s::text[], %(fences)s::bigint[])
  AS ours (verb, subject, fence)
WHERE baton.verb = ours.verb AND baton.subject = ours.subject AND baton.fence = ours.fence
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
    return f"""EXISTS (SELECT FROM dispatch_leases AS baton WHERE baton.verb = '{verb}'
    AND baton.subject = {subject} AND baton.until > %(now)s)"""


class DispatchLeases:
    """Table `dispatch_leases` behind the engine's port."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    def take(self, subjects: Sequence[Subject], *, life: timedelta) -> list[DispatchLease]:
        """Take the batons of those that have no message under way; each may be sent one now."""
        rows = self._ask(TAKE, **_columns(subjects), life=life) if subjects else []
        return [
            DispatchLease(subject=subject_of(verb, subject), fence=fence)
            for verb, subject, fence in rows
        ]

    def take_up(self, dispatch_lease: DispatchLease, *, life: timedelta) -> DispatchLease | None:
        """Take up what a message named, under a new fence; None if the message is an old one."""
        rows = self._ask(TAKE_UP, **_key(dispatch_lease), life=life)
        if not rows:
            return None
        ((fence, carried),) = rows
        return DispatchLease(subject=dispatch_lease.subject, fence=fence, carried=_read(carried))

    def keep(self, dispatch_leases: Collection[DispatchLease], *, life: timedelta) -> int:
        """Say that whoever has these is alive; return how many are still theirs."""
        values = _columns([lease.subject for lease in dispatch_leases])
        fences = [lease.fence for lease in dispatch_leases]
        with guarded(), self._pool.connection() as connection:
            bound = {**values, "fences": fences, "life": life, "now": self._now()}
            return connection.execute(KEEP, bound).rowcount

    def rest(
        self, dispatch_lease: DispatchLease, *, wait: timedelta, carried: Carried | None = None
    ) -> bool:
        """Lay it down until then, with what is carried; False if it is no longer ours."""
        state = None if carried is None else CARRIED.dump_json(carried).decode()
        with guarded(), self._pool.connection() as connection:
            values = {**_key(dispatch_lease), "wait": wait, "carried": state, "now": self._now()}
            return connection.execute(REST, values).rowcount > 0

    def waking(self, *, limit: int) -> list[Subject]:
        """Return those that carry something and whose time has come, the longest due first."""
        return [subject_of(verb, subject) for verb, subject in self._ask(WAKING, limit=limit)]

    def next_in(self) -> timedelta | None:
        """Return how long until the next one that carries something is due; None if none does."""
        ((wait,),) = self._ask(NEXT_IN)
        return None if wait is None else max(timedelta(0), wait)

    def living(self, verb: Verb) -> list[Subject]:
        """Return those of a verb that need no message now."""
        return [subject_of(*row) for row in self._ask(LIVING, verb=verb.value)]

    def forget(self, before: datetime) -> int:
        """Remove those that nobody touched since then; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(FORGET, {"before": before}).rowcount

    def _ask(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        with guarded(), self._pool.connection() as connection:
            return connection.execute(statement, {**values, "now": self._now()}).fetchall()

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


def _read(stored: object) -> Carried | None:
    """Read what was carried; what another version left and this one cannot read is let go."""
    try:
        return None if stored is None else CARRIED.validate_python(stored)
    except ValidationError:
        return None
