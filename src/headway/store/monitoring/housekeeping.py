"""Table `housekeeping`: when the last round was made, and which steps fail."""

from collections.abc import Collection, Mapping
from datetime import datetime

from headway.core.monitoring.metrics import StepMetric
from headway.store.queries import Queries

ROUND = "round"

RECORD_ROUND = """
INSERT INTO housekeeping (step, done_at) VALUES (%(round)s, %(now)s)
ON CONFLICT (step) DO UPDATE SET done_at = greatest(housekeeping.done_at, excluded.done_at)
"""
RECORD_FAILURE = """
INSERT INTO housekeeping AS row (step, failing_since, failures, error)
VALUES (%(step)s, %(now)s, 1, %(error)s)
ON CONFLICT (step) DO UPDATE SET failures = row.failures + 1, error = excluded.error
"""
RECORD_SUCCESSES = "DELETE FROM housekeeping WHERE failures > 0 AND step = ANY (%s)"
LAST_ROUND = "SELECT done_at FROM housekeeping WHERE step = %s"
FAILING = """
SELECT step AS name, failing_since AS since, failures, error FROM housekeeping
WHERE failures > 0 ORDER BY failing_since, step
"""


class Housekeeping(Queries):
    """Which steps of the housekeeping fail, and when the last round was made."""

    def record_round(
        self, now: datetime, *, succeeded: Collection[str], errors: Mapping[str, str]
    ) -> None:
        """Record a round; the steps that succeeded no longer count as failing."""
        self._write(RECORD_ROUND, {"round": ROUND, "now": now})
        if succeeded:
            self._write(RECORD_SUCCESSES, (sorted(succeeded),))
        for step, error in sorted(errors.items()):
            self._write(RECORD_FAILURE, {"step": step, "now": now, "error": error})

    def last_round(self) -> datetime | None:
        """Return when the last round was made; None if there was none yet."""
        row = self._first(LAST_ROUND, (ROUND,))
        return None if row is None else row[0]

    def failing(self) -> list[StepMetric]:
        """Return the steps that fail, the longest first."""
        return self._read(StepMetric, FAILING)
