"""A claim under way: a job, where its run is, what it holds, what it has used."""

from dataclasses import dataclass
from datetime import datetime

from headway.core.accounts.jobs import Job
from headway.core.accounts.pagination import Cursor, Paginator
from headway.core.dispatch import PullClaim
from headway.core.limits.transitions import Permit
from headway.engine.ports import Platform


@dataclass(slots=True, kw_only=True)
class Claim:
    """State of a claimed job in its worker.

    `sent` are the calls of this claim, `untold` those that the store does not know of yet; `spent`
    is what was taken of the day's reservation for them, and is one ahead before a call.
    """

    job: Job
    walk: Paginator
    cursor: Cursor
    day: Permit | None
    opened: Platform | None = None
    permit: Permit | None = None
    sent: int = 0
    untold: int = 0
    spent: int = 0
    waits_since: datetime | None = None
    has_begun: bool = False
    has_refreshed: bool = False
    is_answered: bool = False

    @property
    def platform(self) -> Platform:
        """The platform's connector."""
        assert self.opened is not None, "a step opens it first"
        return self.opened

    @property
    def what(self) -> str:
        """A short description for people."""
        account = self.job.account
        return f"{account.platform} {account.shop} {self.job.kind}"

    @property
    def packed(self) -> PullClaim:
        """The claim as it passes to another worker."""
        return PullClaim(
            job=self.job,
            cursor=self.cursor if self.has_begun else None,
            day=self.day,
            permit=self.permit,
            sent=self.sent,
            untold=self.untold,
            spent=self.spent,
            waits_since=self.waits_since,
            has_refreshed=self.has_refreshed,
            is_answered=self.is_answered,
        )


def unpacked(pull_claim: PullClaim, walk: Paginator) -> Claim:
    """Return the claim as another worker left it."""
    return Claim(
        job=pull_claim.job,
        walk=walk,
        cursor=pull_claim.job.cursor if pull_claim.cursor is None else pull_claim.cursor,
        day=pull_claim.day,
        permit=pull_claim.permit,
        sent=pull_claim.sent,
        untold=pull_claim.untold,
        spent=pull_claim.spent,
        waits_since=pull_claim.waits_since,
        has_begun=pull_claim.cursor is not None,
        has_refreshed=pull_claim.has_refreshed,
        is_answered=pull_claim.is_answered,
    )
