"""The products of one simulated shop, and how its search finds them: by words, not by SKU."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

from headway_lab.simulators.shopify.apps import OwnApp
from headway_lab.simulators.shopify.index import Index

SCOPES = (
    "read_products",
    "write_products",
    "read_inventory",
    "write_inventory",
    "read_locations",
    "read_orders",
    "read_customers",
    "read_publications",
    "write_publications",
)
ONLINE_STORE = "Online Store"
WORD = re.compile(r"[a-z0-9]+")
DEFAULT_OPTIONS = (("Title", "Default Title"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopSetup:
    """A shop as it is opened: its name, its places, its app's tokens and its plan's bucket."""

    domain: str
    locations: Sequence[str] = ("Dallas", "Chicago")
    currency: str = "USD"
    digits: int = 2
    access_token: str = field(default="sim-static-token", repr=False)
    refresh_token: str = field(default="sim-refresh-token", repr=False)
    capacity: float = 2000.0
    restore_per_s: float = 100.0
    scopes: Sequence[str] = SCOPES
    own_app: OwnApp | None = None
    # Sales channels; Shopify calls them publications.
    channels: Sequence[str] = (ONLINE_STORE, "Point of Sale")
    # How long a search by SKU does not know of a variant that was made by the API.
    search_lag_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place where the shop keeps stock."""

    id: str
    name: str
    is_active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A sales channel; a merchant may rename it, its app's handle stays."""

    id: str
    name: str
    handle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopProduct:
    """A product, the ids of its variants, and when it was published on which channels, by id."""

    id: str
    handle: str
    title: str
    status: str = "ACTIVE"
    vendor: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    is_suspended: bool = False
    variants: tuple[str, ...] = ()
    published: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopVariant:
    """A variant with its inventory item; levels are kept by the item."""

    id: str
    item: str
    product: str
    sku: str = ""
    price: Decimal = Decimal("0.00")
    compare_at: Decimal | None = None
    cost: Decimal | None = None
    tracked: bool = False
    policy: str = "DENY"
    weight: tuple[float, str] | None = None
    origin: str | None = None
    tariff_code: str | None = None
    options: tuple[tuple[str, str], ...] = DEFAULT_OPTIONS

    @property
    def sells_at_zero(self) -> bool:
        """True if customers can buy it when there is none."""
        return not self.tracked or self.policy == "CONTINUE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How much of an item is at a location; an inactive one is remembered."""

    item: str
    location: str
    quantity: int
    is_active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopIds:
    """The ids of a SKU in a shop."""

    product: str
    variant: str
    item: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopScreen:
    """What a customer and a merchant see of one SKU; quantities by location name."""

    ids: ShopIds
    sku: str
    price: Decimal
    compare_at: Decimal | None
    cost: Decimal | None
    tracked: bool
    quantities: Mapping[str, int]
    status: str
    handle: str
    title: str
    policy: str
    channels: tuple[str, ...]


