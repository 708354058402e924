"""Requests to publish: a part is published, under way, to be requested, or refused."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from headway.core.catalog.intake import ImportedPart, ShopSkuForm, part_key, shop_sku
from headway.core.catalog.listings import Sku

NAMED_MAX = 5
REFUSED = "refused"
UNDER_WAY = {"requested", "normalized"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStanding:
    """What is stored of a requested part: as a product of the shop, and as an earlier request."""

    sku: Sku
    product_shop_sku: str | None
    product_id: str | None
    staged_shop_sku: str | None
    staged_status: str | None

    def part(self, form: ShopSkuForm) -> ImportedPart:
        """Return the part as published, as under way, or as requested now."""
        if self.product_id is not None:
            assert self.product_shop_sku is not None, "a product has a shop SKU"
            return ImportedPart(
                sku=self.sku,
                shop_sku=self.product_shop_sku,
                # Only the shop can tell that it is visible.
                status="published" if self.staged_status == "published" else "created",
                shopify_product_id=self.product_id,
            )
        if self.staged_status in UNDER_WAY:
            assert self.staged_shop_sku is not None, "a staged part has a shop SKU"
            return ImportedPart(
                sku=self.sku, shop_sku=self.staged_shop_sku, status=self.staged_status
            )
        name = self.product_shop_sku or shop_sku(self.sku, form)
        return ImportedPart(sku=self.sku, shop_sku=name, status="requested")


def refuse_respelled(
    parts: Sequence[ImportedPart], listed: Mapping[Sku, Sku]
) -> list[ImportedPart]:
    """Refuse requests for a part that is listed, or was asked for, under another spelling.

    `listed` has the listed spelling of each part number that is listed under another one only.
    """
    first: dict[str, Sku] = {}
    judged = []
    for part in parts:
        other = listed.get(part.sku) or first.setdefault(part_key(part.sku), part.sku)
        if other != part.sku:
            reason = f"it differs from {other} only in case or spaces; ask for that one"
            if part.sku in listed:
                reason += ", or remove it first: headway remove"
            part = replace(part, status=REFUSED, reason=reason)  # noqa: PLW2901 - as it is judged
        judged.append(part)
    return judged


def refuse_removed(parts: Sequence[ImportedPart], removed: AbstractSet[Sku]) -> list[ImportedPart]:
    """Refuse requests for parts that a person removed."""
    reason = "it was removed; bring it back first: headway revive"
    return [
        replace(part, status=REFUSED, reason=reason) if part.sku in removed else part
        for part in parts
    ]


def refuse_taken(
    parts: Sequence[ImportedPart], owners: Iterable[tuple[str, Sku]]
) -> list[ImportedPart]:
    """Refuse requests whose shop SKU belongs to another part, or is requested for two of them."""
    by_name = defaultdict(set)
    for name, sku in owners:
        by_name[name].add(sku)
    parts = [_unless_taken(part, by_name[part.shop_sku] - {part.sku}) for part in parts]
    rivals = defaultdict(list)
    for part in parts:
        if part.status == "requested":
            rivals[part.shop_sku].append(part.sku)
    return [_unless_rivalled(part, rivals[part.shop_sku]) for part in parts]


def _unless_taken(part: ImportedPart, others: set[Sku]) -> ImportedPart:
    if part.status != "requested" or not others:
        return part
    reason = f"its shop SKU {part.shop_sku} is that of {min(others)}"
    return replace(part, status=REFUSED, reason=reason)


def _unless_rivalled(part: ImportedPart, rivals: Sequence[Sku]) -> ImportedPart:
    if part.status != "requested" or len(rivals) == 1:
        return part
    others = " and ".join([sku for sku in rivals if sku != part.sku][:NAMED_MAX])
    reason = f"{others} would have the same shop SKU {part.shop_sku}; ask for one of them"
    return replace(part, status=REFUSED, reason=reason)
