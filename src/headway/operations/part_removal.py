"""Remove parts: they are neither read nor written any more."""

from headway.core.access import Need
from headway.operations.callers import Caller
from headway.operations.changes import ERRORS, Rulings, ruled
from headway.operations.inputs import ReasonText, RequestBody, SellerText, Skus, example
from headway.operations.listing_search import for_each_listing
from headway.operations.operation import operation
from headway.store.catalog.part_removal import InShop, PartRemoval


class RemovalOfParts(RequestBody):
    """Parts to remove, and what becomes of their products in the shop."""

    model_config = example({"skus": ["WF338109=K3"], "seller": "acme", "in_shop": "keep"})
    skus: Skus
    """The parts. Example: `["WF338109=K3"]`"""
    seller: SellerText | None = None
    """Whose parts, if several sellers list them. Example: `acme`"""
    in_shop: InShop = "draft"
    """`draft` takes the products off sale, `keep` leaves them as they are."""
    reason: ReasonText = ""
    """Why, for the history. Example: `a typing error`"""


@operation(
    "POST", "/api/sync/remove", need=Need.WRITE, tag="products", errors=ERRORS,
    name="remove_products",
)  # fmt: skip
def remove(caller: Caller, body: RemovalOfParts) -> Rulings:
    """Remove parts: they are neither read nor written any more, until somebody revives them."""
    removal = PartRemoval(caller.shared.pool)  # what is left in the shop belongs to nobody then
    return ruled(
        for_each_listing(
            caller,
            body.skus,
            body.seller,
            lambda user_id, skus: removal.remove(
                user_id, skus, in_shop=body.in_shop, reason=body.reason, now=caller.now
            ),
        )
    )