class SimulatedShop:
    """The products of one shop."""

    def __init__(
        self, setup: ShopSetup, numbers: Iterator[int], now: Callable[[], datetime]
    ) -> None:
        self.setup = setup
        self._now = now
        self._hidden: dict[str, datetime] = {}
        self.by_change = Index()
        self._numbers = numbers
        self.id = self.new_id("Shop")
        self.locations = {
            location.id: location
            for name in setup.locations
            for location in (Location(id=self.new_id("Location"), name=name),)
        }
        self.publications = {
            publication.id: publication
            for name in setup.channels
            for publication in (
                Publication(
                    id=self.new_id("Publication"),
                    name=name,
                    handle="_".join(WORD.findall(name.lower())),
                ),
            )
        }
        self.products: dict[str, ShopProduct] = {}
        self.variants: dict[str, ShopVariant] = {}
        self.items: dict[str, str] = {}
        self._levels: dict[str, dict[str, Level]] = {}
        self._handles: dict[str, str] = {}
        self._skus: dict[str, dict[str, None]] = {}
        self._words: dict[str, dict[str, None]] = {}

    def new_id(self, kind: str) -> str:
        """Make an id that was never used."""
        return f"gid://shopify/{kind}/{next(self._numbers)}"

    def location_named(self, name: str) -> Location:
        """Return the location of that name, or fail."""
        return next(location for location in self.locations.values() if location.name == name)

    def rename_location(self, old: str, new: str) -> None:
        """Rename a location as a merchant does; its id stays."""
        location = self.location_named(old)
        self.locations[location.id] = replace(location, name=new)

    def by_handle(self, handle: str) -> ShopProduct | None:
        """Return the product of that handle, if there is one."""
        return self.products.get(self._handles.get(handle.lower(), ""))

    def by_sku(self, sku: str) -> list[ShopVariant]:
        """Return the variants of exactly that SKU, the oldest first: a shop allows several."""
        return [self.variants[variant_id] for variant_id in self._skus.get(sku, ())]

    def by_words(self, text: str) -> dict[str, None]:
        """Return the ids of the variants whose SKU contains all words of the text, in any order."""
        self._hidden = {own: until for own, until in self._hidden.items() if until > self._now()}
        sets = [self._words.get(word, {}) for word in WORD.findall(text.lower())]
        if not sets:
            return {}
        smallest = min(sets, key=len)
        return {
            match_id: None
            for match_id in smallest
            if match_id not in self._hidden and all(match_id in others for others in sets)
        }

    def level(self, item: str, location: str) -> Level | None:
        """Return the level of an item at a location, active or not."""
        return self._levels.get(item, {}).get(location)

    def levels(self, item: str) -> list[Level]:
        """Return the levels of an item in the order of the shop's locations."""
        held = self._levels.get(item, {})
        return [held[location] for location in self.locations if location in held]

    def put_level(self, level: Level) -> None:
        """Set the quantity at a location; that changes the product too."""
        self._levels.setdefault(level.item, {})[level.location] = level
        variant = self.variants.get(self.items.get(level.item, ""))
        if variant is not None:
            self._touch(variant.product)

    def changed_at(self, product_id: str) -> datetime:
        """Return when a product, a variant of it or its stock last changed."""
        return datetime.fromtimestamp(self.by_change.stamp(number(product_id)), UTC)

    def _touch(self, product_id: str) -> None:
        self.by_change.put(number(product_id), self._now().replace(microsecond=0))

    def put_product(self, product: ShopProduct) -> None:
        """Add or replace a product; its variants are put by themselves."""
        former = self.products.get(product.id)
        if former is not None:
            self._handles.pop(former.handle, None)
        self.products[product.id] = product
        self._handles[product.handle] = product.id
        self._touch(product.id)

    def hide_from_search(self, variant_id: str) -> None:
        """Let searches find a new variant only after the lag of the shop's index."""
        self._hidden[variant_id] = self._now() + timedelta(seconds=self.setup.search_lag_s)

    def put_variant(self, variant: ShopVariant) -> ShopVariant:
        """Add or replace a variant; return it as the shop keeps it."""
        former = self.variants.get(variant.id)
        variant = replace(
            variant,
            price=self._kept(variant.price),
            compare_at=None if variant.compare_at is None else self._kept(variant.compare_at),
            cost=None if variant.cost is None else self._kept(variant.cost),
        )
        self.variants[variant.id] = variant
        self.items[variant.item] = variant.id
        self._touch(variant.product)
        if former is None or former.sku != variant.sku:
            if former is not None:
                self._unlist(former)
            self._skus.setdefault(variant.sku, {})[variant.id] = None
            for word in WORD.findall(variant.sku.lower()):
                self._words.setdefault(word, {})[variant.id] = None
        return variant

    def _kept(self, amount: Decimal) -> Decimal:
        """Return an amount as the shop keeps it, with the digits of its currency."""
        return amount.quantize(Decimal(1).scaleb(-self.setup.digits), ROUND_HALF_UP)

    def drop_variant(self, variant_id: str) -> None:
        """Remove a variant with its stock."""
        variant = self.variants.pop(variant_id)
        self._unlist(variant)
        del self.items[variant.item]
        self._levels.pop(variant.item, None)

    def drop_product(self, product_id: str) -> None:
        """Remove a product with its variants."""
        product = self.products.pop(product_id)
        self._handles.pop(product.handle, None)
        self.by_change.drop(number(product_id))
        for variant_id in product.variants:
            self.drop_variant(variant_id)

    def free_handle(self, title: str) -> str:
        """Make a handle of a title, with a number behind it if it is taken."""
        base = "-".join(WORD.findall(title.lower())) or "product"
        names = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(1)))
        return next(name for name in names if name not in self._handles)

    def _unlist(self, variant: ShopVariant) -> None:
        self._skus[variant.sku].pop(variant.id, None)
        for word in WORD.findall(variant.sku.lower()):
            self._words[word].pop(variant.id, None)

    # What people change in a shop directly, and what they see in it.

    def seed_product(
        self,
        sku: str,
        *,
        price: Decimal = Decimal("10.00"),
        cost: Decimal | None = None,
        compare_at: Decimal | None = None,
        quantities: Mapping[str, int] | None = None,
        handle: str = "",
        title: str = "",
        status: str = "ACTIVE",
        tracked: bool = True,
        policy: str = "DENY",
    ) -> ShopIds:
        """Add a product as a merchant does: of one variant, stocked there, on every channel."""
        handle = handle or self.free_handle(title or sku)
        product = ShopProduct(id=self.new_id("Product"), handle=handle, title=title or sku)
        published = dict.fromkeys(self.publications, self._now())
        self.put_product(replace(product, status=status, published=published))
        ids = self.add_variant(product.id, sku, price=price, quantities=quantities)
        variant = self.variants[ids.variant]
        self.put_variant(
            replace(variant, cost=cost, compare_at=compare_at, tracked=tracked, policy=policy)
        )
        return ids

    def add_variant(
        self,
        product_id: str,
        sku: str,
        *,
        price: Decimal = Decimal("10.00"),
        quantities: Mapping[str, int] | None = None,
        options: tuple[tuple[str, str], ...] = DEFAULT_OPTIONS,
    ) -> ShopIds:
        """Add a tracked variant to a product, stocked at the locations named."""
        ids = ShopIds(
            product=product_id,
            variant=self.new_id("ProductVariant"),
            item=self.new_id("InventoryItem"),
        )
        self.put_variant(
            ShopVariant(
                id=ids.variant,
                item=ids.item,
                product=product_id,
                sku=sku,
                price=price,
                tracked=True,
                options=options,
            )
        )
        product = self.products[product_id]
        self.put_product(replace(product, variants=(*product.variants, ids.variant)))
        for name, quantity in (quantities or {}).items():
            location = self.location_named(name)
            self.put_level(Level(item=ids.item, location=location.id, quantity=quantity))
        return ids

    def shown(self, sku: str) -> ShopScreen | None:
        """Return what the shop shows of a SKU; of the oldest, should there be several."""
        variants = self.by_sku(sku)
        if not variants:
            return None
        variant = variants[0]
        product = self.products[variant.product]
        return ShopScreen(
            ids=ShopIds(product=product.id, variant=variant.id, item=variant.item),
            sku=sku,
            price=variant.price,
            compare_at=variant.compare_at,
            cost=variant.cost,
            tracked=variant.tracked,
            quantities={
                self.locations[level.location].name: level.quantity
                for level in self.levels(variant.item)
                if level.is_active
            },
            status=product.status,
            handle=product.handle,
            title=product.title,
            policy=variant.policy,
            channels=tuple(
                publication.name
                for publication in self.publications.values()
                if self.is_visible(product, publication.id)
            ),
        )

    def is_visible(self, product: ShopProduct, publication_id: str) -> bool:
        """Return True if customers see a product on a channel; a draft they never see."""
        return product.status == "ACTIVE" and publication_id in product.published

    def edit_channels(self, sku: str, channels: Sequence[str]) -> None:
        """Publish a product by hand on exactly these channels."""
        product = self.products[self.by_sku(sku)[0].product]
        chosen = {own.id: self._now() for own in self.publications.values() if own.name in channels}
        self.put_product(replace(product, published=chosen))

    def renumber(self, sku: str) -> ShopIds:
        """Delete a product and make it again: the same in all but its ids."""
        former = self.products[self.by_sku(sku)[0].product]
        variants = [self.variants[variant] for variant in former.variants]
        levels = {variant.id: self.levels(variant.item) for variant in variants}
        self.drop_product(former.id)
        product = replace(former, id=self.new_id("Product"), variants=())
        renewed = [
            replace(
                variant,
                id=self.new_id("ProductVariant"),
                item=self.new_id("InventoryItem"),
                product=product.id,
            )
            for variant in variants
        ]
        self.put_product(replace(product, variants=tuple(variant.id for variant in renewed)))
        for old, new in zip(variants, renewed, strict=True):
            self.put_variant(new)
            for level in levels[old.id]:
                self.put_level(replace(level, item=new.item))
        first = self.by_sku(sku)[0]
        return ShopIds(product=first.product, variant=first.id, item=first.item)

    def delete(self, sku: str) -> None:
        """Delete the product of a SKU."""
        self.drop_product(self.by_sku(sku)[0].product)

    def edit_price(self, sku: str, price: Decimal) -> None:
        """Change a price by hand."""
        self.put_variant(replace(self.by_sku(sku)[0], price=price))

    def edit_status(self, sku: str, status: str, *, is_suspended: bool = False) -> None:
        """Change by hand whether a product is for sale, or let the platform suspend it."""
        product = self.products[self.by_sku(sku)[0].product]
        self.put_product(replace(product, status=status, is_suspended=is_suspended))

    def sell(self, sku: str, location: str, quantity: int = 1) -> int:
        """Let a customer buy; return what is left there."""
        return self.stock(sku, location, delta=-quantity)

    def stock(self, sku: str, location: str, *, delta: int = 0, is_active: bool = True) -> int:
        """Move stock by hand, or stop stocking a SKU somewhere; return the new quantity."""
        item, place = self.by_sku(sku)[0].item, self.location_named(location).id
        level = self.level(item, place)
        quantity = (level.quantity if level else 0) + delta
        self.put_level(Level(item=item, location=place, quantity=quantity, is_active=is_active))
        return quantity


def pick(variants: Mapping[str, ShopVariant], ids: Iterable[str]) -> list[ShopVariant]:
    """Return those variants in the order of their age."""
    return [variants[variant_id] for variant_id in sorted(ids, key=number)]


def number(gid: str) -> int:
    """Return the number at the end of an id; 0 if it has none."""
    tail = gid.rpartition("/")[2]
    return int(tail) if tail.isdigit() else 0
