"""One call as the watch sees it: who made it to whom, how long it waited and took, how it ended."""

from dataclasses import dataclass
from datetime import datetime

from headway.core.catalog.listings import SellerId

ANSWERED = "answered"
# A permit that was handed back: nobody was called.
UNUSED = "unused"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A permit that was begun and settled; `ended` is the word of the error, if there was one.

    `seller` is None where all sellers share the call, as they do the supplier's.
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
