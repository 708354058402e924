"""The part of a desk that is about suppliers: who they are, who buys there, and how it goes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from headway.app import App
from headway.app.providers import context_of, kind_of, main_entry, role_of, supplier_key
from headway.app.suppliers import add_supplier, remove_supplier
from headway.core.catalog.listings import MAIN, LimitKey, SellerId, SupplierName
from headway.core.pauses import Pause, longest
from headway.core.timetable.next_call import next_call
from headway.errors import ConflictError
from headway.providers.provider import SupplierSetup
from headway.store import cursors
from headway.store.catalog.supplier_list import SupplierQueries, SupplierView
from headway.store.catalog.suppliers import SupplierRow, Suppliers
from headway.store.pauses import Pauses
from headway.store.pool import Lent, guarded


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSupplier:
    """A supplier as it is kept; it is not new where it only has another credential now."""

    name: SupplierName
    client_id: str
    username: str
    url: str
    kind: str
    options: Mapping[str, Any]
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedList:
    """A held price list that an operator accepted, and what happens next."""

    supplier: SupplierName
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedSeller:
    """Whom a seller buys from now, and how many listings that moved."""

    supplier: SupplierName
    seller: SellerId
    moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierStatus:
    """A supplier as its line stands: who stopped it, or when its next call leaves, if one will."""

    view: SupplierView
    pause: Pause | None
    leaves_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierStatuses:
    """The lines that a person should see first, of how many there are."""

    first: tuple[SupplierStatus, ...]
    count: int


class SupplierOperations:
    """Suppliers, which are no seller's."""

    def __init__(self, whole: App) -> None:
        self._app = whole

    def some(self, *, limit: int, cursor: str | None = None) -> list[SupplierView]:
        """Return suppliers by name, the one of the settings first, from a cursor on."""
        views = SupplierQueries(self._app.pool)
        if cursor is None:
            rows = [self._main, *views.rows(limit=limit - 1)]
        else:
            (after,) = cursors.decode(cursor, str)
            rows = views.rows(limit=limit, after="" if after == MAIN else after)
        return views.views(self._scoped(rows), self._app.clock.now())

    def add(self, name: SupplierName, setup: SupplierSetup) -> AddedSupplier:
        """Store a supplier, or its new secrets; raises InvalidError and ConflictError."""
        is_new = add_supplier(self._app, name, setup)
        kept = self._placed(Suppliers(self._app.pool).find(name))
        return AddedSupplier(**asdict(kept), is_new=is_new)

    def remove(self, name: SupplierName) -> SupplierRow:
        """Forget a supplier and its secrets; raises NotFoundError, ConflictError if it is used."""
        if name == MAIN:
            raise ConflictError(f"{MAIN} is the supplier of the settings, and stays")
        row = Suppliers(self._app.pool).find(name)
        remove_supplier(self._app, name)
        return self._placed(row)

    def accept(self, name: SupplierName) -> AcceptedList:
        """Accept the price list that a supplier's client holds back; raises ConflictError."""
        app = self._app
        row = Suppliers(app.pool).find(name)
        accept = role_of(row).accept
        if accept is None:
            raise ConflictError(f"{name} has no price list that could be held")
        context = context_of(app.settings, app.clock, app.pool, None)
        return AcceptedList(supplier=name, message=accept(context, row))

    def give(self, name: SupplierName, seller: SellerId) -> AssignedSeller:
        """Let a seller buy from this one from now on; due times stay. Raises NotFoundError."""
        moved = Suppliers(self._app.pool).give(name, seller, now=self._app.clock.now())
        return AssignedSeller(supplier=name, seller=seller, moved=moved)

    def worst(self, *, limit: int) -> SupplierStatuses:
        """Return who does not answer, for the longest time first, then whose reads are oldest.

        With the settings' alone there is nobody to choose among, and none is returned.
        """
        app, now = self._app, self._app.clock.now()
        with guarded(), app.pool.connection() as connection:
            lent = Lent(connection)
            others, views = Suppliers(lent).all(), SupplierQueries(lent)
            if not others:
                return SupplierStatuses(first=(), count=1)
            every = self._scoped([self._main, *others])
            names = views.worst(every, limit=limit)
            chosen = {limit_key: row for limit_key, row in every.items() if row.name in names}
            found = dict(zip(chosen, views.views(chosen, now), strict=True))
            pauses = Pauses(lent).standing(now)
        # Only now: waiting for a second connection while others do the same could deadlock.
        statuses = [self._status(view, pauses, now) for view in found.values()]
        statuses.sort(key=lambda status: names.index(status.view.name))
        return SupplierStatuses(first=tuple(statuses), count=len(every))

    def _status(self, view: SupplierView, pauses: Sequence[Pause], now: datetime) -> SupplierStatus:
        pause = longest(pause for pause in pauses if pause.stops_line(view.name))
        if pause is not None:
            return SupplierStatus(view=view, pause=pause, leaves_at=None)
        queue = self._app.for_supplier(view.name).supplier_queue(now)
        return SupplierStatus(view=view, pause=None, leaves_at=next_call(queue, now).leaves_at)

    @property
    def _main(self) -> SupplierRow:
        entry, _ = main_entry(self._app.settings)
        return SupplierRow(name=MAIN, client_id=entry.client_id, username=entry.username)

    def _scoped(self, rows: Iterable[SupplierRow]) -> dict[LimitKey, SupplierRow]:
        return {supplier_key(each): self._placed(each) for each in rows}

    def _placed(self, row: SupplierRow) -> SupplierRow:
        """Return the row with its address and kind filled in."""
        return replace(
            row, url=row.url or role_of(row).default_url(self._app.settings), kind=kind_of(row.kind)
        )
