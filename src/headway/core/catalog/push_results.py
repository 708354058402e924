"""Result of a call to a shop for each of its listings.

One bad product never blocks the others: each gets its own verdict, its own backoff, its own event.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from headway.core.catalog.change_detection import THEIRS, money
from headway.core.catalog.channels import find_obstacle, lacked
from headway.core.catalog.guard import find_move
from headway.core.catalog.listings import ListingEvent
from headway.core.catalog.push_planning import (
    MISPLACED,
    PushBatch,
    as_applied,
    confirmed,
    find_misplaced,
    needs,
    owned_facts,
    waits_for_price,
)
from headway.core.catalog.storefront import (
    Change,
    FoundVariants,
    InventoryPolicy,
    PriceWrite,
    ProductStatus,
    PublishWrite,
    Pushed,
    PushLease,
    Shop,
    Shown,
    StatusWrite,
    StockWrite,
    Write,
    WriteKind,
    WriteResult,
    WriteVerdict,
)
from headway.errors import (
    MovedError,
    PermanentError,
    SuspendedError,
    ThrottledError,
    UnauthorizedError,
    UnsentError,
)

BACKOFF_FIRST = timedelta(minutes=5)
BACKOFF_MAX = timedelta(hours=24)
MISPLACED_RETRY = timedelta(hours=1)
# An unknown id is looked up by its SKU once more, and then counts as deleted.
UNKNOWN_MAX = 1
# An unexpected state is read and written again at once; if it persists, the retry waits.
STALE_MAX = 3
WORST = (
    WriteVerdict.REFUSED,
    WriteVerdict.UNKNOWN,
    WriteVerdict.STALE,
    WriteVerdict.UNSTOCKED,
    WriteVerdict.AGAIN,
    WriteVerdict.DONE,
)
# A request that seems lost may still arrive: wait until then before reading back.
READ_BACK_AFTER = timedelta(seconds=5)
# After these errors the shop has done nothing; after any other the result is unknown.
NOT_DONE = (
    UnsentError,
    ThrottledError,
    UnauthorizedError,
    PermanentError,
    SuspendedError,
    MovedError,
)
# Longer than any bulk operation; its end wakes its listings.
SLEEP = timedelta(days=2)
# How often a listing of a shop in rehearsal is read again, for the report to follow the shop.
REHEARSE_EVERY = timedelta(hours=6)


def backoff(failures: int, *, first: timedelta = BACKOFF_FIRST) -> timedelta:
    """Return the wait after so many refusals in a row: 5, 10, 20 minutes, up to a day."""
    return min(BACKOFF_MAX, first * (1 << min(max(failures - 1, 0), 20)))


def idle(push_lease: PushLease, now: datetime) -> list[Pushed]:
    """Settle listings for which the shop needs no further write.

    A listing whose shop SKU belongs to another part is refused. A listing that lacks only a price
    that a bulk operation is writing waits until that has ended.
    """
    if push_lease.open or push_lease.shop.locations is None:
        return []
    pushed = []
    for change in push_lease.changes:
        if (reason := find_misplaced(change, push_lease.shop)) is not None:
            pushed.append(misplaced(change, reason, now))
            continue
        if change.rival is not None:
            reason = (
                f"its shop SKU {change.shop_sku} is that of {change.rival}; import it with another"
            )
            pushed.append(refused(change, reason, now))
        if change.ids is None or change.applied is None or push_lease.shop.is_in_rehearsal:
            continue
        if not needs(change, push_lease.shop):
            pushed += _complete(change, push_lease.shop, now)
        elif (
            push_lease.bulk
            and change.sku in push_lease.bulk.skus
            and lacks_only_price(change, push_lease.shop)
        ):
            until = push_lease.bulk.created_at + SLEEP
            pushed.append(replace(unchanged(change), retry_at=until))
    return pushed


def _complete(change: Change, shop: Shop, now: datetime) -> list[Pushed]:
    """Settle a listing for which nothing is left to write, if it is visible where it should be.

    If it cannot be published, it waits with the reason, and all else of it goes on.
    """
    assert change.applied is not None
    reason = find_obstacle(change, shop)
    if reason is not None:
        failed = _failed(change, reason, code="NOT_PUBLISHABLE")
        return [
            Pushed(
                change=change,
                retry_at=now + BACKOFF_MAX,
                error=reason,
                events=() if change.error == reason else (failed,),
            )
        ]
    if lacked(change.desired, change.applied):  # its channels are read first
        return []
    return [_published(Pushed(change=change, applied=change.desired))]


def _published(pushed: Pushed) -> Pushed:
    """Record that a part is published, once the shop shows it everywhere it should."""
    change = pushed.change
    if pushed.applied is not change.desired or not (change.is_created or change.draft):
        return pushed
    ids = pushed.ids or change.ids
    new = {**change.desired, "shopify_product_id": ids and ids.product}
    event = ListingEvent(kind="product_published", new=new)
    return replace(pushed, staging="published", events=(*pushed.events, event))


def lacks_only_price(change: Change, shop: Shop) -> bool:
    """Return True if only the price of a listing is left to write."""
    need = needs(change, shop)
    has_stock = bool(need.stock or need.unstocked)
    return need.price and not need.status and (not has_stock or waits_for_price(change, need))


def rehearsed(pushed: Sequence[Pushed], now: datetime) -> list[Pushed]:
    """Settle a read of a shop in rehearsal: what it shows is stored, and read again later."""
    return [
        replace(
            result,
            failures=0,
            error="",
            retry_at=now + REHEARSE_EVERY,
            events=tuple(event for event in result.events if event.kind != "shopify_updated"),
        )
        if result.applied is not None
        else result
        for result in pushed
    ]


def after_find(
    push_batch: PushBatch, variants: FoundVariants, shop: Shop, now: datetime
) -> list[Pushed]:
    """Adopt variants with exactly this SKU; create or report those that do not exist."""
    pushed = []
    for change in push_batch.changes:
        shown = variants.shown.get(change.shop_sku, ())
        if change.shop_sku in variants.unsure:
            pushed.append(_unclear(change, now, is_alone=len(push_batch.changes) == 1))
        elif len(shown) > 1:
            reason = (
                f"{len(shown)} variants in the shop have the SKU {change.shop_sku}; rename all but"
                " one, or import this part with its three ids"
            )
            pushed.append(refused(change, reason, now))
        elif shown:
            pushed.append(_adopted(change, shown[0], shop))
        elif change.draft is not None:
            pushed.append(replace(unchanged(change), applied={}))
        else:
            reason = f"no variant in the shop has the SKU {change.shop_sku}; publish the part first"
            pushed.append(refused(change, reason, now))
    return pushed


def after_read(
    push_batch: PushBatch, shown: Sequence[Shown | None], shop: Shop, *, repairs: bool
) -> list[Pushed]:
    """Store what the shop shows as the applied state, whatever its origin.

    A drift check only reads. Lower stock in the shop was sold, and is accepted; any other
    difference is drift: it is reported and, with `repairs`, written again.
    """
    pushed = []
    for change, variant in zip(push_batch.changes, shown, strict=True):
        if variant is None:
            pushed.append(_gone(change, "the shop no longer knows its ids"))
        elif not push_batch.is_drift_check:
            pushed.append(_adopted(change, variant, shop))
        else:
            pushed.append(_drift_checked(change, variant, shop, repairs=repairs))
    return pushed


def after_write(
    push_batch: PushBatch, results: Sequence[WriteResult], shop: Shop, now: datetime
) -> list[Pushed]:
    """Settle each listing by the worst result of any of its writes."""
    answers: dict[str, list[tuple[Write, WriteResult]]] = {}
    for write, answer in zip(push_batch.writes, results, strict=True):
        answers.setdefault(write.sku, []).append((write, answer))
    return [
        _settle(change, answers[change.sku], push_batch.kind, shop, now)
        for change in push_batch.changes
    ]


def summary(pushed: Sequence[Pushed]) -> str:
    """Return a short summary of a write's results."""
    trouble = [result.error for result in pushed if result.error]
    return f"{len(pushed) - len(trouble)} of {len(pushed)} done" + "".join(
        f"; {text}" for text in trouble[:1]
    )


