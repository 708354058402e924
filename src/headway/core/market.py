"""The market of seats: what a look at a listing is worth, and the going price of a seat.

Values only. `rates` learns how often listings change, `families` who changes together, and
`policies.adaptive` decides when to look.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headway.core.families import Family
from headway.core.rates import Prior, Recency


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What is known of the whole catalogue, as one call finds it.

    `price` is the going price of a seat in minutes of expected staleness; None before the first
    call, when it follows from the prior. `families` holds those of the listings aboard.
    """

    listings: int
    seats_per_min: float
    price: float | None = None
    prior: Prior = field(default_factory=Prior)
    recency: Recency = field(default_factory=Recency)
    families: Mapping[str, Family] = field(default_factory=dict)
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Companions of a family to be read now: those last read before an instant, oldest first.

    Without a limit, all of them.
    """

    family: str
    read_before: datetime
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one call taught.

    Counts are added to the market's, so that calls that end at once do not overwrite one another; a
    family is replaced.
    `lag_min` is how late the last listing was that had a due time of its own; the price follows it.
    Families in `spares` are no longer swept: whoever waits gets its own due time back.
    """

    lag_min: float | None = None
    hits: Sequence[float] = ()
    hits_expected: Sequence[float] = ()
    families: Sequence[Family] = ()
    sweeps: Sequence[Sweep] = ()
    spares: Sequence[str] = ()
