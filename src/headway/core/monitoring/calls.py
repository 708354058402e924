"""The record of one call for metrics and traces."""

from dataclasses import dataclass
from datetime import datetime

from headway.core.catalog.listings import SellerId

ANSWERED = "answered"
# The permit was returned unused; no call was made.
UNUSED = "unused"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A call from its permit to its settlement; `ended` names the error, if there was one.

    `seller` is None for calls that all sellers share, such as those to a supplier.
    """

    id: str
    verb: str
    provider: str
    seller: SellerId | None
    begun_at: datetime
    waited_s: float
    took_s: float
    ended: str
    http_status: int | None = None
    seats_used: int = 0
    seats_paid: int = 0
