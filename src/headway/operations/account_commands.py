"""What a person or a program does with one account: show, pause, resync or disconnect it."""

from dataclasses import dataclass

from headway.core.access import Need
from headway.core.accounts.jobs import DataKind
from headway.errors import NotFoundError
from headway.operations.accounts import TAG, with_advice
from headway.operations.callers import Caller, OperatorCaller
from headway.operations.inputs import NamePath, ReasonText, RequestBody, example
from headway.operations.operation import operation
from headway.operations.shop_tokens import forget_tokens
from headway.store.accounts.connections import ConnectedShop, ConnectedShops
from headway.store.accounts.job_rows import JobRows
from headway.store.accounts.status import AccountView

PATH = "/api/accounts/{account_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedJobs:
    """How many jobs of an account a command changed."""

    account_id: str
    """The account's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    jobs: int
    """Jobs that changed; the others were in that state already, or are dead or cancelled."""


class AccountJobsBody(RequestBody):
    """Which kinds of an account's data; all, if none is named."""

    model_config = example({"kinds": ["orders"], "reason": "moving to another app"})
    kinds: list[DataKind] | None = None
    """Only these kinds; all, if left out."""
    reason: ReasonText = ""
    """Why; the history and the jobs show it. Example: `moving to another app`"""


class AccountEndBody(RequestBody):
    """Why an account is disconnected."""

    model_config = example({"reason": "the shop is closed"})
    reason: ReasonText = ""
    """Why, for the history. Example: `the shop was sold`"""


@operation("GET", PATH, need=Need.READ, tag=TAG, errors=(404,), name="get_account")
def account(caller: Caller, account_id: NamePath) -> AccountView:
    """Show one account: what is stored of it, and the state of its jobs."""
    _find(caller, account_id)
    (view,) = caller.own.account_queries.accounts(account_id=account_id, limit=1)
    return with_advice(caller, view)


@operation(
    "POST", f"{PATH}/pause", need=Need.WRITE, tag=TAG, errors=(404,), name="pause_account_jobs"
)
def pause_jobs(caller: Caller, account_id: NamePath, body: AccountJobsBody) -> ChangedJobs:
    """Stop an account's jobs, running ones too, until somebody resumes them."""
    found, rows = _find(caller, account_id), JobRows(caller.own.pool)
    changed = rows.pause(found.bare, _kinds(body), body.reason, now=caller.now)
    return ChangedJobs(account_id=found.id, jobs=changed)


@operation(
    "POST", f"{PATH}/resume", need=Need.WRITE, tag=TAG, errors=(404,), name="resume_account_jobs"
)
def resume_jobs(caller: Caller, account_id: NamePath, body: AccountJobsBody) -> ChangedJobs:
    """Let paused jobs of an account go on from where they were."""
    found, rows = _find(caller, account_id), JobRows(caller.own.pool)
    return ChangedJobs(
        account_id=found.id, jobs=rows.resume(found.bare, _kinds(body), now=caller.now)
    )


@operation(
    "POST", f"{PATH}/resync", need=Need.WRITE, tag=TAG, errors=(404,), name="repeat_account_sync"
)
def resync(caller: Caller, account_id: NamePath, body: AccountJobsBody) -> ChangedJobs:
    """Read everything of an account again, history too; stored records stay and are renewed."""
    found, rows = _find(caller, account_id), JobRows(caller.own.pool)
    return ChangedJobs(
        account_id=found.id, jobs=rows.resync(found.bare, _kinds(body), now=caller.now)
    )


@operation(
    "POST",
    f"{PATH}/disconnect",
    need=Need.OPERATE,
    tag=TAG,
    errors=(404,),
    name="disconnect_account",
)
def disconnect_account(
    caller: OperatorCaller, account_id: NamePath, body: AccountEndBody
) -> ConnectedShop:
    """Stop reading and writing an account, and forget its tokens; what is stored stays."""
    found, shops = _find(caller, account_id), ConnectedShops(caller.app.pool)
    ended = shops.disconnect(
        found.seller,
        body.reason or "disconnected by a person",
        platform=found.platform,
        shop=found.shop,
        is_leaving=True,
        now=caller.now,
    )
    forget_tokens(caller.app, ended)
    return ended


def _find(caller: Caller, account_id: str) -> ConnectedShop:
    """Return an account that the caller may see; raises NotFoundError."""
    try:
        return ConnectedShops(caller.own.pool).find(account_id, caller.seller)
    except NotFoundError:
        raise NotFoundError(
            "there is no such account; see: headway accounts list, or /api/accounts"
        ) from None


def _kinds(body: AccountJobsBody) -> list[DataKind]:
    return list(DataKind) if body.kinds is None else body.kinds
