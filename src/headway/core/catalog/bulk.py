"""Bulk price updates: which prices qualify, the next call, and its result for each listing.

All decisions use stored state only, so any worker can make the next call. The request to run the
operation is stored before it is sent, so no worker runs it again without checking its status.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from headway.core.catalog import push_results
from headway.core.catalog.listings import Sku
from headway.core.catalog.push_planning import PushBatch, needs, price_write
from headway.core.catalog.storefront import (
    BulkIntent,
    BulkProgress,
    Change,
    Gid,
    Phase,
    PriceWrite,
    Pushed,
    Shop,
    UploadTarget,
    WriteKind,
    WriteResult,
    WriteVerdict,
)
from headway.errors import PermanentError, ProviderError

# This many lines are a few megabytes, far below the limit of 100 MB per file.
WRITES_MAX = 10_000
POLL_FIRST, POLL_MAX = timedelta(seconds=10), timedelta(seconds=60)
# What cannot be started by then goes in ordinary calls; what has not ended by then is read back.
START_MAX = timedelta(minutes=15)
RUN_MAX = timedelta(hours=24)
COMPLETED = "COMPLETED"


class BulkStep(StrEnum):
    """The next step of an operation; the last two need no call."""

    STAGE = "stage"
    UPLOAD = "upload"
    RUN = "run"
    FIND = "find"
    STATUS = "status"
    FETCH = "fetch"
    DROP = "drop"
    GIVE_UP = "give up"


NEXT = {
    Phase.NEW: BulkStep.STAGE,
    Phase.STAGED: BulkStep.UPLOAD,
    Phase.UPLOADED: BulkStep.RUN,
    Phase.ASKED: BulkStep.FIND,
    Phase.RUNNING: BulkStep.STATUS,
    Phase.COMPLETED: BulkStep.FETCH,
}
# These calls go to the host of a file, which is not the shop's.
ELSEWHERE = frozenset({BulkStep.UPLOAD, BulkStep.FETCH})


class BulkOperationStatus(Protocol):
    """Status of an operation in the shop."""

    @property
    def id(self) -> Gid:
        """The id of the operation."""

    @property
    def status(self) -> str:
        """The shop's name of the status."""

    @property
    def is_over(self) -> bool:
        """True if no further call follows."""

    @property
    def url(self) -> str | None:
        """The address of the result file."""


def choose(waiting: Sequence[Change], shop: Shop) -> list[Change]:
    """Return changes whose price may be sent in bulk: read before, and no failure since."""
    return [
        waiter
        for waiter in waiting
        if waiter.ids is not None
        and waiter.applied is not None
        and waiter.failures == 0
        and needs(waiter, shop).price
    ][:WRITES_MAX]


def is_due(bulk: BulkIntent, now: datetime) -> bool:
    """Return True if its next step may be made."""
    return bulk.progress.poll_at is None or bulk.progress.poll_at <= now


def next_step(bulk: BulkIntent, now: datetime) -> BulkStep:
    """Return what is to be done next."""
    progress = bulk.progress
    if progress.asked_at is None:
        return BulkStep.DROP if now - bulk.created_at > START_MAX else NEXT[progress.phase]
    return BulkStep.GIVE_UP if now - progress.asked_at > RUN_MAX else NEXT[progress.phase]


def asking(bulk: BulkIntent, now: datetime) -> BulkIntent:
    """Record that the shop is about to be asked to run the operation."""
    return replace(bulk, progress=replace(bulk.progress, phase=Phase.ASKED, asked_at=now))


def staged(target: UploadTarget, now: datetime) -> BulkProgress:
    """Continue with the upload."""
    return BulkProgress(phase=Phase.STAGED, target=target, poll_at=now)


def uploaded(path: str, now: datetime) -> BulkProgress:
    """Continue with the run."""
    return BulkProgress(phase=Phase.UPLOADED, path=path, poll_at=now)


