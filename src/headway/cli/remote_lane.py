"""The part of a server's desk that is about accounts and their jobs."""

from collections.abc import Collection, Sequence
from contextlib import suppress

from headway.cli.remote_requests import ApiRequests, word
from headway.core.accounts.jobs import DataKind, JobStatus, PlatformName
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError
from headway.operations.accounts import JOBS_MAX, Pulled, of_kind
from headway.store.accounts.job_list import JobView
from headway.store.accounts.status import AccountView, SellerView
from headway.store.limits.quotas import Budget

ACCOUNTS, JOBS = "/api/accounts", "/api/jobs"
ACCOUNTS_MAX = 500


class RemoteLane:
    """Accounts and jobs of a server, as far as the key lets us see."""

    def __init__(self, asking: ApiRequests) -> None:
        self._asking = asking

    def accounts(
        self,
        *,
        seller: SellerId | None = None,
        platform: PlatformName | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[AccountView, ...]:
        """Return accounts, those that need a person first, from a cursor on."""
        query = {"seller": seller, "platform": platform, "limit": limit, "cursor": cursor}
        return tuple(self._asking.get(list[AccountView], ACCOUNTS, query, "accounts"))

    def sellers(self, user_ids: Collection[SellerId]) -> tuple[SellerView, ...]:
        """Return what these sellers have used of the month's orders."""
        query = {"limit": ACCOUNTS_MAX}
        found = self._asking.get(list[SellerView], ACCOUNTS, query, "sellers")
        return tuple(each for each in found if each.user_id in user_ids)

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
        query = {
            "seller": seller,
            "platform": platform,
            "status": status,
            "limit": limit,
            "cursor": cursor,
        }
        return self._asking.get(list[JobView], JOBS, query, "jobs")

    def job(self, name: str) -> JobView:
        """Return a job by its id or seller/platform/kind; raises NotFoundError."""
        return self._asking.get(JobView, f"{JOBS}/{word(name)}")

    def quotas(self) -> tuple[Budget, ...]:
        """Return the day of each platform that has a quota, and what the next one will bring."""
        return tuple(self._asking.get(list[Budget], "/api/quotas", key="quotas"))

    def revive(self, names: Sequence[str]) -> list[JobView]:
        """Queue dead jobs again; raises RequestError before anything is done."""
        found = [self.job(name) for name in dict.fromkeys(names)]
        # A job that is not dead is refused; asked for first, it is refused before the others.
        for each in sorted(found, key=lambda each: each.status is JobStatus.DEAD):
            self._asking.post(JobView, f"{JOBS}/{word(each.id)}/revive")
        return [self.job(each.id) for each in found]

    def run(self, name: str) -> JobView:
        """Make a job due now; it still waits for its turn, its budget and its shop."""
        return self._asking.post(JobView, f"{JOBS}/{word(name)}/run")

    def pull(
        self,
        seller: SellerId,
        *,
        platform: PlatformName | None = None,
        kind: DataKind | None = None,
    ) -> Pulled:
        """Make a seller's jobs due now; those that run, are dead or cancelled stay as they are."""
        found = self.jobs(seller=seller, platform=platform, limit=JOBS_MAX)
        made = set()
        for each in of_kind(found, seller, platform, kind):
            with suppress(ConflictError):
                made.add(self.run(each.id).id)
        after = self.jobs(seller=seller, platform=platform, limit=JOBS_MAX)
        return Pulled(made_due=frozenset(made), jobs=of_kind(after, seller, platform, kind))
