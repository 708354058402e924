"""Who calls an operation, and which rows they may reach: tenant isolation as types.

An operation about sellers' data takes a `Caller`: a seller reaches only the seller's own rows, and
an operator everybody's. An operation about what belongs to no seller takes an `OperatorCaller`.
"""

from datetime import datetime

from headway.app import App
from headway.clock import Clock, ScaledClock, SystemClock
from headway.core.access import Principal, Role
from headway.core.catalog.listings import SellerId, SupplierName
from headway.errors import ForbiddenError
from headway.store.catalog.shop_groups import ShopGroups
from headway.store.catalog.suppliers import Suppliers

# Keys and sessions expire in real time, whatever clock a demo runs on.
REAL_TIME = SystemClock()


class Caller:
    """An authenticated caller. Audit events store the name as their actor.

    `own` reads only the rows of the caller's seller, or all rows for an operator. `shared` reads
    all rows: it is for what sellers share, such as places in the supplier queue.
    """

    def __init__(self, app: App, principal: Principal, *, real_time: Clock = REAL_TIME) -> None:
        self._app = app
        self.principal = principal
        self.real_time = real_time
        self.shared = app.as_person(actor=principal.name)
        self.own = app.as_person(actor=principal.name, seller=principal.seller)

    @property
    def now(self) -> datetime:
        """The time, by the clock of the deployment."""
        return self.shared.clock.now()

    @property
    def speed(self) -> float | None:
        """How many times faster than real time that clock runs; None for real time."""
        clock = self.shared.clock
        return clock.speed if isinstance(clock, ScaledClock) else None

    @property
    def actor(self) -> str:
        """The name that audit events carry."""
        return self.principal.name

    @property
    def seller(self) -> SellerId | None:
        """The seller whose rows the caller may access; None for all sellers."""
        return self.principal.seller

    def named(self, seller: SellerId | None) -> SellerId | None:
        """Return the seller a request is about, None for all; raises ForbiddenError."""
        return self.principal.whose(seller)

    def known(self, seller: SellerId | None) -> SellerId | None:
        """Return the seller a request is about, None for all; raises NotFoundError too."""
        named = self.named(seller)
        return named if self.seller is not None else self.own.sellers.known(named)

    def for_shop(self, seller: SellerId) -> "Caller":
        """Return the caller for one shop of its owner, any for an operator; raises RequestError."""
        if self.principal.main is None:
            self.known(seller)
            return self
        chosen = choose_shop(self._app, self.principal, seller)
        return caller_of(self._app, chosen, real_time=self.real_time)

    def supplier_of(self, seller: SellerId) -> SupplierName:
        """Return the supplier that a seller buys from."""
        return Suppliers(self.shared.pool).of_sellers([seller])[seller]

    def on_queue(self, supplier: SupplierName | None = None) -> App:
        """Return the application on a supplier's queue: the seller's own, or the one named."""
        if self.seller is not None:
            supplier = self.supplier_of(self.seller)
        return self.shared if supplier is None else self.shared.for_supplier(supplier)


class SellerCaller(Caller):
    """A caller that belongs to one seller."""


class OperatorCaller(Caller):
    """A caller that belongs to no seller, and may see all sellers' data."""

    @property
    def app(self) -> App:
        """The application, with all sellers' rows."""
        return self.shared


def choose_shop(app: App, principal: Principal, seller: SellerId) -> Principal:
    """Return a principal for a shop of its owner; raises ForbiddenError for any other."""
    home = principal.main
    if home is None:
        raise ForbiddenError("this key belongs to no seller, so it chooses no shop")
    if seller != home and not ShopGroups(app.pool).is_member(seller, home):
        raise ForbiddenError(f"{home} has no shop {seller}; see: GET /api/me/shops")
    return principal.acting_as(seller)


def caller_of(app: App, principal: Principal, *, real_time: Clock = REAL_TIME) -> Caller:
    """Return the caller that a principal is."""
    kind = OperatorCaller if principal.seller is None else SellerCaller
    return kind(app, principal, real_time=real_time)


def operator(app: App, actor: str) -> OperatorCaller:
    """Return a caller of the deployment itself, under this name."""
    return OperatorCaller(app, Principal(id=actor, name=actor, role=Role.OPERATOR))


def seller_or_operator(app: App, actor: str, seller: SellerId | None) -> Caller:
    """Return a caller for one seller's data, or for all sellers'."""
    if seller is None:
        return operator(app, actor)
    return SellerCaller(app, Principal(id=actor, name=actor, role=Role.SELLER, seller=seller))