def started(bulk: BulkIntent, operation: Gid | None, now: datetime) -> BulkProgress:
    """Wait for the operation's end; without an operation the shop could not start one now."""
    if operation is None:
        return _not_requested(bulk, later(bulk, now))
    return replace(
        bulk.progress, phase=Phase.RUNNING, operation=operation, poll_at=now + POLL_FIRST
    )


def after_search(
    bulk: BulkIntent, status: BulkOperationStatus | None, now: datetime
) -> BulkProgress | None:
    """Continue an operation whose reply was lost; if it does not exist, it may be run again."""
    return _not_requested(bulk, now) if status is None else after_status(bulk, status, now)


def after_status(
    bulk: BulkIntent, status: BulkOperationStatus, now: datetime
) -> BulkProgress | None:
    """Continue with the results, or wait longer; None if it ended with an unknown result."""
    progress = replace(bulk.progress, phase=Phase.RUNNING, operation=status.id)
    if not status.is_over:
        return replace(progress, poll_at=later(bulk, now))
    if status.status != COMPLETED or status.url is None:
        return None
    return replace(progress, phase=Phase.COMPLETED, url=status.url, poll_at=now)


def failed(
    bulk: BulkIntent, step: BulkStep, error: ProviderError | None, now: datetime
) -> BulkProgress:
    """Return the progress after a failed call, or without an error after one not made."""
    at = later(bulk, now)
    if step is BulkStep.UPLOAD or (step is BulkStep.RUN and isinstance(error, PermanentError)):
        return BulkProgress(poll_at=at)
    if step is BulkStep.RUN and (error is None or isinstance(error, push_results.NOT_DONE)):
        return _not_requested(bulk, at)
    if step is BulkStep.FETCH:
        # The address of the results expires after some days; the shop then gives a new one.
        return replace(bulk.progress, phase=Phase.RUNNING, poll_at=at)
    return replace(bulk.progress, poll_at=at)


def later(bulk: BulkIntent, now: datetime) -> datetime:
    """Return when to ask again: the longer it takes, the less often."""
    return now + min(max((now - bulk.created_at) / 6, POLL_FIRST), POLL_MAX)


def judge(
    lines: Iterable[tuple[PriceWrite, WriteResult]],
    changes: Mapping[Sku, Change],
    shop: Shop,
    now: datetime,
) -> tuple[list[Pushed], list[Change]]:
    """Settle each result line as an ordinary price write; return also those to be read back.

    A line without a result may have been executed. So may one with the verdict "again": the shop's
    reply does not distinguish them. A line without a change is already settled, or deleted.
    """
    pushed, unsure = [], []
    for write, result in lines:
        change = changes.get(write.sku)
        if change is None:
            continue
        if result.verdict is WriteVerdict.AGAIN:
            unsure.append(change)
        else:
            pushed.append(_judge(change, write, result, shop, now))
    return pushed, unsure


def apart(changes: Iterable[Change], reason: str, now: datetime) -> list[Pushed]:
    """Send prices that failed in bulk by ordinary calls: `choose` skips changes that failed."""
    return [
        Pushed(change=change, retry_at=now, failures=change.failures + 1, error=reason)
        for change in changes
    ]


def _judge(
    change: Change, write: PriceWrite, result: WriteResult, shop: Shop, now: datetime
) -> Pushed:
    if change.applied is None or change.ids is None or change.ids.variant != write.variant:
        # The ids have changed meanwhile: this result may be about another variant.
        return Pushed(change=change, retry_at=now, failures=change.failures)
    push_batch = PushBatch(kind=WriteKind.PRICE, changes=[change], writes=[write])
    (pushed,) = push_results.after_write(push_batch, [result], shop, now)
    if pushed.retry_at is not None and price_write(change, shop) != write:
        return replace(pushed, retry_at=now)  # a newer price was not refused
    return pushed


def _not_requested(bulk: BulkIntent, poll_at: datetime) -> BulkProgress:
    return replace(bulk.progress, phase=Phase.UPLOADED, asked_at=None, poll_at=poll_at)
