"""The limits of a deployment by display name, and how much of each is used.

A name has the provider first, and never holds an app's own id: `PROVIDER:day`, `PROVIDER:SHOP`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from headway.app import App
from headway.app.providers import kind_of, shared_limits, supplier_key, supplier_limit
from headway.core.access import Need
from headway.core.catalog.listings import MAIN, LimitKey, SupplierName
from headway.core.limits.status import LimitGauge
from headway.core.limits.transitions import Resource
from headway.errors import NotFoundError
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import NAME_CHARS_MAX, PLAIN, Cursor, Limit, Since, Until
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.providers.provider import Provider
from headway.providers.registry import installed, main_supplier
from headway.store import cursors
from headway.store.catalog.suppliers import Suppliers
from headway.store.limits.ledger import LedgerEntry, LimitQueries

# The limit of the settings' supplier.
MAIN_LIMIT = main_supplier()[0].name
TAG = "limits"
LimitName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="A name from /api/limits.",
        examples=[MAIN_LIMIT],
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitView:
    """One limit: what is used and reserved, how many calls wait, and when the next may start."""

    name: str
    """The limit key. Example: `boeing:7f0c1b9e`"""
    gauges: tuple[LimitGauge, ...]
    """What is used of each rule."""
    in_flight: int
    """Calls under way."""
    waiting: int
    """Calls that wait for a permit."""
    next_free_at: datetime
    """When the next call may start."""
    paused_until: datetime | None
    pause_reason: str

    @property
    def cursor(self) -> str:
        """The cursor of the page after this row."""
        return cursors.encode(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPage:
    """Limits in the order of their names, and where to go on."""

    now: datetime
    items: tuple[LimitView, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPage:
    """The calls of one limit, the newest first, and where to go on."""

    items: tuple[LedgerEntry, ...]
    next_cursor: str | None


@operation("GET", "/api/limits", need=Need.OVERSEE, tag=TAG, errors=(404, 422), name="list_limits")
def limits(caller: OperatorCaller, *, cursor: Cursor = None, limit: Limit = 50) -> LimitPage:
    """Show what is used of each limit, reserved, and when the next call may leave."""
    items, next_cursor = cut(_views(caller.app, limit=limit + 1, cursor=cursor), limit)
    return LimitPage(now=caller.now, items=items, next_cursor=next_cursor)


@operation(
    "GET", "/api/limits/ledger", need=Need.OVERSEE, tag=TAG, errors=(404, 422), name="list_calls"
)
def ledger(
    caller: OperatorCaller,
    *,
    name: LimitName = MAIN_LIMIT,
    since: Since = None,
    until: Until = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> LedgerPage:
    """List the calls that a limit permitted, the newest first."""
    queries, key = LimitQueries(caller.app.pool), key_of(caller.app, name)
    rows = queries.ledger(key, since=since, until=until, limit=limit + 1, cursor=cursor)
    items, next_cursor = cut(rows, limit)
    return LedgerPage(items=items, next_cursor=next_cursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLimit:
    """A limit that the limiter of this process knows; `supplier` is whose credential it is."""

    name: str
    key: LimitKey
    supplier: SupplierName | None = None


def limit_of_name(app: App, name: str) -> NamedLimit:
    """Return a limit by its display name, or a supplier's by the supplier; raises NotFoundError."""
    supplier = SupplierName(name)
    if name == MAIN or supplier in Suppliers(app.pool).names():
        return _supplier_limit(app, supplier)
    return _known(app, LimitKey(key_of(app, name)), name)


def limit_of_key(app: App, key: str) -> NamedLimit:
    """Return the limit of a key; raises NotFoundError if it is that of a former app."""
    name = names_of(app, [key]).get(key)
    if name is None:
        raise NotFoundError("the limit of this permit is not in use any more")
    return _known(app, LimitKey(key), name)


def _known(app: App, key: LimitKey, name: str) -> NamedLimit:
    """Let the limiter know a limit, and say whose credential it is."""
    for supplier in Suppliers(app.pool).names():
        if app.for_supplier(supplier).limit_key == key:
            return _supplier_limit(app, supplier)
    if (resource := _unshared_limit(app, key, name)) is not None:
        app.limiter.know(resource)
    return NamedLimit(name=name, key=key)


def _supplier_limit(app: App, supplier: SupplierName) -> NamedLimit:
    return NamedLimit(name=supplier, key=app.for_supplier(supplier).limit_key, supplier=supplier)


def key_of(app: App, name: str) -> str:
    """Return the limit key of a display name; raises NotFoundError."""
    shared = shared_limits(app.settings)
    if name in shared:
        return shared[name].key
    kind, _, subject = name.partition(":")
    provider = _providers().get(kind)
    if provider is not None and provider.keyed_limit is not None:
        return provider.keyed_limit.key(app.settings, subject)
    if provider is not None and provider.supplier is not None:
        return app.for_supplier(SupplierName(subject)).limit_key
    raise NotFoundError("there is no such limit; see /api/limits")


def names_of(app: App, keys: Sequence[str]) -> dict[str, str]:
    """Return the display names of these keys; keys of former apps and suppliers have none."""
    fixed = {resource.key: name for name, resource in shared_limits(app.settings).items()}
    for row in Suppliers(app.pool).all():
        fixed.setdefault(supplier_key(row), f"{kind_of(row.kind)}:{row.name}")
    names = {key: fixed.get(key) or _keyed_name(app, key) for key in keys}
    return {key: name for key, name in names.items() if name is not None}


def _keyed_name(app: App, key: str) -> str | None:
    for name, provider in _providers().items():
        if provider.keyed_limit is None:
            continue
        subject = provider.keyed_limit.owner(app.settings, key)
        if subject is not None:
            return f"{name}:{subject}"
    return None


def _providers() -> Mapping[str, Provider]:
    return {name: entry.provider for name, entry in installed().providers.items()}


def _views(app: App, *, limit: int, cursor: str | None) -> list[LimitView]:
    (name,) = (None,) if cursor is None else cursors.decode(cursor, str)
    after = None if name is None else key_of(app, name)
    queries, views = LimitQueries(app.pool), list[LimitView]()
    while len(views) < limit:
        keys = queries.keys(limit=limit - len(views), after=after)
        if not keys:
            break
        # Limits of a former app have no name and are not shown.
        views += [_view(app, key, name) for key, name in names_of(app, keys).items()]
        after = keys[-1]
    return views


def _view(app: App, key: str, name: str) -> LimitView:
    resource = _unshared_limit(app, LimitKey(key), name)
    if resource is not None:
        app.limiter.know(resource)
    status = app.limiter.status(key)
    return LimitView(
        name=name,
        gauges=status.gauges,
        in_flight=status.in_flight,
        waiting=sum(status.queue.values()),
        next_free_at=status.next_free_at,
        paused_until=status.paused_until,
        pause_reason=status.reason,
    )


def _unshared_limit(app: App, limit_key: LimitKey, name: str) -> Resource | None:
    """Return the limit of one shop, account or added supplier; None for shared limits."""
    if name in shared_limits(app.settings):
        return None
    provider = _providers()[name.partition(":")[0]]
    if provider.keyed_limit is not None:
        return provider.keyed_limit.resource(limit_key, app.shop_restore_per_s)
    supplier = SupplierName(name.partition(":")[2])
    return supplier_limit(app.settings, Suppliers(app.pool).find(supplier))
