"""Shopify's own export of products, as rows of an import.

Its columns have other names than ours, a product with several variants takes several rows of which
only the first names it, and a product with several images takes rows without a variant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headway.errors import InvalidError

# Ours, and what the export has called it over the years.
NAMES: Mapping[str, tuple[str, ...]] = {
    "handle": ("handle", "url handle"),
    "sku": ("variant sku", "sku"),
    "title": ("title",),
    "option1": ("option1 value",),
    "option2": ("option2 value",),
    "option3": ("option3 value",),
    "price": ("variant price", "price"),
}
COLUMNS = ("sku", "shop_sku", "title")
NO_OPTION = "default title"


@dataclass(kw_only=True)
class ShopExport:
    """Where the columns of an export are, and the titles of the products so far."""

    places: Mapping[str, int]
    width: int
    titles: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, header: Sequence[str]) -> "ShopExport | None":
        """Return the export that has this header; None if it is another file."""
        names = [name.strip().lower() for name in header]
        places = {
            ours: names.index(theirs)
            for ours, aliases in NAMES.items()
            for theirs in aliases
            if theirs in names
        }
        if not {"handle", "sku", "title"} <= places.keys():
            return None
        return cls(places=places, width=len(names))

    def row(self, cells: Sequence[str]) -> list[str] | None:
        """Return the cells under `COLUMNS`; None for a row that is only an image of a product.

        Raises InvalidError for a variant without a SKU.
        """
        if any(cells[self.width :]):
            raise InvalidError(f"{len(cells)} cells under {self.width} columns")
        handle, sku, title = (self._cell(cells, name) for name in ("handle", "sku", "title"))
        title = self.titles.setdefault(handle, title) or title
        options = [self._cell(cells, f"option{number}") for number in (1, 2, 3)]
        if not sku:
            if any(options) or self._cell(cells, "price"):
                raise InvalidError(
                    f"sku: the variant of {handle} has none; give it one in the shop"
                )
            return None
        kinds = [option for option in options if option and option.lower() != NO_OPTION]
        return [sku, sku, " ".join([title, *kinds]).strip()]

    def _cell(self, cells: Sequence[str], name: str) -> str:
        place = self.places.get(name, self.width)
        return cells[place].strip() if place < len(cells) else ""
