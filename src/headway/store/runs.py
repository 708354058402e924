"""Requested runs: a short queue; one server takes each under a lease.

The next server that checks fails a run whose lease has expired. It is not retried, since
its client may be gone.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from headway.core.runs import Run, RunKind, RunStatus
from headway.errors import ConflictError, NotFoundError
from headway.store import cursors
from headway.store.pool import Pool, guarded

OPEN_MAX = 20
LOST = "the server that ran it has ended; ask again"

COLUMNS = """id::text, kind, request, status, progress, result, error, output AS said,
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
UPDATE runs SET status = %(status)s, result = %(result)s, error = %(error)s, output = %(said)s,
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


class Runs:
    """The rows of `runs`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

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
        added = self._one(ADD, values)
        if added is None:
            raise ConflictError(f"{OPEN_MAX} runs are waiting already; wait for one, or cancel it")
        return added

    def find(self, id_: str) -> Run:
        """Return a run with its result; raises NotFoundError."""
        run = self._one(ONE, {"id": id_})
        if run is None:
            raise NotFoundError("there is no such run; see /api/runs")
        return run

    def newest(self, *, limit: int, cursor: str | None = None) -> list[Run]:
        """Return runs without their results, the newest first, from a cursor on."""
        at, id_ = (None, None) if cursor is None else cursors.decode(cursor, datetime, str)
        values = {"at": at, "after": id_, "limit": limit}
        return [_run(row) for row in self._rows(SOME, values)]

    def claim(self, owner: str, *, lease: timedelta, now: datetime) -> Run | None:
        """Claim the run that has waited longest, if any; fail runs with an expired lease first."""
        with guarded(), self._pool.connection() as connection:
            connection.execute(FAIL_LOST, {"error": LOST, "now": now})
        return self._one(CLAIM, {"owner": owner, "until": now + lease, "now": now})

    def report(
        self, id_: str, owner: str, progress: float, *, lease: timedelta, now: datetime
    ) -> bool:
        """Store the progress; return False if the run was cancelled or the lease was lost."""
        values = {"id": id_, "owner": owner, "progress": progress, "until": now + lease}
        with guarded(), self._pool.connection() as connection:
            return connection.execute(REPORT, values).rowcount > 0

    def finish(
        self,
        id_: str,
        owner: str,
        *,
        result: object = None,
        error: str = "",
        said: str = "",
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
            "said": said,
            "exit_code": exit_code,
            "now": now,
        }
        with guarded(), self._pool.connection() as connection:
            return connection.execute(FINISH, values).rowcount > 0

    def cancel(self, id_: str, *, now: datetime) -> Run:
        """Stop a run; raises NotFoundError, and ConflictError for one that is over."""
        cancelled = self._one(CANCEL, {"id": id_, "now": now})
        if cancelled is None:
            raise ConflictError(f"the run is over: {self.find(id_).status}")
        return cancelled

    def forget(self, before: datetime) -> int:
        """Remove runs that were over before that instant; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(FORGET, {"before": before}).rowcount

    def _one(self, statement: str, values: Mapping[str, Any]) -> Run | None:
        rows = self._rows(statement, values)
        return _run(rows[0]) if rows else None

    def _rows(self, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        with (
            guarded(),
            self._pool.connection() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            return cursor.execute(statement, values).fetchall()


def cursor_of(run: Run) -> str:
    """Return the cursor of the page after this run."""
    return cursors.encode(run.created_at, run.id)


def _run(row: dict[str, Any]) -> Run:
    result = row["result"]
    columns = {
        "kind": RunKind(row["kind"]),
        "status": RunStatus(row["status"]),
        "result": json.loads(result) if isinstance(result, str) else result,
    }
    return Run(**{**row, **columns})
