"""What each section of the page reads, in which tenant's view; one read serves all viewers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headway.app import App
from headway.core.access import Need
from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.price_history import SeriesPoint
from headway.core.timetable.day import DayTimetable
from headway.errors import NotFoundError, RequestError
from headway.operations import changes, history, listings
from headway.operations.alerts import alerts_in
from headway.operations.callers import operator, seller_or_operator
from headway.operations.deployment import freshness, status
from headway.operations.listings import ListingExplanation
from headway.operations.people import keys
from headway.operations.rehearsals import RehearsalProgress, rehearsal_progress
from headway.operations.shop_groups import ShopGroup, my_shops
from headway.operations.status import day_of
from headway.operations.suppliers import SupplierStatuses, worst_suppliers
from headway.store.catalog.history import HistoryEvent
from headway.store.catalog.product_list import ProductView
from headway.store.catalog.review import HeldChange
from headway.store.monitoring.freshness import Freshness
from headway.store.monitoring.processes import Process, Processes
from headway.store.status import RecentCall
from headway.web.live import More, PanelKey, Scene
from headway.web.section_lists import LISTS, ListPage, read

ACTOR = "page"
EVENTS_SHOWN = 25
SUPPLIERS_SHOWN = 10
SELLERS_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of the page: its address, its title and its icon.

    One without an address of its own is `within` another. One that `is_still` has a live panel
    without content; what it shows is rendered once.
    """

    name: str
    title: str
    path: str = ""
    icon: str = ""
    shortcut: str = ""
    need: Need | None = None
    within: str = ""
    is_still: bool = False

    @property
    def template(self) -> str:
        """The template that renders its panel."""
        return "still.html" if self.is_still else f"{self.name}.html"


SECTIONS = {
    section.name: section
    for section in (
        Section(name="now", path="/", title="Now", icon="clock", shortcut="n"),
        Section(name="freshness", path="/freshness", title="Freshness", icon="fresh", shortcut="f"),
        Section(
            name="timetable",
            path="/timetable",
            title="Timetable",
            icon="timetable",
            shortcut="t",
            need=Need.OVERSEE,
        ),
        Section(name="changes", path="/changes", title="Changes", icon="swap", shortcut="c"),
        Section(name="trouble", path="/trouble", title="Trouble", icon="warning", shortcut="x"),
        Section(name="accounts", path="/accounts", title="Accounts", icon="link", shortcut="a"),
        Section(
            name="parts", path="/parts", title="Parts", icon="parts", shortcut="p", is_still=True
        ),
        Section(
            name="keys", path="/keys", title="Keys", icon="key", shortcut="k", need=Need.OPERATE
        ),
        Section(name="shops", title="All shops"),
        Section(name="part", title="Part", within="parts"),
        Section(name="rehearsal", title="Rehearsal"),
        Section(
            name="import", title="Import parts", need=Need.OPERATE, within="parts", is_still=True
        ),
        Section(
            name="connect",
            title="Connect a shop",
            need=Need.OPERATE,
            within="accounts",
            is_still=True,
        ),
        Section(name="api", title="API reference", is_still=True),
    )
}
MENU = [section for section in SECTIONS.values() if section.path]


