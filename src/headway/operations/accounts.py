"""The part of a desk that is about accounts and their jobs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from headway.app import App
from headway.core.accounts.jobs import DataKind, JobStatus, PlatformName
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, NotFoundError
from headway.store.accounts.job_list import JobView, is_job_name
from headway.store.accounts.job_rows import JobRows
from headway.store.accounts.status import AccountView, SellerView
from headway.store.limits.quotas import Budget

JOBS_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """A seller's jobs as they stand now, and the ids of those that were made due."""

    made_due: frozenset[str]
    jobs: list[JobView]


class AccountOperations:
    """Accounts and jobs, of everybody or behind a seller's wall.

    A place in the queue is a place among everybody's jobs, so those are looked at over the wall.
    """

    def __init__(self, whole: App, own: App, *, seller: SellerId | None) -> None:
        self._whole = whole
        self._app = own
        self._seller = seller

    @property
    def now(self) -> datetime:
        """The instant, by the clock of the deployment."""
        return self._whole.clock.now()

    def accounts(
        self,
        *,
        seller: SellerId | None = None,
        platform: PlatformName | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[AccountView, ...]:
        """Return accounts, those that need a person first, from a cursor on."""
        whose = self._whose(seller)
        return self._app.account_queries.accounts(
            user_id=whose, platform=platform, limit=limit, cursor=cursor
        )

    def sellers(self, user_ids: Collection[SellerId]) -> tuple[SellerView, ...]:
        """Return what these sellers have used of the month's orders."""
        return self._app.account_queries.sellers(self.now, user_ids)

    def jobs(
        self,
        *,
        seller: SellerId | None = None,
        platform: PlatformName | None = None,
        status: JobStatus | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> list[JobView]:
        """Return jobs in the order in which they run, each with what blocks it, from a cursor."""
        return self._whole.account_queries.jobs(
            self.now,
            user_id=self._whose(seller),
            platform=platform,
            status=status,
            limit=limit,
            cursor=cursor,
        )

    def places(self, jobs: Sequence[JobView]) -> list[int]:
        """Return the place of each in everybody's queue, the due ones first, up to a bound."""
        return self._whole.account_queries.places(self.now, jobs)

    def account_jobs(self, account_id: str) -> list[JobView]:
        """Return the jobs of one account; raises NotFoundError."""
        found = self._whole.account_queries.of_account(self.now, account_id, user_id=self._seller)
        if found is None:
            raise NotFoundError("there is no such account; see: headway shops, or /api/accounts")
        return found

    def job(self, name: str) -> JobView:
        """Return a job by its id or seller/platform/kind; raises NotFoundError."""
        found = self._whole.account_queries.job(self.now, name) if is_job_name(name) else None
        if found is not None and self._seller in {None, found.user_id}:
            return found
        user_id = SellerId(name.partition("/")[0])
        if "/" not in name or self._seller not in {None, user_id}:
            raise NotFoundError("there is no such job; see: headway jobs, or /api/jobs")
        theirs = self._whole.account_queries.jobs(self.now, user_id=user_id, limit=JOBS_MAX)
        names = [each.name for each in theirs]
        has = f"{user_id} has {', '.join(sorted(names))}" if names else "see: headway jobs"
        raise NotFoundError(f"there is no such job; {has}")

    def quotas(self) -> tuple[Budget, ...]:
        """Return the day of each platform that has a quota, and what the next one will bring."""
        return self._whole.account_queries.budgets(self.now)

    def revive(self, names: Sequence[str]) -> list[JobView]:
        """Queue dead jobs again; raises RequestError before anything is done."""
        now, rows = self.now, JobRows(self._app.pool)
        found = [self.job(name) for name in dict.fromkeys(names)]
        for each in found:
            if each.status is not JobStatus.DEAD:
                raise ConflictError(f"{each.name} is not dead: {each.reason}")
        for each in found:
            rows.revive(each.id, user_id=self._seller, now=now)
        return [self.job(each.id) for each in found]

    def run(self, name: str) -> JobView:
        """Make a job due now; it still waits for its turn, its budget and its shop."""
        found = self.job(name)
        rows = JobRows(self._app.pool)
        if not rows.hurry([found.id], user_id=self._seller, now=self.now):
            raise ConflictError(f"{found.name} cannot be made due: {found.reason}")
        return self.job(found.id)

    def pull(
        self,
        seller: SellerId,
        *,
        platform: PlatformName | None = None,
        kind: DataKind | None = None,
    ) -> Pulled:
        """Make a seller's jobs due now; those that run, are dead or cancelled stay as they are."""
        whose = self._whose(seller)
        assert whose is not None
        found = self.jobs(seller=whose, platform=platform, limit=JOBS_MAX)
        wanted = [each.id for each in of_kind(found, whose, platform, kind)]
        made = JobRows(self._app.pool).hurry(wanted, user_id=whose, now=self.now)
        after = self.jobs(seller=whose, platform=platform, limit=JOBS_MAX)
        return Pulled(made_due=frozenset(made), jobs=of_kind(after, whose, platform, kind))

    def _whose(self, asked: SellerId | None) -> SellerId | None:
        return self._seller or self._app.sellers.known(asked)


def of_kind(
    found: Sequence[JobView], seller: SellerId, platform: PlatformName | None, kind: DataKind | None
) -> list[JobView]:
    """Return a seller's jobs of one kind; raises NotFoundError if there are none."""
    wanted = [each for each in found if kind in {None, each.kind}]
    if not wanted:
        where = f" on {platform}" if platform else ""
        what = f" of {kind}" if kind else ""
        raise NotFoundError(f"{seller} has no job{what}{where}; see: headway shops")
    return wanted