def _settle(
    change: Change,
    answers: Sequence[tuple[Write, WriteResult]],
    kind: WriteKind,
    shop: Shop,
    now: datetime,
) -> Pushed:
    worst = min((result for _, result in answers), key=lambda result: WORST.index(result.verdict))
    match worst.verdict:
        case WriteVerdict.DONE if kind is WriteKind.CREATE:
            assert worst.shown is not None, "a creation tells what it made"
            return replace(_adopted(change, worst.shown, shop), failures=0)
        case WriteVerdict.DONE:
            return _done(change, [write for write, _ in answers], shop)
        case WriteVerdict.AGAIN:
            return _again(change, worst.reason)
        case WriteVerdict.UNKNOWN if change.failures < UNKNOWN_MAX:
            return _gone(change, worst.reason)
        case WriteVerdict.STALE | WriteVerdict.UNSTOCKED:
            return _misjudged(change, worst.reason, now)
    is_unknown = worst.verdict is WriteVerdict.UNKNOWN
    return replace(refused(change, worst.reason, now), forgets_ids=is_unknown)


def _done(change: Change, writes: Sequence[Write], shop: Shop) -> Pushed:
    names = {gid: name for name, gid in (shop.locations or {}).items()}
    applied: dict[str, Any] = dict(change.applied or {})
    status = policy = None
    for write in writes:
        if isinstance(write, StockWrite):
            quantities = applied.get("quantities") or {}
            applied["quantities"] = {**quantities, names[write.location]: write.quantity}
        elif isinstance(write, PriceWrite):
            applied |= _priced(write, change)
            policy = InventoryPolicy.DENY if write.stops_overselling else None
        elif isinstance(write, PublishWrite):
            applied["channels"] = change.desired["channels"]
        elif isinstance(write, StatusWrite):
            applied["status"] = status = write.status
    after = confirmed(change, applied, shop)
    is_complete = after is change.desired
    pushed = Pushed(
        change=change,
        applied=after,
        status=status,
        tracked=None if policy is None else True,
        inventory_policy=policy,
        failures=0 if is_complete else change.failures,
        error="" if is_complete else change.error,
        events=(ListingEvent(kind="shopify_updated", old=change.applied, new=applied),),
    )
    return _published(pushed)