@dataclass(frozen=True, slots=True, kw_only=True)
class NowSection:
    """The processes on this database, and its suppliers; not specific to a seller."""

    processes: tuple[Process, ...] = ()
    suppliers: SupplierStatuses = field(default_factory=lambda: SupplierStatuses(first=(), count=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessSection:
    """Freshness over time; not specific to a seller."""

    latest: Freshness | None
    series: tuple[Freshness, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSection:
    """One listing of a part: its state, why it waits, and its prices over time."""

    view: ProductView
    explained: ListingExplanation
    points: tuple[SeriesPoint, ...]
    held: HeldChange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsSection:
    """A part as its page shows it, listing by listing."""

    sku: Sku
    listings: tuple[PartSection, ...] = ()
    events: tuple[HistoryEvent, ...] = ()
    reads: tuple[RecentCall, ...] = ()
    trouble: str = ""


def scene(app: App, seller: SellerId | None) -> Scene:
    """Read the data that all sections share; raises StoreError."""
    caller = seller_or_operator(app, ACTOR, seller)
    overview = status(caller)
    return Scene(overview=overview, alerts=alerts_in(caller, overview))


def more(app: App) -> More:
    """Return the function that reads what a section shows besides the scene."""

    def ask(key: PanelKey, scene: Scene) -> object:
        reader = MORE.get(key.view)
        return None if reader is None else reader(app, key, scene)

    return ask


def _part(app: App, key: PanelKey, _scene: Scene) -> PartsSection:
    name, _, named = key.subject.partition("\x1f")
    sku, caller = Sku(name), seller_or_operator(app, ACTOR, key.seller)
    seller = SellerId(named) if named and key.seller is None else None
    if "\0" in key.subject:  # the database would refuse it, and not because it is down
        return PartsSection(sku=sku, trouble="no part number holds such a character")
    try:
        explained = listings.explain(caller, sku, seller=seller).listings
        series = listings.series(caller, sku, seller=seller).listings
        products = listings.product(caller, sku, seller=seller).listings
        events = history.history(caller, sku, seller=seller, limit=EVENTS_SHOWN).items
    except NotFoundError as trouble:
        return PartsSection(sku=sku, trouble=str(trouble))
    views = {product.seller: product for product in products}
    points = {line.seller: line.points for line in series}
    held = changes.held(caller, seller=seller, sku=sku, limit=SELLERS_SHOWN).items
    held_by_seller = {change.seller: change for change in held}
    return PartsSection(
        sku=sku,
        listings=tuple(
            PartSection(
                view=views[listing.seller],
                explained=listing,
                points=points[listing.seller],
                held=held_by_seller.get(listing.seller),
            )
            for listing in explained
            if listing.seller in views and listing.seller in points
        ),
        events=events,
        reads=listings.calls(caller, sku, seller=seller).calls,
    )


def _shops(app: App, key: PanelKey, _scene: Scene) -> ShopGroup | None:
    """Read the shops of the owner whose main seller is the subject."""
    if not key.subject:
        return None
    return my_shops(seller_or_operator(app, ACTOR, SellerId(key.subject)))


def _rehearsal(app: App, key: PanelKey, _scene: Scene) -> RehearsalProgress | None:
    caller = seller_or_operator(app, ACTOR, key.seller)
    try:
        return rehearsal_progress(caller, key.subject)
    except RequestError:
        return None


def _now(app: App, key: PanelKey, _: Scene) -> NowSection:
    if key.seller is not None:
        return NowSection()
    return NowSection(
        processes=tuple(Processes(app.pool).alive()),
        suppliers=worst_suppliers(operator(app, ACTOR), limit=SUPPLIERS_SHOWN),
    )


def _freshness(app: App, key: PanelKey, _: Scene) -> FreshnessSection | None:
    if key.seller is not None:
        return None
    series = freshness(operator(app, ACTOR)).samples
    return FreshnessSection(latest=series[-1] if series else None, series=series)


def _timetable(app: App, key: PanelKey, _: Scene) -> DayTimetable:
    return day_of(seller_or_operator(app, ACTOR, key.seller).on_queue(), app.clock.now())


def part_subject(sku: str, seller: str) -> str:
    """Return the subject of a key for a part's page."""
    return f"{sku}\x1f{seller}"


def _lists(app: App, key: PanelKey, _: Scene) -> dict[str, ListPage]:
    return read(
        seller_or_operator(app, ACTOR, key.seller), key.view, key.subject, seller=key.seller
    )


MORE: Mapping[str, Callable[[App, PanelKey, Scene], object]] = {
    **dict.fromkeys(LISTS, _lists),
    "now": _now,
    "freshness": _freshness,
    "timetable": _timetable,
    "keys": lambda app, _key, _scene: keys(operator(app, ACTOR)).keys,
    "part": _part,
    "shops": _shops,
    "rehearsal": _rehearsal,
}
