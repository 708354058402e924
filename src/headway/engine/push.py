"""Push: write the storefront. Permit first, then a push lease on one shop, one call, settle.

Every write is stored as an intent before it is sent. Its result is settled with it or, if it is
unknown, read back by the next worker; only then is anything written again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headway.clock import Clock, fresh_id
from headway.core.catalog import push_narrowing, push_results
from headway.core.catalog.listings import Done, Wait
from headway.core.catalog.push_planning import CALL_POINTS, CHANGES_MAX, PushBatch, next_push_batch
from headway.core.catalog.storefront import (
    Cost,
    Intent,
    Pushed,
    PushLease,
    Shop,
    ShopChannels,
    ShopDetails,
    WriteKind,
    WriteResult,
)
from headway.core.dispatch import WorkerState
from headway.core.limits.transitions import CallReport, Expired, Granted, NotYet, Permit, Rejected
from headway.core.monitoring.calls import ANSWERED
from headway.engine.ports import AccountTroublesPort, BreakersPort, PushesPort, Storefront
from headway.engine.ports_limits import Limiter
from headway.engine.push_breakers import ShopBreakers
from headway.engine.push_bulk import BulkPush, BulkPushStep
from headway.engine.rules import PushRule
from headway.errors import (
    ConfigError,
    MovedError,
    PermanentError,
    ProviderError,
    SuspendedError,
    ThrottledError,
    TimedOutError,
    UnauthorizedError,
    UnreadableError,
    UnsentError,
)

SHOPS_LOOKED_AT = 20
THROTTLED_S = 5.0
UNUSED_PAUSE = timedelta(seconds=1)
LOOKS = (WriteKind.READ, WriteKind.FIND)
STOCKS = (WriteKind.STOCK, WriteKind.ACTIVATE)
# What a file costs that travels to or from another host than the shop's.
FILE_POINTS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallResult:
    """What a call found: results of listings, or what the shop has."""

    pushed: Sequence[Pushed] = ()
    details: ShopDetails | None = None
    channels: ShopChannels | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PushStep:
    """A shop, the permit to call it, and the client that does."""

    shop: Shop
    storefront: Storefront
    permit: Permit


class Push:
    """The push of one worker, for all shops or `only` one; any number may run, on any host."""

    def __init__(
        self,
        *,
        clock: Clock,
        limiter: Limiter,
        pushes: PushesPort,
        breakers: BreakersPort,
        troubles: AccountTroublesPort,
        open_shop: Callable[[Shop], Storefront],
        handle: Callable[[str], str],
        rule: PushRule,
        owner: str,
        ids: Callable[[], str] = fresh_id,
        only: str | None = None,
        bulk: BulkPush | None = None,
    ) -> None:
        self._clock = clock
        self._limiter = limiter
        self._pushes = pushes
        self._breakers = ShopBreakers(breakers, clock)
        self._troubles = troubles
        self._open_shop = open_shop
        self._handle = handle
        self._rule = rule
        self._owner = owner
        self._ids = ids
        self._bulk = bulk
        self._only = only
        self._push_step: _PushStep | None = None
        self._carried_permit: Permit | None = None

    def detach(self) -> Permit | None:
        """Return the permit that it waits for, so that another worker can continue with it."""
        permit = self._carried_permit if self._push_step is None else self._push_step.permit
        self._carried_permit = self._push_step = None
        return permit

    def resume(self, state: WorkerState) -> None:
        """Continue with a permit that another worker at the same shop waited for."""
        assert isinstance(state, Permit)
        assert self._only is not None, "a permit is one shop's"
        self._carried_permit = state

    def step(self) -> Done | Wait:
        """Do the next step: queue for a permit, or use it."""
        if self._carried_permit is not None:
            self._go_on(self._carried_permit)
        push_step, began_s = self._push_step, self._clock.monotonic()
        if push_step is None:
            return self._queue()
        match self._limiter.begin(push_step.permit):
            case NotYet(wait_s=wait_s):
                return Wait(until=self._clock.now() + timedelta(seconds=wait_s), why="permit")
            case Expired():
                self._push_step = None
                return Done(what="permit lapsed")
            case Granted() as granted:
                self._push_step = None
                return self._use(push_step, began_s + granted.send_within_s)

    # -- the permit --------------------------------------------------------------------------

    def _go_on(self, permit: Permit) -> None:
        """Use the permit that was given, if there still is something to do at its shop."""
        shop = next(self._due(self._clock.now()), None)
        self._carried_permit = None
        if shop is not None:
            storefront = self._open_shop(shop)
            if self._limiter.knows(permit):
                self._push_step = _PushStep(shop=shop, storefront=storefront, permit=permit)
        elif self._limiter.knows(permit):
            self._limiter.settle(permit, sent=False)

    def _queue(self) -> Done | Wait:
        """Find a shop with work that may be called, and reserve a permit for it."""
        now, began_s = self._clock.now(), self._clock.monotonic()
        why, until = "nothing is to be pushed", now + self._rule.poll
        for shop in self._due(now):
            storefront = self._open_shop(shop)
            blocked_until = self._breakers.blocked_until(storefront.limit_key, now)
            if blocked_until is not None:
                why = "a shop does not answer"
                until = until if self._only is None else max(until, blocked_until)
                continue
            permit = self._limiter.reserve(
                [storefront.limit_key],
                cost=CALL_POINTS,
                owner=self._owner,
                max_wait_s=self._rule.permit_wait_max.total_seconds(),
                lease_s=self._rule.lease.total_seconds(),
                grace_s=self._rule.permit_grace.total_seconds(),
                purpose="push",
                begins=True,
            )
            if isinstance(permit, Rejected):
                why = "a shop's bucket is full"
                continue
            push_step = _PushStep(shop=shop, storefront=storefront, permit=permit)
            if permit.granted is not None:
                return self._use(push_step, began_s + permit.granted.send_within_s)
            self._push_step = push_step
            return Wait(until=now + timedelta(seconds=permit.wait_s), why="permit")
        return Wait(until=until, why=why)

    def _due(self, now: datetime) -> Iterator[Shop]:
        """Yield the shops with work, a few at a time; a blocked shop does not delay others.

        Shops to verify are read only if no shop with changes can be called.
        """
        listed: set[str] = set()
        for verified_before in dict.fromkeys((None, self._verified_before(now))):
            limit, count = SHOPS_LOOKED_AT, SHOPS_LOOKED_AT
            while count >= limit:
                limit += len(listed)
                shops = self._pushes.due_shops(
                    now, verified_before=verified_before, limit=limit, only=self._only
                )
                count = len(shops)
                for shop in shops:
                    if shop.id not in listed:
                        yield shop
                listed |= {shop.id for shop in shops}

    def _verified_before(self, now: datetime) -> datetime | None:
        every = self._rule.verify_every
        return None if every is None else now - every

    def _hand_back(self, permit: Permit, why: str) -> Wait:
        """Return a permit unused; the pause keeps a loop from asking for it again at once."""
        self._limiter.settle(permit, sent=False)
        return Wait(until=self._clock.now() + UNUSED_PAUSE, why=why)

    # -- the visit ---------------------------------------------------------------------------

    def _use(self, push_step: _PushStep, send_by_s: float) -> Done | Wait:
        """Spend a permit: on a fresh access token, or on the one call that the shop needs most."""
        try:
            needs_token = push_step.storefront.needs_token()
        except ConfigError as error:  # a secret of this shop: other shops continue
            self._limiter.settle(push_step.permit, sent=False)
            self._breakers.failed(push_step.storefront.limit_key, error)
            return Done(what=f"{push_step.shop.domain}: {error}")
        if needs_token:
            return self._refresh(push_step, send_by_s)
        now = self._clock.now()
        push_lease = self._pushes.claim(
            push_step.shop,
            now=now,
            owner=self._owner,
            lease_until=now + self._rule.lease,
            verified_before=self._verified_before(now),
            limit=CHANGES_MAX,
        )
        if push_lease is None:
            return self._hand_back(push_step.permit, "another worker has it, or it is paused")
        bulk_step = self._bulk.resume(push_lease) if self._bulk else None
        push_batch = None if bulk_step else next_push_batch(push_lease, handle=self._handle)
        if self._bulk and push_batch:
            bulk_step = self._bulk.begin(push_lease, push_batch, self._ids)
        if bulk_step is not None:
            return self._advance(push_step, bulk_step, send_by_s)
        if push_batch is None:
            # An intent whose listings are all deleted needs no read-back.
            closes = {intent.id: "its listings are gone" for intent in push_lease.open}
            idle = push_results.idle(push_lease, now)
            forgets = push_results.has_misplaced(idle)
            self._pushes.settle(push_lease, idle, closes=closes, forgets_locations=forgets, now=now)
            return self._hand_back(push_step.permit, "nothing was left to push")
        return self._send(push_step, push_lease, push_batch, send_by_s)

    def _send(
        self, push_step: _PushStep, push_lease: PushLease, push_batch: PushBatch, send_by_s: float
    ) -> Done | Wait:
        """Store the intent of a write, then call while the permit holds."""
        now = self._clock.now()
        intent = push_batch.intent(self._ids()) if push_batch.writes else None
        if intent is not None and not self._pushes.intend(push_lease, intent, now=now):
            return self._hand_back(push_step.permit, "the visit was taken over")
        if self._clock.monotonic() > send_by_s:
            voids = {intent.id: "too late to send"} if intent else {}
            self._pushes.settle(push_lease, voids=voids, now=now)
            return self._hand_back(push_step.permit, "too late to send")
        return self._call(push_step, push_lease, push_batch, intent)

    def _refresh(self, push_step: _PushStep, send_by_s: float) -> Done | Wait:
        try:
            was_sent = push_step.storefront.refresh_token(send_by_s=send_by_s)
        except ProviderError as error:
            self._settle_failed(push_step, error)
            self._check_grant(push_step, error, is_token=True)
            return Done(what=f"{push_step.shop.domain}: {error}")
        if not was_sent:
            return self._hand_back(push_step.permit, "another worker refreshes the token")
        self._limiter.settle(
            push_step.permit, sent=True, actual=0, report=CallReport(result="token")
        )
        return Done(what=f"{push_step.shop.domain}: new access token")

    def _call(
        self,
        push_step: _PushStep,
        push_lease: PushLease,
        push_batch: PushBatch,
        intent: Intent | None,
    ) -> Done:
        shop = push_lease.shop
        try:
            result = self._make_call(push_step.storefront, push_batch, shop, intent)
        except ProviderError as error:
            return self._failed(push_step, push_lease, push_batch, intent, error)
        self._settle_permit(push_step, result=f"{push_batch.kind} of {len(push_batch.changes)}")
        self._succeeded(push_step, push_batch.kind)
        pushed = push_narrowing.cleared(result.pushed, push_batch.kind)
        if shop.is_in_rehearsal and not push_batch.is_drift_check:
            pushed = push_results.rehearsed(pushed, self._clock.now())
        skus = {one.change.sku for one in pushed}
        closes, narrows = push_narrowing.settle_open(push_lease.open, skus)
        idle = push_results.idle(push_lease, self._clock.now())
        if intent is not None:
            closes[intent.id] = push_results.summary(pushed)
        is_ours = self._pushes.settle(
            push_lease,
            [*pushed, *(one for one in idle if one.change.sku not in skus)],
            closes=closes,
            narrows=narrows,
            details=result.details,
            channels=result.channels,
            # A location may have been closed, or a channel, since they were read.
            forgets_locations=push_results.has_misplaced(idle)
            or (push_batch.kind in STOCKS and any(one.retry_at for one in pushed)),
            forgets_channels=push_batch.kind is WriteKind.PUBLISH
            and any(one.retry_at for one in pushed),
            call_id=push_step.permit.id,
            now=self._clock.now(),
        )
        late = "" if is_ours else ", too late"
        return Done(what=f"{shop.domain}: {push_batch.kind} of {len(push_batch.changes)}{late}")

    def _advance(
        self, push_step: _PushStep, bulk_step: BulkPushStep, send_by_s: float
    ) -> Done | Wait:
        """Make the next call of a bulk operation."""
        ready = bulk_step.prepare()
        if ready is None:
            return self._hand_back(push_step.permit, f"{bulk_step.what}: no call")
        if self._clock.monotonic() > send_by_s:
            ready.fail()
            return self._hand_back(push_step.permit, "too late to send")
        try:
            answer = ready.call(push_step.storefront)
        except ProviderError as error:
            is_shops = not ready.is_elsewhere and not isinstance(error, PermanentError)
            self._settle_failed(push_step, error, kind=WriteKind.BULK, blames_shop=is_shops)
            ready.fail(error, call_id=push_step.permit.id)
            self._check_grant(push_step, error)
            return Done(what=f"{push_step.shop.domain}: {error}")
        if ready.is_elsewhere:
            self._settle_permit(push_step, result=ready.what, actual=FILE_POINTS)
        else:
            self._settle_permit(push_step, result=ready.what)
            self._succeeded(push_step, WriteKind.BULK)
        late = "" if ready.settle(answer, call_id=push_step.permit.id) else ", too late"
        return Done(what=f"{push_step.shop.domain}: {ready.what}{late}")

    def _make_call(
        self, storefront: Storefront, push_batch: PushBatch, shop: Shop, intent: Intent | None
    ) -> _CallResult:
        """Make the one call of a push, and return its results."""
        places, now = max(1, len(shop.locations or {})), self._clock.now()
        channels = list((shop.channels or {}).values())
        if push_batch.kind is WriteKind.LOCATIONS:
            return _CallResult(details=storefront.details())
        if push_batch.kind is WriteKind.CHANNELS:
            return _CallResult(channels=storefront.channels())
        if push_batch.kind is WriteKind.FIND:
            skus = [change.shop_sku for change in push_batch.changes]
            variants = storefront.find(skus, locations=places, channels=channels)
            return _CallResult(pushed=push_results.after_find(push_batch, variants, shop, now))
        if push_batch.kind is WriteKind.READ:
            ids = [change.ids.variant for change in push_batch.changes if change.ids]
            shown = storefront.read(ids, locations=places, channels=channels)
            repairs = self._rule.repairs_drift
            results = push_results.after_read(push_batch, shown, shop, repairs=repairs)
            return _CallResult(pushed=results)
        assert intent is not None, "nothing is written without an intent"
        written = _write(storefront, push_batch, key=intent.id)
        results = push_results.after_write(push_batch, written, shop, self._clock.now())
        return _CallResult(pushed=results)

    # -- what went wrong ---------------------------------------------------------------------

    def _failed(
        self,
        push_step: _PushStep,
        push_lease: PushLease,
        push_batch: PushBatch,
        intent: Intent | None,
        error: ProviderError,
    ) -> Done:
        """Narrow down what made the call fail: the shop, or one listing in it.

        A write that may have arrived keeps its intent open, to be read back.
        """
        now, changes = self._clock.now(), push_batch.changes
        limit_key, kind = push_step.storefront.limit_key, push_batch.kind
        pushed: list[Pushed] = []
        is_for_items = isinstance(error, PermanentError) and bool(changes)
        if is_for_items:
            pushed = push_narrowing.refuse_all(push_batch, str(error), now)
        elif not isinstance(error, push_narrowing.NO_EVIDENCE):
            answers = self._breakers.answers(limit_key)
            pushed = push_narrowing.narrowed(push_batch, str(error), now, shop_answers=answers)
            is_for_items = any(result.failures > result.change.failures for result in pushed)
            if is_for_items:
                self._breakers.explained(limit_key, kind)
        self._settle_failed(push_step, error, kind=kind, blames_shop=not is_for_items)
        is_void = intent is not None and isinstance(error, push_results.NOT_DONE)
        self._pushes.settle(
            push_lease,
            pushed,
            voids={intent.id: str(error)} if intent is not None and is_void else {},
            # The shop may have locations that we do not know of; and before a listing is blamed,
            # the shop must answer something else.
            forgets_locations=kind in LOOKS
            and (isinstance(error, UnreadableError) or len(changes) == 1),
            call_id=push_step.permit.id,
            now=now,
        )
        self._check_grant(push_step, error)
        return Done(what=f"{push_step.shop.domain}: {error}")

    def _succeeded(self, push_step: _PushStep, kind: WriteKind) -> None:
        """Record that the shop answers, and accepts our token."""
        self._breakers.succeeded(push_step.storefront.limit_key, kind)
        self._troubles.accept(push_step.shop.account, now=self._clock.now())

    def _check_grant(
        self, push_step: _PushStep, error: ProviderError, *, is_token: bool = False
    ) -> None:
        """Let the shop wait if it is suspended or refuses us; end the connection if it must."""
        shop, now, why = push_step.shop, self._clock.now(), str(error)
        if isinstance(error, SuspendedError):
            self._troubles.suspend(shop.account, why, now=now)
        is_refused = isinstance(error, UnauthorizedError) and (
            is_token or not push_step.storefront.needs_token()
        )
        if is_refused and (end := self._troubles.refuse(shop.account, why, now=now)).ends:
            self._pushes.disconnect(shop, end.reason, now=now)

    def _settle_failed(
        self,
        push_step: _PushStep,
        error: ProviderError,
        *,
        kind: WriteKind | None = None,
        blames_shop: bool = True,
    ) -> None:
        limit_key = push_step.storefront.limit_key
        if isinstance(error, ThrottledError):
            wait_s = THROTTLED_S if error.retry_after_s is None else error.retry_after_s
            self._limiter.pause(limit_key, wait_s, "rate limited by the shop")
            # One that rate limits every call is asked less and less often, whatever the kind.
            kind = None
        self._settle_permit(push_step, result=str(error), error=error)
        # A shop that waits for a reason of its own has no breaker that waits too.
        if blames_shop and not isinstance(error, SuspendedError | MovedError):
            self._breakers.failed(limit_key, error, kind)

    def _settle_permit(
        self,
        push_step: _PushStep,
        *,
        result: str,
        error: ProviderError | None = None,
        actual: float | None = None,
    ) -> None:
        cost, status = push_step.storefront.cost, 200 if error is None else error.status
        self._limiter.settle(
            push_step.permit,
            sent=not isinstance(error, UnsentError),
            actual=_actual(cost, error) if actual is None else actual,
            is_late=isinstance(error, TimedOutError),
            report=CallReport(
                result=result, http_status=status, ended=ANSWERED if error is None else error.ended
            ),
            observation=None if cost is None else cost.observation,
        )


def _write(storefront: Storefront, push_batch: PushBatch, *, key: str) -> Sequence[WriteResult]:
    writes: Any = push_batch.writes
    match push_batch.kind:
        case WriteKind.STOCK:
            return storefront.set_stock(writes, key=key)
        case WriteKind.ACTIVATE:
            return [storefront.activate(writes[0], key=key)]
        case WriteKind.PRICE:
            return storefront.set_prices(writes)
        case WriteKind.STATUS:
            return storefront.set_status(writes)
        case WriteKind.PUBLISH:
            return storefront.publish(writes)
        case _:
            return [storefront.create(writes[0])]


def _actual(cost: Cost | None, error: ProviderError | None) -> float | None:
    """Return the points that the call used; a refused one used none, a lost one perhaps all."""
    if isinstance(error, ThrottledError):
        return 0
    return None if cost is None or error is not None else cost.actual
