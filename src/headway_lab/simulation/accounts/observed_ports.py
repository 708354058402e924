"""Ports of a simulated pull worker that report every operation to the law checks.

Each operation is done and checked, and only then may the worker crash. So the checks never miss
what a crashed worker had done.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

import httpx

from headway.core.accounts.jobs import Account, Job, JobStatus, PlatformName
from headway.core.accounts.pagination import Page, PageStep
from headway.core.limits.transitions import Permit
from headway.engine import ports
from headway_lab.simulation.accounts.laws import AccountLaws
from headway_lab.simulation.crashes import FaultInjector


class ObservedJobs:
    """The jobs as one worker uses them, under observation."""

    def __init__(
        self,
        inner: ports.JobsPort,
        laws: AccountLaws,
        injector: FaultInjector,
        *,
        lost: Callable[[Account, str], None],
        check_budget: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._laws = laws
        self._injector = injector
        self._lost = lost
        self._check_budget = check_budget

    def claim(
        self, *, now: datetime, owner: str, without: Collection[PlatformName] = ()
    ) -> tuple[Job, Permit | None] | None:
        """Claim a job, and check the claim."""
        self._injector.before_claim()
        self._injector.may_crash()
        claimed = self._inner.claim(now=now, owner=owner, without=without)
        if claimed is not None:
            self._laws.claimed(claimed[0])
            self._check_budget()
        self._injector.may_crash()
        return claimed

    def keep(self, job: Job, *, now: datetime) -> bool:
        """Renew a lease."""
        self._injector.may_crash()
        return self._inner.keep(job, now=now)

    def commit(
        self, job: Job, page: Page, step: PageStep, *, calls: int, asked_at: datetime, now: datetime
    ) -> Job | None:
        """Commit a page, and check whether it was accepted."""
        self._injector.may_freeze()
        self._injector.may_crash()
        taken = self._inner.commit(job, page, step, calls=calls, asked_at=asked_at, now=now)
        self._laws.committed(job, page, is_taken=taken is not None)
        self._injector.may_crash()
        return taken

    def settle(
        self,
        job: Job,
        status: JobStatus,
        *,
        next_run_at: datetime | None,
        retry_count: int = 0,
        reason: str = "",
        calls: int = 0,
        now: datetime,
    ) -> bool:
        """End a claim, and check how."""
        self._injector.may_freeze()
        self._injector.may_crash()
        is_taken = self._inner.settle(
            job,
            status,
            next_run_at=next_run_at,
            retry_count=retry_count,
            reason=reason,
            calls=calls,
            now=now,
        )
        self._laws.settled(job, status, reason, is_taken=is_taken)
        self._injector.may_crash()
        return is_taken

    def stretch(self, job: Job) -> float:
        """Return how many times its interval a job waits."""
        return self._inner.stretch(job)

    def relax(self, now: datetime) -> int:
        """Make jobs due sooner."""
        return self._inner.relax(now)

    def open_orders(self, account: Account, *, checked_before: datetime, limit: int) -> list[str]:
        """Return open orders that were not looked at for long."""
        self._injector.may_crash()
        return self._inner.open_orders(account, checked_before=checked_before, limit=limit)

    def orders_left(self, account: Account, *, now: datetime) -> int:
        """Return what is left of the month's quota."""
        self._injector.may_crash()
        return self._inner.orders_left(account, now=now)

    def disconnect(self, job: Job, reason: str, *, calls: int = 0, now: datetime) -> bool:
        """Disconnect an account, and notify its seller."""
        self._injector.may_crash()
        is_ours = self._inner.disconnect(job, reason, calls=calls, now=now)
        if is_ours:
            self._lost(job.account, reason)
        self._injector.may_crash()
        return is_ours

    def rescue(self, now: datetime, *, limit: int = 100) -> int:
        """Rescue, and check which jobs."""
        self._injector.may_crash()
        count = self._inner.rescue(now, limit=limit)
        self._laws.rescued_by(count)
        self._injector.may_crash()
        return count


class ObservedPlatformTransport(httpx.BaseTransport):
    """The transports to the platforms; after every request their limits are checked."""

    def __init__(
        self, transports: Mapping[str, httpx.BaseTransport], check: Callable[[], None]
    ) -> None:
        self._transports = transports
        self._check = check

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request to the platform of its host."""
        try:
            return self._transports[request.url.host].handle_request(request)
        finally:
            self._check()
