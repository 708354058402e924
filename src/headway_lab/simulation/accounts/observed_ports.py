"""Ports of a simulated pull worker that report every operation to the law checks.

Each operation is done and checked, and only then may the worker crash. So the checks never miss
what a crashed worker had done.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

import httpx

from headway.core.accounts.jobs import Account, Job, JobStatus, PlatformName
from headway.core.accounts.pagination import Page, PageStep
from headway.core.limits.transitions import Permit
from headway.engine import ports
from headway_lab.simulation.accounts.laws import AccountLaws
from headway_lab.simulation.crashes import CrashingPort, FaultInjector


class ObservedJobs(CrashingPort):
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
        super().__init__(inner, injector)
        self._laws = laws
        self._lost = lost
        self._check_budget = check_budget

    def claim(
        self, *, now: datetime, owner: str, without: Collection[PlatformName] = ()
    ) -> tuple[Job, Permit | None] | None:
        """Claim a job, and check the claim."""
        with self._may_crash(claims=True):
            claimed: tuple[Job, Permit | None] | None = self._inner.claim(
                now=now, owner=owner, without=without
            )
            if claimed is not None:
                self._laws.claimed(claimed[0])
                self._check_budget()
        return claimed

    def commit(self, job: Job, page: Page, step: PageStep, **more: Any) -> Job | None:  # noqa: ANN401 - as the port
        """Commit a page, and check whether it was accepted."""
        with self._may_crash(freezes=True):
            taken: Job | None = self._inner.commit(job, page, step, **more)
            self._laws.committed(job, page, is_taken=taken is not None)
        return taken

    def settle(self, job: Job, status: JobStatus, *, reason: str = "", **more: Any) -> bool:  # noqa: ANN401 - as the port
        """End a claim, and check how."""
        with self._may_crash(freezes=True):
            is_taken: bool = self._inner.settle(job, status, reason=reason, **more)
            self._laws.settled(job, status, reason, is_taken=is_taken)
        return is_taken

    def stretch(self, job: Job) -> float:
        """Return how many times its interval a job waits; no worker crashes here."""
        stretch: float = self._inner.stretch(job)
        return stretch

    def disconnect(self, job: Job, reason: str, *, calls: int = 0, now: datetime) -> bool:
        """Disconnect an account, and notify its seller."""
        with self._may_crash():
            is_ours: bool = self._inner.disconnect(job, reason, calls=calls, now=now)
            if is_ours:
                self._lost(job.account, reason)
        return is_ours

    def rescue(self, now: datetime, *, limit: int = 100) -> int:
        """Rescue, and check which jobs."""
        with self._may_crash():
            count: int = self._inner.rescue(now, limit=limit)
            self._laws.rescued_by(count)
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
