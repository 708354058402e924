"""Requested runs: a short queue; one server takes each under a lease.

The next server that checks fails a run whose lease has expired. It is not retried, since
its client may be gone.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from headway.core.runs import Run, RunKind, RunStatus
from headway.errors import ConflictError, NotFoundError
from headway.store import cursors
from headway.store.queries import Queries

OPEN_MAX = 20
LOST = "the server that ran it has ended; ask again"

COLUMNS = """id::text, kind, request, status, progress, result, error, output AS message,
  exit_code, actor, created_at, started_at, finished_at"""
# Two that ask at once may pass the bound by one; it keeps a loop from filling the table.
ADD = f"""
INSERT INTO runs (id, kind, request, actor, created_at)
SELECT %(id)s::uuid, %(kind)s, %(request)s, %(actor)s, %(now)s
WHERE (SELECT count(*) FROM runs WHERE status IN ('queued', 'running')) < %(most)s
RETURNING {COLUMNS}
"""
ONE = f"SELECT {COLUMNS} FROM runs WHERE id::text = %(id)s"
# Results are long; a list leaves them out.
SOME = f"""
SELECT {COLUMNS.replace("result,", "NULL AS result,")} FROM runs
WHERE %(at)s::timestamptz IS NULL OR (created_at, id::text) < (%(at)s, %(after)s)
ORDER BY created_at DESC, id DESC LIMIT %(limit)s
"""
FAIL_LOST = """
UPDATE runs SET status = 'failed', error = %(error)s, finished_at = %(now)s, lease_owner = NULL,
  lease_until = NULL
WHERE status = 'running' AND lease_until < %(now)s
"""
CLAIM = f"""
UPDATE runs SET status = 'running', started_at = %(now)s, lease_owner = %(owner)s,
  lease_until = %(until)s
WHERE id = (SELECT id FROM runs WHERE status = 'queued' ORDER BY created_at, id
            LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING {COLUMNS}
"""
REPORT = """
UPDATE runs SET progress = greatest(progress, %(progress)s), lease_until = %(until)s
WHERE id::text = %(id)s AND status = 'running' AND lease_owner = %(owner)s
"""
FINISH = """
UPDATE runs SET status = %(status)s, result = %(result)s, error = %(error)s, output = %(message)s,
  exit_code = %(exit_code)s,
  progress = CASE WHEN %(status)s = 'done' THEN 1 ELSE progress END,
  finished_at = %(now)s, lease_owner = NULL, lease_until = NULL
WHERE id::text = %(id)s AND status = 'running' AND lease_owner = %(owner)s
"""
CANCEL = f"""
UPDATE runs SET status = 'cancelled', finished_at = %(now)s, lease_owner = NULL, lease_until = NULL
WHERE id::text = %(id)s AND status IN ('queued', 'running') RETURNING {COLUMNS}
"""
FORGET = "DELETE FROM runs WHERE finished_at < %(before)s"


class Runs(Queries):
    """The rows of `runs`."""

    def add(
        self, id_: str, kind: RunKind, request: Mapping[str, Any], *, actor: str, now: datetime
    ) -> Run:
        """Queue a run; raises ConflictError while too many wait."""
        values = {
            "id": id_,
            "kind": kind.value,
            "request": Jsonb(dict(request)),
            "actor": actor,
            "now": now,
            "most": OPEN_MAX,
        }
        added = self._find(_run, ADD, values)
        if added is None:
            raise ConflictError(f"{OPEN_MAX} runs are waiting already; wait for one, or cancel it")
        return added

    def find(self, id_: str) -> Run:
        """Return a run with its result; raises NotFoundError."""
        run = self._find(_run, ONE, {"id": id_})
        if run is None:
            raise NotFoundError("there is no such run; see /api/runs")
        return run

    def newest(self, *, limit: int, cursor: str | None = None) -> list[Run]:
        """Return runs without their results, the newest first, from a cursor on."""
        at, id_ = (None, None) if cursor is None else cursors.decode(cursor, datetime, str)
        values = {"at": at, "after": id_, "limit": limit}
        return self._read(_run, SOME, values)

    def claim(self, owner: str, *, lease: timedelta, now: datetime) -> Run | None:
        """Claim the run that has waited longest, if any; fail runs with an expired lease first."""
        self._write(FAIL_LOST, {"error": LOST, "now": now})
        return self._find(_run, CLAIM, {"owner": owner, "until": now + lease, "now": now})

    def report(
        self, id_: str, owner: str, progress: float, *, lease: timedelta, now: datetime
    ) -> bool:
        """Store the progress; return False if the run was cancelled or the lease was lost."""
        values = {"id": id_, "owner": owner, "progress": progress, "until": now + lease}
        return self._write(REPORT, values) > 0

    def finish(
        self,
        id_: str,
        owner: str,
        *,
        result: object = None,
        error: str = "",
        message: str = "",
        exit_code: int | None = None,
        now: datetime,
    ) -> bool:
        """Store the result, or the error; return False if the lease was lost."""
        values = {
            "id": id_,
            "owner": owner,
            "status": RunStatus.FAILED if error else RunStatus.DONE,
            # Stored as text inside jsonb, which does not keep the order of a report's keys.
            "result": None if result is None else Jsonb(json.dumps(result)),
            "error": error,
            "message": message,
            "exit_code": exit_code,
            "now": now,
        }
        return self._write(FINISH, values) > 0

    def cancel(self, id_: str, *, now: datetime) -> Run:
        """Stop a run; raises NotFoundError, and ConflictError for one that is over."""
        cancelled = self._find(_run, CANCEL, {"id": id_, "now": now})
        if cancelled is None:
            raise ConflictError(f"the run has ended: {self.find(id_).status}")
        return cancelled

    def forget(self, before: datetime) -> int:
        """Remove runs that were over before that instant; return how many."""
        return self._write(FORGET, {"before": before})


def cursor_of(run: Run) -> str:
    """Return the cursor of the page after this run."""
    return cursors.encode(run.created_at, run.id)


def _run(**row: Any) -> Run:  # noqa: ANN401 - the columns
    result = row["result"]
    columns = {
        "kind": RunKind(row["kind"]),
        "status": RunStatus(row["status"]),
        "result": json.loads(result) if isinstance(result, str) else result,
    }
    return Run(**{**row, **columns})
