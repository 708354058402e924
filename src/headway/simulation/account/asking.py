"""Law L13: every hour a few jobs are asked why they wait, and the answer must hold water."""

from headway.app import App
from headway.core.jobs import JobStatus
from headway.simulation.book import LawBook

ASKED = 6
WAITING = (JobStatus.QUEUED, JobStatus.FAILED, JobStatus.LIMITED, JobStatus.COMPLETED)


def ask(app: App, book: LawBook) -> None:
    """Ask the front of the queue and some of every standing: each has a reason and an instant."""
    now = app.clock.now()
    front = app.lane.jobs(now, limit=ASKED)
    others = [each for one in WAITING for each in app.lane.jobs(now, status=one, limit=2)]
    for view in (*front, *others):
        is_history = view.status is JobStatus.COMPLETED and view.due_at is None
        if not view.reason:
            book.broken("L13", f"{view.name} cannot say what blocks it")
        elif view.status in WAITING and not is_history and (view.until is None or view.until < now):
            book.broken("L13", f"{view.name} says {view.reason!r} and no instant to come")
