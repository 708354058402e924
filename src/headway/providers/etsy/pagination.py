"""How everything new is found at Etsy; instants are whole seconds, as Etsy counts them."""

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.pagination import Paginator
from headway.errors import InvariantError
from headway.providers.etsy.ledger_pages import LedgerWalk
from headway.providers.etsy.listing_pages import ListingsWalk
from headway.providers.etsy.receipt_pages import ReceiptsWalk

__all__ = ["LedgerWalk", "ListingsWalk", "ReceiptsWalk", "paginator_of"]


def paginator_of(kind: DataKind, *, is_backfill: bool) -> Paginator:
    """Return how a job of this kind pages through a shop; Etsy shows buyers only on orders."""
    if kind is DataKind.ORDERS:
        return ReceiptsWalk(is_backfill=is_backfill)
    if kind is DataKind.PAYMENTS:
        return LedgerWalk(is_backfill=is_backfill)
    if kind is DataKind.LISTINGS and not is_backfill:
        return ListingsWalk()
    raise InvariantError(f"etsy has no such job: {kind}{' backfill' if is_backfill else ''}")
