"""How everything new is found at Etsy; instants are whole seconds, as Etsy counts them."""

from headway.core.jobs import Kind
from headway.core.walk import Walk
from headway.core.walks.etsy_ledger import LedgerWalk
from headway.core.walks.etsy_listings import ListingsWalk
from headway.core.walks.etsy_receipts import ReceiptsWalk
from headway.errors import InvariantError

__all__ = ["LedgerWalk", "ListingsWalk", "ReceiptsWalk", "walk_of"]


def walk_of(kind: Kind, *, is_backfill: bool) -> Walk:
    """Return how a job of this kind walks a shop; Etsy tells buyers only on their orders."""
    if kind is Kind.ORDERS:
        return ReceiptsWalk(is_backfill=is_backfill)
    if kind is Kind.PAYMENTS:
        return LedgerWalk(is_backfill=is_backfill)
    if kind is Kind.LISTINGS and not is_backfill:
        return ListingsWalk()
    raise InvariantError(f"etsy has no such job: {kind}{' backfill' if is_backfill else ''}")