def _priced(write: PriceWrite, change: Change) -> dict[str, Any]:
    """Return the price facts that were written; what is desired may have moved on since."""
    facts = {
        "price": str(write.price),
        "cost": str(write.cost),
        "currency": change.desired["currency"],
    }
    if write.keeps_compare_at:
        return facts
    return {**facts, "compare_at": None if write.compare_at is None else str(write.compare_at)}


def _adopted(change: Change, shown: Shown, shop: Shop) -> Pushed:
    """Store what the shop shows, including its ids.

    The price of a part that was removed and came back is the merchant's until it is read again.
    """
    change = replace(change, tracked=shown.tracked)
    is_theirs = change.is_first and bool(change.desired.get(THEIRS))
    if is_theirs:
        change = replace(change, desired={**change.desired, **_own_prices(change, shown)})
    applied = as_applied(shown, change, shop)
    after = confirmed(change, applied, shop)
    events: tuple[ListingEvent, ...] = ()
    if change.draft is not None:
        new = {**applied, "shopify_product_id": shown.ids.product}
        events = (ListingEvent(kind="product_created", new=new),)
    elif change.ids != shown.ids:
        events = (ListingEvent(kind="ids_resolved", new={"shopify_variant_id": shown.ids.variant}),)
    elif after is change.desired and change.applied:
        # A write whose reply was lost had succeeded.
        events = (ListingEvent(kind="shopify_updated", old=change.applied, new=after),)
    leaves_sale = change.desired.get("status") == ProductStatus.DRAFT
    is_first_look = change.applied is None or "status" not in change.applied
    pushed = Pushed(
        change=change,
        applied=after,
        ids=shown.ids,
        handle=shown.handle or None,
        status=shown.status,
        former_status=shown.status if leaves_sale and is_first_look else None,
        variants_count=shown.variants_count,
        shown=shown.as_json(shop),
        tracked=shown.tracked,
        inventory_policy=shown.inventory_policy,
        is_verified=True,
        failures=0 if after is change.desired else change.failures,
        error="" if after is change.desired else change.error,
        staging=None if change.draft is None else "created",
        desired=change.desired if is_theirs else None,
        events=events,
    )
    return _guarded(_published(pushed), shown, shop)


def _guarded(pushed: Pushed, shown: Shown, shop: Shop) -> Pushed:
    """Hold a first price that is far from the shop's own, or one of a whole takeover (law L9)."""
    change = pushed.change
    if not change.is_first or shop.guard_move is None or change.desired.get(THEIRS):
        return pushed
    new = money(change.desired, "price")
    assert new is not None
    if new == shown.price:
        return pushed
    reason = find_move(shown.price, new, shop.guard_move)
    if not shop.is_in_rehearsal:  # there the report shows every price before a person starts it
        pushed, reason = replace(pushed, is_repriced=True), reason or shop.takeover
    if reason is None:
        return pushed
    own = _own_prices(change, shown)
    held = ListingEvent(kind="change_held", old=own, new=change.desired, error=reason)
    return replace(
        pushed,
        held_reason=reason,
        desired={**change.desired, **own, THEIRS: True},
        events=(*pushed.events, held),
    )


