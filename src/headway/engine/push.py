"""Push: write the storefront. Permit first, then a leased visit to one shop, one call, settle.

Every write is stored as an intent before it is sent. What became of it is settled with it or, if
nobody can say, read back by whoever comes next; only then is anything written again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headway.clock import Clock, fresh_id
from headway.core.catalog import push_results
from headway.core.catalog.listings import Done, LimitKey, Sku, Wait
from headway.core.catalog.push_planning import CALL_POINTS, CHANGES_MAX, PushBatch, next_parcel
from headway.core.catalog.storefront import (
    Cost,
    Gid,
    Intent,
    Pushed,
    PushLease,
    Shop,
    WriteKind,
    WriteResult,
)
from headway.core.dispatch import Carried
from headway.core.limits.transitions import CallReport, Go, Gone, Hold, Permit, Shed
from headway.core.monitoring.calls import ANSWERED
from headway.engine.ports import BreakersPort, PushesPort, Storefront
from headway.engine.ports_limits import Limiter
from headway.engine.push_bulk import BulkPush, BulkPushStep
from headway.errors import (
    ConfigError,
    HeadwayError,
    PermanentError,
    ProviderError,
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
class PushRule:
    """How a pusher waits, how long it may hold a shop, and what it does about drift."""

    poll: timedelta = timedelta(seconds=2)
    lease: timedelta = timedelta(seconds=60)
    permit_wait_max: timedelta = timedelta(seconds=10)
    permit_grace: timedelta = timedelta(seconds=10)
    verify_every: timedelta | None = timedelta(hours=24)
    repairs_drift: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _PushStep:
    """A shop, the permit to call it, and the connector that does."""

    shop: Shop
    storefront: Storefront
    ticket: Permit


class Push:
    """One worker's hand at the shops, or at `only` one; any number of them may run, anywhere."""

    def __init__(
        self,
        *,
        clock: Clock,
        limiter: Limiter,
        pushes: PushesPort,
        breakers: BreakersPort,
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
        self._breakers = breakers
        self._open_shop = open_shop
        self._handle = handle
        self._rule = rule
        self._owner = owner
        self._ids = ids
        self._bulk = bulk
        self._only = only
        self._turn: _PushStep | None = None
        self._given: Permit | None = None

    def let_go(self) -> Permit | None:
        """Let go of the permit that it waits for, so that another at the shop may go on with it."""
        ticket = self._given if self._turn is None else self._turn.ticket
        self._given = self._turn = None
        return ticket

    def resume(self, carried: Carried) -> None:
        """Go on with a permit that another worker at the same shop waited for."""
        assert isinstance(carried, Permit)
        assert self._only is not None, "a permit is one shop's"
        self._given = carried

    def step(self) -> Done | Wait:
        """Do the next short thing: queue for a permit, or use it."""
        if self._given is not None:
            self._go_on(self._given)
        turn, asked_s = self._turn, self._clock.monotonic()
        if turn is None:
            return self._queue()
        match self._limiter.begin(turn.ticket):
            case Hold(wait_s=wait_s):
                return Wait(until=self._clock.now() + timedelta(seconds=wait_s), why="permit")
            case Gone():
                self._turn = None
                return Done(what="permit lapsed")
            case Go() as go:
                self._turn = None
                return self._use(turn, asked_s + go.send_within_s)

    # -- the permit --------------------------------------------------------------------------

    def _go_on(self, ticket: Permit) -> None:
        """Use the permit that was given, if there still is something to do at its shop."""
        shop = next(self._due(self._clock.now()), None)
        self._given = None
        if shop is not None:
            storefront = self._open_shop(shop)
            if self._limiter.knows(ticket):
                self._turn = _PushStep(shop=shop, storefront=storefront, ticket=ticket)
        elif self._limiter.knows(ticket):
            self._limiter.settle(ticket, sent=False)

    def _queue(self) -> Done | Wait:
        """Find a shop with work that may be called, and reserve a permit for it."""
        now, asked_s = self._clock.now(), self._clock.monotonic()
        why, until = "nothing is to be pushed", now + self._rule.poll
        for shop in self._due(now):
            storefront = self._open_shop(shop)
            blocked_until = self._breakers.load(storefront.scope).blocked_until(now)
            if blocked_until is not None:
                why = "a shop does not answer"
                until = until if self._only is None else max(until, blocked_until)
                continue
            ticket = self._limiter.reserve(
                [storefront.scope],
                cost=CALL_POINTS,
                owner=self._owner,
                max_wait_s=self._rule.permit_wait_max.total_seconds(),
                lease_s=self._rule.lease.total_seconds(),
                grace_s=self._rule.permit_grace.total_seconds(),
                purpose="push",
                begins=True,
            )
            if isinstance(ticket, Shed):
                why = "a shop's bucket is full"
                continue
            turn = _PushStep(shop=shop, storefront=storefront, ticket=ticket)
            if ticket.go is not None:
                return self._use(turn, asked_s + ticket.go.send_within_s)
            self._turn = turn
            return Wait(until=now + timedelta(seconds=ticket.wait_s), why="permit")
        return Wait(until=until, why=why)

    def _due(self, now: datetime) -> Iterator[Shop]:
        """Yield the shops with work, a few at a time; those who wait for one keep nobody waiting.

        Whom to verify is asked only when no shop with changes can be called.
        """
        seen: set[str] = set()
        for verified_before in dict.fromkeys((None, self._verified_before(now))):
            limit, found = SHOPS_LOOKED_AT, SHOPS_LOOKED_AT
            while found >= limit:
                limit += len(seen)
                shops = self._pushes.due_shops(
                    now, verified_before=verified_before, limit=limit, only=self._only
                )
                found = len(shops)
                for shop in shops:
                    if shop.id not in seen:
                        yield shop
                seen |= {shop.id for shop in shops}

    def _verified_before(self, now: datetime) -> datetime | None:
        every = self._rule.verify_every
        return None if every is None else now - every

    def _hand_back(self, ticket: Permit, why: str) -> Wait:
        """Return a permit unused; the pause keeps a loop from asking for it again at once."""
        self._limiter.settle(ticket, sent=False)
        return Wait(until=self._clock.now() + UNUSED_PAUSE, why=why)

    # -- the visit ---------------------------------------------------------------------------

    def _use(self, turn: _PushStep, send_by_s: float) -> Done | Wait:
        """Spend a permit: on a fresh access token, or on the one call that the shop needs most."""
        try:
            needs_token = turn.storefront.needs_token()
        except ConfigError as error:  # a secret of this shop: the others go on
            self._limiter.settle(turn.ticket, sent=False)
            self._blame(turn.storefront.scope, error)
            return Done(what=f"{turn.shop.domain}: {error}")
        if needs_token:
            return self._refresh(turn, send_by_s)
        now = self._clock.now()
        errand = self._pushes.claim(
            turn.shop,
            now=now,
            owner=self._owner,
            lease_until=now + self._rule.lease,
            verified_before=self._verified_before(now),
            limit=CHANGES_MAX,
        )
        if errand is None:
            return self._hand_back(turn.ticket, "another worker is at this shop, or it is paused")
        visit = self._bulk.resume(errand) if self._bulk else None
        parcel = None if visit else next_parcel(errand, handle=self._handle)
        if self._bulk and parcel:
            visit = self._bulk.begin(errand, parcel, self._ids)
        if visit is not None:
            return self._advance(turn, visit, send_by_s)
        if parcel is None:
            # Nothing is left to read back of an intent whose listings are gone.
            closes = {each.id: "its listings are gone" for each in errand.open}
            self._pushes.settle(errand, push_results.idle(errand, now), closes=closes, now=now)
            return self._hand_back(turn.ticket, "nothing was left to push")
        return self._send(turn, errand, parcel, send_by_s)

    def _send(
        self, turn: _PushStep, errand: PushLease, parcel: PushBatch, send_by_s: float
    ) -> Done | Wait:
        """Store the intent of a write, then call while the permit holds."""
        now = self._clock.now()
        intent = parcel.intent(self._ids()) if parcel.writes else None
        if intent is not None and not self._pushes.intend(errand, intent, now=now):
            return self._hand_back(turn.ticket, "the visit was taken over")
        if self._clock.monotonic() > send_by_s:
            voids = {intent.id: "too late to send"} if intent else {}
            self._pushes.settle(errand, voids=voids, now=now)
            return self._hand_back(turn.ticket, "too late to send")
        return self._call(turn, errand, parcel, intent)

    def _refresh(self, turn: _PushStep, send_by_s: float) -> Done | Wait:
        try:
            was_sent = turn.storefront.refresh_token(send_by_s=send_by_s)
        except ProviderError as error:
            self._settle_failed(turn, error)
            if isinstance(error, UnauthorizedError):
                self._pushes.disconnect(turn.shop, str(error), now=self._clock.now())
            return Done(what=f"{turn.shop.domain}: {error}")
        if not was_sent:
            return self._hand_back(turn.ticket, "another worker refreshes the token")
        self._limiter.settle(turn.ticket, sent=True, actual=0, report=CallReport(result="token"))
        return Done(what=f"{turn.shop.domain}: new access token")

    def _call(
        self, turn: _PushStep, errand: PushLease, parcel: PushBatch, intent: Intent | None
    ) -> Done:
        shop = errand.shop
        try:
            pushed, locations = self._visit(turn.storefront, parcel, shop, intent)
        except ProviderError as error:
            return self._failed(turn, errand, parcel, intent, error)
        self._settle_permit(turn, result=f"{parcel.kind} of {len(parcel.changes)}")
        self._close_breaker(turn.storefront)
        closes, narrows = _settle_open(errand.open, {each.change.sku for each in pushed})
        if intent is not None:
            closes[intent.id] = push_results.summary(pushed)
        is_ours = self._pushes.settle(
            errand,
            [*pushed, *push_results.idle(errand, self._clock.now())],
            closes=closes,
            narrows=narrows,
            locations=locations,
            # A place may have been closed since the shop told its places.
            forgets_locations=parcel.kind in STOCKS and any(each.retry_at for each in pushed),
            call_id=turn.ticket.id,
            now=self._clock.now(),
        )
        late = "" if is_ours else ", too late"
        return Done(what=f"{shop.domain}: {parcel.kind} of {len(parcel.changes)}{late}")

    def _advance(self, turn: _PushStep, visit: BulkPushStep, send_by_s: float) -> Done | Wait:
        """Take prices that go in bulk one call further."""
        ready = visit.prepare()
        if ready is None:
            return self._hand_back(turn.ticket, f"{visit.what}: no call")
        if self._clock.monotonic() > send_by_s:
            ready.fail()
            return self._hand_back(turn.ticket, "too late to send")
        try:
            answer = ready.call(turn.storefront)
        except ProviderError as error:
            is_shops = not ready.is_elsewhere and not isinstance(error, PermanentError)
            self._settle_failed(turn, error, blames_shop=is_shops)
            ready.fail(error, call_id=turn.ticket.id)
            self._check_grant(turn, error)
            return Done(what=f"{turn.shop.domain}: {error}")
        if ready.is_elsewhere:
            self._settle_permit(turn, result=ready.what, actual=FILE_POINTS)
        else:
            self._settle_permit(turn, result=ready.what)
            self._close_breaker(turn.storefront)
        late = "" if ready.settle(answer, call_id=turn.ticket.id) else ", too late"
        return Done(what=f"{turn.shop.domain}: {ready.what}{late}")

    def _visit(
        self, storefront: Storefront, parcel: PushBatch, shop: Shop, intent: Intent | None
    ) -> tuple[list[Pushed], Mapping[str, Gid] | None]:
        """Make the one call of a visit, and judge what it brought."""
        places = max(1, len(shop.locations or {}))
        if parcel.kind is WriteKind.LOCATIONS:
            return [], storefront.locations()
        if parcel.kind is WriteKind.FIND:
            skus = [each.shop_sku for each in parcel.changes]
            found = storefront.find(skus, locations=places)
            return push_results.after_find(parcel, found, shop, self._clock.now()), None
        if parcel.kind is WriteKind.READ:
            variants = [each.ids.variant for each in parcel.changes if each.ids]
            shown = storefront.read(variants, locations=places)
            repairs = self._rule.repairs_drift
            return push_results.after_read(parcel, shown, shop, repairs=repairs), None
        assert intent is not None, "nothing is written without an intent"
        said = _write(storefront, parcel, key=intent.id)
        return push_results.after_write(parcel, said, shop, self._clock.now()), None

    # -- what went wrong ---------------------------------------------------------------------

    def _failed(
        self,
        turn: _PushStep,
        errand: PushLease,
        parcel: PushBatch,
        intent: Intent | None,
        error: ProviderError,
    ) -> Done:
        """Blame the call. A write that may have arrived keeps its intent open, to be read back."""
        is_for_items = isinstance(error, PermanentError) and bool(parcel.changes)
        self._settle_failed(turn, error, blames_shop=not is_for_items)
        now = self._clock.now()
        pushed: list[Pushed] = []
        voids: dict[str, str] = {}
        if is_for_items:
            pushed = push_results.refuse_all(parcel, str(error), now)
        if intent is not None:
            if isinstance(error, push_results.NOT_DONE):
                voids = {intent.id: str(error)}
            else:
                pushed = push_results.unsure(parcel, now)
        self._pushes.settle(
            errand,
            pushed,
            voids=voids,
            # The shop may have locations that we do not know of.
            forgets_locations=isinstance(error, UnreadableError) and parcel.kind in LOOKS,
            call_id=turn.ticket.id,
            now=now,
        )
        self._check_grant(turn, error)
        return Done(what=f"{turn.shop.domain}: {error}")

    def _check_grant(self, turn: _PushStep, error: ProviderError) -> None:
        if isinstance(error, UnauthorizedError) and not turn.storefront.needs_token():
            self._pushes.disconnect(turn.shop, str(error), now=self._clock.now())

    def _settle_failed(
        self, turn: _PushStep, error: ProviderError, *, blames_shop: bool = True
    ) -> None:
        scope = turn.storefront.scope
        if isinstance(error, ThrottledError):
            wait_s = THROTTLED_S if error.retry_after_s is None else error.retry_after_s
            self._limiter.pause(scope, wait_s, "told to wait by the shop")
        self._settle_permit(turn, result=str(error), error=error)
        if blames_shop and not isinstance(error, ThrottledError):
            self._blame(scope, error)

    def _blame(self, scope: LimitKey, error: HeadwayError) -> None:
        breaker = self._breakers.load(scope)
        self._breakers.save(scope, breaker.failed(self._clock.now(), str(error)))

    def _settle_permit(
        self,
        turn: _PushStep,
        *,
        result: str,
        error: ProviderError | None = None,
        actual: float | None = None,
    ) -> None:
        cost = turn.storefront.cost
        status = 200 if error is None else error.status
        self._limiter.settle(
            turn.ticket,
            sent=not isinstance(error, UnsentError),
            actual=_actual(cost, error) if actual is None else actual,
            is_late=isinstance(error, TimedOutError),
            report=CallReport(
                result=result, http_status=status, ended=ANSWERED if error is None else error.ended
            ),
            seen=None if cost is None else cost.observation,
        )

    def _close_breaker(self, storefront: Storefront) -> None:
        breaker = self._breakers.load(storefront.scope)
        if breaker.failures:
            self._breakers.save(storefront.scope, breaker.succeeded())


def _write(storefront: Storefront, parcel: PushBatch, *, key: str) -> Sequence[WriteResult]:
    writes: Any = parcel.writes
    match parcel.kind:
        case WriteKind.STOCK:
            return storefront.set_stock(writes, key=key)
        case WriteKind.ACTIVATE:
            return [storefront.activate(writes[0], key=key)]
        case WriteKind.PRICE:
            return storefront.set_prices(writes)
        case WriteKind.STATUS:
            return storefront.set_status(writes)
        case _:
            return [storefront.create(writes[0])]


def _settle_open(
    intents: Sequence[Intent], in_hand: set[Sku]
) -> tuple[dict[str, str], dict[str, list[Sku]]]:
    """Close the intents whose every listing was now read back; narrow the others."""
    closed, narrowed = {}, {}
    for intent in intents:
        unsure = [sku for sku in intent.skus if sku not in in_hand]
        if not unsure:
            closed[intent.id] = "read back"
        elif len(unsure) < len(intent.skus):
            narrowed[intent.id] = unsure
    return closed, narrowed


def _actual(cost: Cost | None, error: ProviderError | None) -> float | None:
    """Return the points that the call used; a refused one used none, a lost one perhaps all."""
    if isinstance(error, ThrottledError):
        return 0
    return None if cost is None or error is not None else cost.actual
