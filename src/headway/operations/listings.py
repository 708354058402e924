"""The desk: what a person sees and does, over the API or the command line, alike.

A desk belongs to somebody: what is done is written down under `actor`, and behind the wall of a
`seller` nothing of another's is seen or touched. Every verb answers for each listing; one that was
named wrongly is refused before anything is done.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from headway.app import App
from headway.app.alert_metrics import alert_metrics_now, alert_metrics_of
from headway.clock import Clock, ScaledClock, SystemClock, fresh_id
from headway.core.catalog.listings import MAIN, SellerId, Sku, SupplierName
from headway.core.monitoring.alerts import TOKEN_NOTICE, Alert, alerts
from headway.core.monitoring.metrics import AlertMetrics
from headway.core.pauses import Pause, PauseKind
from headway.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from headway.operations.accounts import AccountOperations
from headway.operations.answers import (
    ListingExplanation,
    PriceSeries,
    PublishBatch,
    batch_of,
    explained,
)
from headway.operations.limits import LimitView, key_of, limits
from headway.operations.people import PeopleOperations
from headway.operations.runs import RunOperations
from headway.operations.shops import ShopOperations
from headway.operations.status import day_of, look
from headway.operations.suppliers import SupplierOperations
from headway.store.accounts.credentials import Credentials
from headway.store.accounts.job_list import is_uuid
from headway.store.catalog.change_list import ChangePage, ChangeQueries
from headway.store.catalog.history import HistoryEvent, HistoryPage, HistoryQueries
from headway.store.catalog.product_list import (
    ProductPage,
    ProductQueries,
    ProductState,
    ProductView,
)
from headway.store.catalog.publishing import Publishing
from headway.store.catalog.review import HeldChange, Review, Ruling
from headway.store.catalog.suppliers import Suppliers
from headway.store.limits.ledger import LedgerEntry, LimitQueries
from headway.store.monitoring.freshness import Freshness
from headway.store.pauses import Pauses, Resumed
from headway.store.status import Overview, RecentCall
from headway.store.timetable.hours import DayTimetable
from headway.store.timetable.positions import ListingPositions
from headway.store.timetable.slots import MovedSlot, RequestedSlot
from headway.store.timetable.triggers import Triggers

Answer = TypeVar("Answer")
NAMED_MAX = 5
# A part that many sellers list is told of for so many; whoever names a seller gets that one.
SERIES_MAX = 10
# People live in real time, whatever clock a demo runs on.
WALL = SystemClock()


class Operations:
    """The verbs and looks of one person; `whole` is the application without a wall.

    Accounts and their jobs are at `lane`, shops and tiers at `shops`, suppliers at `suppliers`,
    simulations and plans at `runs`, keys and sessions at `access`. `wall` is the time that people
    live in.
    """

    def __init__(
        self, whole: App, *, actor: str, seller: SellerId | None = None, wall: Clock = WALL
    ) -> None:
        self._whole = whole.as_person(actor=actor)
        self._app = whole.as_person(actor=actor, seller=seller)
        self._seller = seller
        self.actor = actor
        self.lane = AccountOperations(self._whole, self._app, seller=seller)
        self.shops = ShopOperations(self._whole, self._app, seller=seller)
        self.suppliers = SupplierOperations(self._whole)
        self.runs = RunOperations(self._whole, actor=actor)
        self.access = PeopleOperations(self._whole, wall=wall)

    @property
    def now(self) -> datetime:
        """The instant, by the clock of the deployment."""
        return self._whole.clock.now()

    @property
    def speed(self) -> float | None:
        """How many times faster than life that clock runs; None for life's own."""
        clock = self._whole.clock
        return clock.speed if isinstance(clock, ScaledClock) else None

    def status(self, supplier: SupplierName | None = None) -> Overview:
        """Return everything the first screen shows: of everybody, or of one's own.

        With the line of this supplier, else of one's own, else of `main`; raises NotFoundError.
        """
        return look(self._line(supplier), seller=self._seller, theirs=self._app)

    def products(
        self,
        *,
        q: str = "",
        state: ProductState | None = None,
        seller: SellerId | None = None,
        cursor: str | None = None,
        limit: int,
    ) -> ProductPage:
        """Return listings by state, seller or text, from a cursor on."""
        whose = self._whose(seller)
        views = ProductQueries(self._app.pool)
        return views.page(self.now, q=q, state=state, seller=whose, cursor=cursor, limit=limit)

    def product(self, sku: Sku, *, seller: SellerId | None = None) -> tuple[ProductView, ...]:
        """Return a part as each seller lists it; raises NotFoundError."""
        whose = self._seller or seller
        found = ProductQueries(self._app.pool).of_sku(self.now, sku, seller=whose)
        if not found:
            self._lister(sku, self._review.sellers_of([sku]).get(sku, []), whose)
        return found

    def history(
        self,
        sku: Sku,
        *,
        seller: SellerId | None = None,
        kinds: Collection[str] = (),
        cursor: str | None = None,
        limit: int,
    ) -> HistoryPage:
        """Return what happened to a part, the newest first; raises NotFoundError."""
        whose, views = self._seller or seller, HistoryQueries(self._app.pool)
        page = views.page(sku, seller=whose, kinds=kinds, cursor=cursor, limit=limit)
        if not page.items and cursor is None:
            listed_by = self._review.sellers_of([sku]).get(sku, [])
            if not listed_by or whose not in {None, *listed_by}:
                self._lister(sku, listed_by, whose)
        return page

    def changes(
        self, *, seller: SellerId | None = None, cursor: str | None = None, limit: int
    ) -> ChangePage:
        """Return what the supplier changed, the newest first, and what became of it."""
        views = ChangeQueries(self._app.pool)
        return views.page(self.now, seller=self._whose(seller), cursor=cursor, limit=limit)

    def audit(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        seller: SellerId | None = None,
        sku: Sku | None = None,
        kinds: Collection[str] = (),
    ) -> Iterator[HistoryEvent]:
        """Yield every event in that time, the oldest first, however many there are."""
        return HistoryQueries(self._app.pool).export(
            since=since, until=until, seller=self._whose(seller), sku=sku, kinds=kinds
        )

    def freshness(self, since: datetime) -> tuple[Freshness, ...]:
        """Return how fresh all listings were over time, and those of each tier."""
        return self._whole.freshness.series(since)

    def timetable(self) -> DayTimetable:
        """Return a day of calls behind and a day ahead, and the windows in which retries board."""
        return day_of(self._line(), self.now)

    def series(
        self, sku: Sku, *, seller: SellerId | None = None, since: datetime
    ) -> list[PriceSeries]:
        """Return price and stock of a part over time, as its sellers list it; the first ten."""
        found, views = self.product(sku, seller=seller), HistoryQueries(self._app.pool)
        return [
            PriceSeries(seller=each.user_id, points=views.series(sku, each.user_id, since))
            for each in found[:SERIES_MAX]
        ]

    def calls(self, sku: Sku, *, seller: SellerId | None = None) -> tuple[RecentCall, ...]:
        """Return the latest calls that carried a part, of its sellers' suppliers.

        To a seller none, since all share them; raises NotFoundError.
        """
        found = self.product(sku, seller=seller)
        if self._seller is not None:
            return ()
        names = Suppliers(self._whole.pool).of_sellers({each.user_id for each in found}).values()
        keys = [self._whole.for_supplier(name).limit_key for name in sorted(set(names))]
        return HistoryQueries(self._whole.pool).latest_reads(sku, keys=keys, now=self.now)

    def explain(self, sku: Sku, *, seller: SellerId | None = None) -> list[ListingExplanation]:
        """Say why a part waits, for each seller who lists it; raises NotFoundError."""
        whose, now = self._seller or seller, self.now
        # Its place counts everybody's listings, so this looks over the wall, at one's own rows.
        found = ListingPositions(self._whole.pool).of_sku(sku, now, seller=whose)
        if not found:
            listed_by = self._review.sellers_of([sku]).get(sku, [])
            self._lister(sku, listed_by, whose)
        return explained(self._whole, found, now)

    def held(
        self, *, seller: SellerId | None = None, limit: int, cursor: str | None = None
    ) -> list[HeldChange]:
        """Return held changes, the oldest first, from a cursor on."""
        return self._review.held(self._whose(seller), limit=limit, cursor=cursor)

    def approve(
        self, skus: Sequence[Sku], *, seller: SellerId | None = None, reason: str = ""
    ) -> list[Ruling]:
        """Let held changes reach the shop."""
        now = self._app.clock.now()
        return self._for_each(
            skus, seller, lambda *key: self._review.approve(*key, reason=reason, now=now)
        )

    def approve_all(self, *, seller: SellerId | None = None, reason: str) -> list[Ruling]:
        """Let everything held reach the shop, and the rest of a mass change with it."""
        now = self._app.clock.now()
        return self._review.approve_all(self._whose(seller), reason=reason, now=now)

    def reject(
        self, skus: Sequence[Sku], *, seller: SellerId | None = None, reason: str = ""
    ) -> list[Ruling]:
        """Keep the shop's price; the same quote is not held again."""
        now = self._app.clock.now()
        return self._for_each(
            skus, seller, lambda *key: self._review.reject(*key, reason=reason, now=now)
        )

    def rollback(
        self,
        skus: Sequence[Sku],
        *,
        to: datetime,
        seller: SellerId | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> list[Ruling]:
        """Give parts the price they had at another time."""
        now = self._past(to)
        return self._for_each(
            skus,
            seller,
            lambda *key: self._review.rollback(
                *key, to=to, reason=reason, now=now, dry_run=dry_run
            ),
        )

    def rollback_since(
        self,
        since: datetime,
        *,
        to: datetime,
        seller: SellerId | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> list[Ruling]:
        """Give all of a seller's parts that changed since then the price they had at `to`."""
        now, whose = self._past(since, to), self._whose(seller)
        if whose is None:
            raise InvalidError("since needs a seller: a batch is rolled back for one seller")
        return self._review.rollback(
            whose, since=since, to=to, reason=reason, now=now, dry_run=dry_run
        )

    def revive(self, skus: Sequence[Sku], *, seller: SellerId | None = None) -> list[Ruling]:
        """Restart parked parts; they board the next call."""
        now = self._app.clock.now()
        return self._for_each(skus, seller, lambda *key: self._review.revive(*key, now=now))

    def revive_all(self, *, seller: SellerId | None = None) -> list[Ruling]:
        """Restart everything that is parked."""
        return self._review.revive_all(self._whose(seller), now=self.now)

    def pause(
        self,
        kind: PauseKind,
        *,
        skus: Sequence[Sku] = (),
        seller: SellerId | None = None,
        supplier: SupplierName | None = None,
        until: datetime | None = None,
        reason: str = "",
    ) -> list[Pause]:
        """Stop everything, suppliers, a seller, or parts; return the pauses that now stand.

        Without a name all suppliers are meant. Behind a wall only that seller's things; raises
        ForbiddenError for what is everybody's.
        """
        now, pauses = self._app.clock.now(), Pauses(self._app.pool)
        if until is not None and until <= now:
            raise InvalidError(f"a pause ends later than now, {now:%Y-%m-%d %H:%M} UTC")
        made = [
            Pause(
                kind=kind,
                seller=user_id,
                sku=sku,
                supplier=supplier,
                until=until,
                reason=reason,
                actor=self.actor,
                since=now,
            )
            for user_id, sku in self._things(kind, skus, seller, supplier)
        ]
        pauses.pause_each(made, now)
        return made

    def resume(
        self,
        kind: PauseKind,
        *,
        skus: Sequence[Sku] = (),
        seller: SellerId | None = None,
        supplier: SupplierName | None = None,
        reason: str = "",
    ) -> list[Resumed]:
        """Let it go on; the answer says so where another pause still stops it."""
        now, pauses = self._app.clock.now(), Pauses(self._app.pool)
        things = self._things(kind, skus, seller, supplier)
        return pauses.resume_each(kind, things, supplier=supplier, reason=reason, now=now)

    def pauses(self, *, seller: SellerId | None = None) -> list[Pause]:
        """Return what is paused; of one seller, whatever stops that seller."""
        now = self._app.clock.now()
        return Pauses(self._app.pool).standing(now, seller=self._whose(seller))

    def trigger(
        self, skus: Sequence[Sku], *, seller: SellerId | None = None, reason: str = ""
    ) -> list[Ruling]:
        """Let parts board the next call, before all others."""
        now, triggers = self._app.clock.now(), Triggers(self._app.pool)
        return self._for_each(
            skus, seller, lambda *key: triggers.trigger(*key, reason=reason, now=now)
        )

    def move(
        self, skus: Sequence[Sku], requested_slot: RequestedSlot, *, seller: SellerId | None = None
    ) -> list[MovedSlot]:
        """Give parts another slot of the day, or a priority in theirs."""
        app, now = self._whole, self.now  # whose slots are full is known by everybody's

        def verb(user_id: SellerId, theirs: list[Sku]) -> list[MovedSlot]:
            return [
                app.timetable.move(user_id, sku, requested_slot, policy=app.policy, now=now)
                for sku in theirs
            ]

        return self._for_each(skus, seller, verb)

    def publish(self, skus: Sequence[str], *, seller: SellerId | None = None) -> PublishBatch:
        """Ask for parts to be put into a shop; raises ConflictError if none could be taken."""
        app, now, batch_id = self._whole, self.now, fresh_id()
        publishing = Publishing(app.pool)  # slots are given by how full everybody's are
        whose = publishing.seller(self._seller or seller)
        parts = publishing.request(
            whose,
            skus,
            batch_id=batch_id,
            form=app.settings.shop_sku,
            policy=app.policy,
            now=now,
        )
        if all(each.status == "refused" for each in parts):
            told = "; ".join(f"{each.sku}: {each.reason}" for each in parts[:NAMED_MAX])
            raise ConflictError(f"no part could be taken: {told}")
        return batch_of(app.for_supplier(self._supplier_of(whose)), batch_id, whose, parts, now)

    def batch(self, batch_id: str) -> PublishBatch:
        """Tell what became of a batch; a part belongs to the batch that asked for it last."""
        publishing = Publishing(self._whole.pool)  # a place in line is a place among everybody
        owner = publishing.owner(batch_id) if is_uuid(batch_id) else None
        if owner is None or self._seller not in {None, owner}:
            raise NotFoundError("there is no such batch, or its parts were asked for again since")
        app = self._whole.for_supplier(self._supplier_of(owner))
        return batch_of(app, batch_id, owner, publishing.batch(batch_id), self.now)

    def limits(self, *, limit: int, cursor: str | None = None) -> list[LimitView]:
        """Return what is used of each limit, from a cursor on."""
        return limits(self._whole, limit=limit, cursor=cursor)

    def ledger(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> list[LedgerEntry]:
        """Return the calls that one limit permitted, the newest first, from a cursor on."""
        key = key_of(self._whole, name)
        views = LimitQueries(self._whole.pool)
        return views.ledger(key, since=since, until=until, limit=limit, cursor=cursor)

    def alerts(self) -> list[Alert]:
        """Return what is wrong now, of everybody's or of one's own, the worst first."""
        return alerts(self.metrics(), self._whole.settings.alert_limits)

    def metrics(self, seen: Overview | None = None) -> AlertMetrics:
        """Return what alerts are judged by; a seller's are in the overview, if it was read."""
        app, pauses = self._whole, self.pauses()
        if self._seller is None:
            return alert_metrics_now(app, self.now, pauses=pauses)
        seen = seen or self.status()
        tokens = Credentials(app.pool).ending(
            seen.now + TOKEN_NOTICE,
            client_id=app.settings.shopify_client_id,
            seller=self._seller,
        )
        return alert_metrics_of(seen, pauses=pauses, tokens=tokens)

    def alerts_in(self, seen: Overview) -> list[Alert]:
        """Return what is wrong, with an overview that was read before."""
        return alerts(self.metrics(seen), self._whole.settings.alert_limits)

    def _things(
        self,
        kind: PauseKind,
        skus: Sequence[Sku],
        seller: SellerId | None,
        supplier: SupplierName | None,
    ) -> list[tuple[SellerId | None, Sku | None]]:
        """Return what is to be paused or resumed; raises RequestError before it is done."""
        if supplier is not None and kind is not PauseKind.SUPPLIER:
            raise InvalidError("supplier: name it to pause or resume a supplier, and nothing else")
        if bool(skus) != (kind is PauseKind.LISTING):
            raise InvalidError("name parts to pause or resume parts, and nothing else with them")
        if kind is PauseKind.LISTING:
            return self._for_each(
                skus, seller, lambda user_id, theirs: [(user_id, sku) for sku in theirs]
            )
        if kind is PauseKind.SELLER:
            whose = self._whose(seller)
            if whose is None:
                raise InvalidError("name the seller who is to be paused or resumed")
            return [(whose, None)]
        if self._seller is not None:
            raise ForbiddenError(f"{self._seller} may pause its own things only, not {kind}")
        if seller is not None:
            raise InvalidError(f"{kind} is nobody's alone; leave the seller out")
        if supplier is not None and supplier != MAIN:
            Suppliers(self._whole.pool).find(supplier)  # a slip must show
        return [(None, None)]

    @property
    def _review(self) -> Review:
        return Review(self._app.pool)

    def _past(self, *instants: datetime) -> datetime:
        """Return now; raises InvalidError for an instant that has not come."""
        now = self.now
        for at in instants:
            if at > now:
                raise InvalidError(
                    f"{at:%Y-%m-%d %H:%M} UTC has not come yet; it is {now:%Y-%m-%d %H:%M}"
                )
        return now

    def _line(self, supplier: SupplierName | None = None) -> App:
        """Return the application on one supplier's line; a seller's own, whatever is asked for."""
        if self._seller is not None:
            supplier = self._supplier_of(self._seller)
        return self._whole if supplier is None else self._whole.for_supplier(supplier)

    def _supplier_of(self, seller: SellerId) -> SupplierName:
        return Suppliers(self._whole.pool).of_sellers([seller])[seller]

    def _whose(self, asked: SellerId | None) -> SellerId | None:
        """Return whose data is meant, None for everybody's; raises NotFoundError."""
        return self._app.sellers.known(asked) if self._seller is None else self._seller

    def _for_each(
        self,
        skus: Sequence[Sku],
        seller: SellerId | None,
        verb: Callable[[SellerId, list[Sku]], list[Answer]],
    ) -> list[Answer]:
        """Do a verb for the one seller of each part; raises RequestError before it is done."""
        whose = self._seller or seller
        if not skus:
            raise InvalidError("name at least one part")
        sellers = self._review.sellers_of(skus)
        wanted: dict[SellerId, list[Sku]] = {}
        for sku in dict.fromkeys(skus):
            wanted.setdefault(self._lister(sku, sellers.get(sku, []), whose), []).append(sku)
        return [each for user_id, theirs in wanted.items() for each in verb(user_id, theirs)]

    def _lister(self, sku: Sku, listed_by: Sequence[SellerId], whose: SellerId | None) -> SellerId:
        """Return whose listing is meant; behind a wall, nothing is said of who else lists it."""
        others = [] if self._seller is not None else listed_by
        if whose is not None and whose in listed_by:
            return whose
        if whose is not None and others:
            raise NotFoundError(f"{whose} does not list {sku}; it is listed by {_names(others)}")
        if not others:
            similar = ListingPositions(self._app.pool).similar(sku, seller=self._seller)
            hint = f"did you mean {' or '.join(similar)}?" if similar else "check how it is spelled"
            raise NotFoundError(f"no listing has the part number {sku}; {hint}")
        if len(others) > 1:
            raise InvalidError(
                f"{sku} is listed by {_names(others)}; say whose: name the seller (--seller)"
            )
        return others[0]


def _names(sellers: Sequence[SellerId]) -> str:
    more = ", ..." if len(sellers) > NAMED_MAX else ""
    return ", ".join(sellers[:NAMED_MAX]) + more
