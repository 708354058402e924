"""Runs the steps of the housekeeping so that one that fails stops no other."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from headway.engine.ports import HousekeepingPort
from headway.errors import HeadwayError, StoreUnavailableError

LOG = logging.getLogger(__name__)
RETRY_MIN = timedelta(seconds=30)
RETRY_MAX = timedelta(hours=1)
RECORD_EVERY = timedelta(minutes=1)


class StepRunner:
    """Runs steps by name, and records which of them fail and since when.

    A step that fails is run again with back-off. Without a database no step can succeed, so that
    ends the round, and every step stays due.
    """

    def __init__(self, records: HousekeepingPort) -> None:
        self._records = records
        self._failures: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        # Steps that succeeded here before; the record may show others as failing, from a process
        # that is gone.
        self._known: set[str] = set()
        self._recovered: set[str] = set()
        self._record_at: datetime | None = None

    def run(self, name: str, step: Callable[[datetime], datetime], now: datetime) -> datetime:
        """Run a step that returns when it is next due; return when to run it again."""
        try:
            due_at = step(now)
        except StoreUnavailableError:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, HeadwayError) else repr(error)
            # The traceback of a refused statement may show a seller's rows.
            is_bug = not isinstance(error, HeadwayError)
            LOG.log(logging.ERROR, "housekeeping: %s failed: %s", name, reason, exc_info=is_bug)
            failures = self._failures.get(name, 0) + 1
            self._failures[name] = failures
            self._errors[name] = reason.partition("\n")[0]
            return now + min(RETRY_MIN * (1 << min(failures - 1, 10)), RETRY_MAX)
        if self._failures.pop(name, 0) or name not in self._known:
            self._known.add(name)
            self._recovered.add(name)
        return due_at

    def finish_round(self, now: datetime) -> None:
        """Record that a round was made and what failed in it, once a minute if nothing did."""
        is_due = self._record_at is None or now >= self._record_at
        if is_due or self._errors or self._recovered:
            recovered, self._recovered = self._recovered, set()
            errors, self._errors = self._errors, {}
            self._records.record_round(now, succeeded=recovered, errors=errors)
            self._record_at = now + RECORD_EVERY
