"""Whom limits bind, by names without an app's own id in them, and how much of each is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headway.app import App
from headway.app.providers import boeing_limit_key, boeing_resource
from headway.config import Settings
from headway.core.catalog.listings import LimitKey, SupplierName
from headway.core.limits.status import Gauge
from headway.errors import NotFoundError
from headway.providers.boeing.client import limit_key_of
from headway.providers.etsy.limits import day_key, second_key
from headway.providers.printify.limits import account_resource
from headway.providers.shopify.limits import shop_limit_key, shop_resource
from headway.store import cursors
from headway.store.catalog.suppliers import Suppliers
from headway.store.limits.ledger import LimitQueries

SUPPLIER, OTHER_SUPPLIER = "boeing", "boeing:"
ETSY_DAY, ETSY_SECOND = "etsy:day", "etsy:second"
SHOP, PRINTIFY = "shopify:", "printify:"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitView:
    """One limit: what is used and reserved of it, who waits, and when the next call may leave."""

    name: str
    gauges: tuple[Gauge, ...]
    in_flight: int
    waiting: int
    next_free_at: datetime
    paused_until: datetime | None
    pause_reason: str

    @property
    def cursor(self) -> str:
        """Where a list goes on after it."""
        return cursors.encode(self.name)


def key_of(app: App, name: str) -> str:
    """Return the limiter's key of a limit; raises NotFoundError."""
    settings = app.settings
    fixed: dict[str, str] = {
        SUPPLIER: boeing_limit_key(settings),
        ETSY_DAY: day_key(settings.etsy_keystring),
        ETSY_SECOND: second_key(settings.etsy_keystring),
    }
    if name in fixed:
        return fixed[name]
    if name.startswith(SHOP):
        return shop_limit_key(settings.shopify_client_id, name.removeprefix(SHOP))
    if name.startswith(PRINTIFY):
        return name
    if name.startswith(OTHER_SUPPLIER):
        return app.for_supplier(SupplierName(name.removeprefix(OTHER_SUPPLIER))).limit_key
    raise NotFoundError("there is no such limit; see /api/limits")


def names_of(app: App, keys: Sequence[str]) -> dict[str, str]:
    """Return the names of these keys, without those of an app or a supplier no longer ours."""
    others = {limit_key_of(each.client_id): each.name for each in Suppliers(app.pool).all()}
    fixed = {key_of(app, name): name for name in (SUPPLIER, ETSY_DAY, ETSY_SECOND)}
    found = {key: fixed.get(key) or _name_of(key, app.settings, others) for key in keys}
    return {key: name for key, name in found.items() if name is not None}


def _name_of(key: str, settings: Settings, others: Mapping[LimitKey, SupplierName]) -> str | None:
    if key in others:
        return OTHER_SUPPLIER + others[LimitKey(key)]
    own = shop_limit_key(settings.shopify_client_id, "")
    if key.startswith(own):
        return SHOP + key.removeprefix(own)
    return key if key.startswith(PRINTIFY) else None


def limits(app: App, *, limit: int, cursor: str | None = None) -> list[LimitView]:
    """Return limits in the order of their keys, from a cursor on."""
    (name,) = (None,) if cursor is None else cursors.decode(cursor, str)
    after = None if name is None else key_of(app, name)
    views, found = LimitQueries(app.pool), list[LimitView]()
    while len(found) < limit:
        keys = views.keys(limit=limit - len(found), after=after)
        if not keys:
            break
        # Limits of an app that is gone have no name, and are nobody's to see.
        found += [_view(app, key, name) for key, name in names_of(app, keys).items()]
        after = keys[-1]
    return found


def _view(app: App, key: str, name: str) -> LimitView:
    if name.startswith(SHOP):
        app.limiter.know(shop_resource(LimitKey(key), restore_per_s=app.shop_restore_per_s))
    elif name.startswith(OTHER_SUPPLIER):
        app.limiter.know(boeing_resource(app.settings, LimitKey(key)))
    elif name.startswith(PRINTIFY):
        app.limiter.know(account_resource(LimitKey(key)))
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
