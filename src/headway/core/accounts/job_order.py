"""The order in which jobs are listed, and where a page of a list goes on.

Due jobs come first, best first, then coming ones, soonest first. Each platform and score is a queue
of its own in one index, so the last job of a page says, for each score, where the next one starts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headway.core.accounts.jobs import SCORES, JobStatus
from headway.core.accounts.reasons import JobPosition, JobQueueState, aged

BEFORE_ALL = datetime(1, 1, 1, tzinfo=UTC)
FIRST_ID, LAST_ID = "0" * 32, "f" * 32


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMark:
    """The job a page ended with, as it was then."""

    score: int
    due_at: datetime | None
    started_at: datetime | None
    changed_at: datetime | None
    id: str

    def is_coming(self, now: datetime) -> bool:
        """Return True if the job is queued for later and not yet due."""
        return self.due_at is not None and self.due_at > now


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStart:
    """After which job a page starts in the queue of one score."""

    at: datetime
    id: str


def due_order(job: JobPosition, ageing: timedelta) -> tuple[datetime, datetime, str]:
    """Return the sort key of due jobs: a point of score counts as one span of waiting."""
    at = job.next_run_at
    assert at is not None, "a waiting job has a due time"
    return at - job.score * ageing, at, job.id


def coming_order(job: JobPosition, now: datetime) -> tuple[datetime, int, str]:
    """Return the sort key of coming jobs: soonest first, of two at once the higher score."""
    return job.next_run_at or now, -job.score, job.id


def from_start(at: datetime = BEFORE_ALL, id_: str = FIRST_ID) -> dict[int, QueueStart]:
    """Return the same start for every score."""
    return dict.fromkeys(SCORES, QueueStart(at=at, id=id_))


def due_starts(after: JobMark | None, ageing: timedelta) -> dict[int, QueueStart]:
    """Return where each score continues among the due jobs: after jobs of the mark's rank.

    Of two jobs with the same rank, the one that has been due longer (lower score) goes first.
    """
    if after is None or after.due_at is None:
        return from_start()
    return {
        score: QueueStart(
            at=after.due_at + (score - after.score) * ageing,
            id=after.id if score == after.score else FIRST_ID if score > after.score else LAST_ID,
        )
        for score in SCORES
    }


def coming_starts(after: JobMark) -> dict[int, QueueStart]:
    """Return where each score continues among the coming jobs; of two at once the higher first."""
    assert after.due_at is not None, "a coming job has a due time"
    return {
        score: QueueStart(
            at=after.due_at,
            id=after.id if score == after.score else FIRST_ID if score < after.score else LAST_ID,
        )
        for score in SCORES
    }


def ahead_before(
    job: JobPosition, queue: JobQueueState, now: datetime, scores: Iterable[int]
) -> list[datetime]:
    """Return, for each score, before which instant a job must be due to go ahead of this one."""
    rank = aged(job, queue, now)
    return [now - (rank - score) * queue.ageing for score in scores]


def place(job: JobPosition, now: datetime) -> int | None:
    """Return the place of a due job in the queue, from 1; None for others and where unknown."""
    is_placed = job.is_due(now) and job.ahead_count is not None
    return (job.ahead_count or 0) + 1 if is_placed else None


def list_order(
    status: JobStatus, place: int | None, due_at: datetime | None, name: str, now: datetime
) -> tuple[int, int, datetime, str]:
    """Return the sort key of a seller's jobs: running, due, coming, ended."""
    if status is JobStatus.RUNNING:
        group = 0
    elif place:
        group = 1
    else:
        group = 2 if due_at is not None else 3
    return group, place or 0, due_at or now, name