def _own_prices(change: Change, shown: Shown) -> dict[str, Any]:
    """Return the shop's own price, cost and crossed-out price in the form of a desired state."""
    own: dict[str, Any] = {"price": str(shown.price)}
    if shown.cost is not None:
        own["cost"] = str(shown.cost)
    if "compare_at" in change.desired:
        own["compare_at"] = None if shown.compare_at is None else str(shown.compare_at)
    return own


def _drift_checked(change: Change, shown: Shown, shop: Shop, *, repairs: bool) -> Pushed:
    applied, before = as_applied(shown, change, shop), change.applied or {}
    has, had = applied["quantities"], before.get("quantities") or {}
    counts = shown.tracked or shop.stops_overselling
    # Stock at unmapped locations is the merchant's own. A mapped location where the part is not
    # stocked was added to the shop since, or the part was removed there by hand.
    has_drifted = (
        any(money(applied, fact) != money(before, fact) for fact in owned_facts(change.desired))
        or ("channels" in applied and bool(lacked(before, applied)))
        or any(
            has.get(name, 0) > had.get(name, 0)
            or (quantity > 0 and name not in has and name in (shop.locations or {}))
            for name, quantity in change.desired["quantities"].items()
            if counts
        )
    )
    checked = replace(
        unchanged(change),
        shown=shown.as_json(shop),
        tracked=shown.tracked,
        inventory_policy=shown.inventory_policy,
        is_verified=True,
    )
    if not has_drifted:
        return checked
    # What was sold is not written again along with the rest.
    sold = {name: count for name, count in had.items() if has.get(name, count) < count}
    applied["quantities"] = {**has, **sold}
    return replace(
        checked,
        applied=applied if repairs else None,
        status=shown.status,
        events=(ListingEvent(kind="drift_found", old=before, new=applied),),
    )


def _gone(change: Change, reason: str) -> Pushed:
    return Pushed(
        change=change,
        forgets_ids=True,
        forgets_applied=True,
        failures=change.failures + 1,
        error=reason,
    )


def _misjudged(change: Change, reason: str, now: datetime) -> Pushed:
    """Read it back before writing again; count a failure, so that others go first."""
    failures = change.failures + 1
    return Pushed(
        change=change,
        forgets_applied=True,
        retry_at=now + backoff(failures - STALE_MAX) if failures > STALE_MAX else None,
        failures=failures,
        error=reason,
    )


def _unclear(change: Change, now: datetime, *, is_alone: bool) -> Pushed:
    """Search for it in a smaller batch, so that the reply holds more of its matches."""
    if not is_alone:
        return _again(change, "the search found too much")
    reason = f"too many SKUs in the shop look like {change.shop_sku}; import it with its three ids"
    return refused(change, reason, now)


def unchanged(change: Change) -> Pushed:
    """Keep the failures of a listing, and their reason."""
    return Pushed(change=change, failures=change.failures, error=change.error)


def _again(change: Change, reason: str) -> Pushed:
    return Pushed(change=change, failures=change.failures + 1, error=reason)


def misplaced(change: Change, reason: str, now: datetime) -> Pushed:
    """Settle a listing whose shop has none of its locations: it is tried again every hour."""
    failed = ListingEvent(kind="shopify_update_failed", new=change.desired, error=reason)
    return Pushed(
        change=change,
        retry_at=now + MISPLACED_RETRY,
        failures=change.failures + 1,
        error=reason,
        events=() if change.error == reason else (failed,),
    )


def has_misplaced(pushed: Sequence[Pushed]) -> bool:
    """Return True if the shop lacked a listing's locations; by the next try it may have them."""
    return any(result.error.startswith(MISPLACED) for result in pushed)


def refused(change: Change, reason: str, now: datetime) -> Pushed:
    """Settle a refusal: it waits, longer each time, and is reported with the reason."""
    failures = change.failures + 1
    return Pushed(
        change=change,
        retry_at=now + backoff(failures),
        failures=failures,
        error=reason,
        staging=None if change.draft is None else "failed",
        events=(_failed(change, reason, code="REFUSED"),),
    )


def _failed(change: Change, reason: str, *, code: str) -> ListingEvent:
    return ListingEvent(kind="shopify_update_failed", new=change.desired, error=reason, code=code)
