"""Result of a call to a shop that failed as a whole, narrowed down to the listing at fault."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from headway.core.catalog.listings import Sku
from headway.core.catalog.push_planning import PushBatch
from headway.core.catalog.push_results import READ_BACK_AFTER, backoff, refused, unchanged
from headway.core.catalog.storefront import Change, Intent, Pushed, WriteKind
from headway.errors import (
    AppRefusedError,
    MovedError,
    SuspendedError,
    ThrottledError,
    UnauthorizedError,
    UnsentError,
)

# The first wait of a listing that made its calls fail: that may still have been the shop's fault.
SPOILED_FIRST = timedelta(minutes=1)
# The suspicion of a listing that failed alone four times: the fifth time it is set aside.
CONVICTED = -3
# These errors say nothing about what was in the call.
NO_EVIDENCE = (
    UnsentError,
    ThrottledError,
    UnauthorizedError,
    AppRefusedError,
    SuspendedError,
    MovedError,
)


def narrowed(
    push_batch: PushBatch, reason: str, now: datetime, *, shop_answers: bool
) -> list[Pushed]:
    """Settle a call that failed as a whole, which is evidence against what was in it.

    The listings go in calls of half the size. One that failed alone often enough, while the shop
    answered the call before this one, is set aside with the reason and retried later. A write may
    have been done: it is read back first.
    """
    kind, changes = push_batch.kind, push_batch.changes
    if shop_answers and len(changes) == 1 and changes[0].suspicion.get(kind, 1) <= CONVICTED:
        result = refused(changes[0], f"every call with it fails: {reason}", now)
        retry_at = now + backoff(result.failures, first=SPOILED_FIRST)
        is_verified = push_batch.is_drift_check
        return [replace(result, retry_at=retry_at, staging=None, is_verified=is_verified)]
    return [
        replace(
            unchanged(change),
            retry_at=now + READ_BACK_AFTER if push_batch.writes else None,
            suspicion={**change.suspicion, kind: _half(change, push_batch)},
        )
        for change in changes
    ]


def _half(change: Change, push_batch: PushBatch) -> int:
    """Return how large the next such call may be; below 1 it counts the failures alone."""
    half = len(push_batch.changes) // 2
    return half or min(0, max(CONVICTED, change.suspicion.get(push_batch.kind, 1) - 1))


def cleared(pushed: Sequence[Pushed], kind: WriteKind) -> list[Pushed]:
    """Drop the suspicion of listings whose call of this kind was answered; others stay."""
    return [
        replace(result, suspicion=_without(result.change.suspicion, kind))
        if kind in result.change.suspicion
        else result
        for result in pushed
    ]


def refuse_all(push_batch: PushBatch, reason: str, now: datetime) -> list[Pushed]:
    """Settle a call that the shop will never take: alone it is refused, else it is halved."""
    if len(push_batch.changes) == 1:
        # A drift check counts it as verified, and continues with the others.
        return [
            replace(
                refused(push_batch.changes[0], reason, now), is_verified=push_batch.is_drift_check
            )
        ]
    return [
        replace(result, retry_at=None)
        for result in narrowed(push_batch, reason, now, shop_answers=False)
    ]


def settle_open(
    intents: Sequence[Intent], in_hand: set[Sku]
) -> tuple[dict[str, str], dict[str, list[Sku]]]:
    """Close the intents whose listings were all read back; narrow the others."""
    closed, narrowed = {}, {}
    for intent in intents:
        unsure = [sku for sku in intent.skus if sku not in in_hand]
        if not unsure:
            closed[intent.id] = "read back"
        elif len(unsure) < len(intent.skus):
            narrowed[intent.id] = unsure
    return closed, narrowed


def _without(suspicion: Mapping[str, int], kind: WriteKind) -> dict[str, int]:
    return {name: size for name, size in suspicion.items() if name != kind}
