"""Faults of a simulated supplier: rates, outages, and SKUs with a fault of their own.

Seconds count from the simulator's start. The same seed and the same arrivals give the same faults.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from headway.clock import Rng, rng
from headway.errors import ConfigError


class SimulatedFault(StrEnum):
    """A fault of one call; the last two happen in outages only."""

    ERROR = "error"
    TIMEOUT = "timeout"
    SLOW = "slow"
    TRUNCATE = "truncate"
    HTML = "html"
    DUPLICATE = "duplicate"
    DROP = "drop"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"


class BadPrice(StrEnum):
    """A fault of one SKU's price."""

    ZERO = "zero"
    NEGATIVE = "negative"
    TEXT = "text"
    CURRENCY = "currency"
    EXTREME = "extreme"


class Contradiction(StrEnum):
    """A line that contradicts itself, or what it was before."""

    STOCK = "stock"
    CURRENCY = "currency"
    ERROR = "error"
    STATUS = "status"
    SUPERSEDED = "superseded"
    REPLACED = "replaced"
    UNIT = "unit"
    MINIMUM = "minimum"


class Poison(StrEnum):
    """What a call comes to whenever one particular SKU is in it."""

    ERROR = "500"
    REFUSED = "400"
    EMPTY = "empty"
    NAMELESS = "nameless"
    THROTTLED = "429"
    UNAUTHORIZED = "401"
    TIMEOUT = "timeout"


RATED = tuple(
    fault
    for fault in SimulatedFault
    if fault not in {SimulatedFault.UNAVAILABLE, SimulatedFault.REFUSED}
)
OUTAGE_FORMS = (SimulatedFault.UNAVAILABLE, SimulatedFault.REFUSED, SimulatedFault.TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """From `start_s` until just before `end_s`."""

    start_s: float
    end_s: float

    def holds(self, at_s: float) -> bool:
        """Return True if that second is inside."""
        return self.start_s <= at_s < self.end_s


F = TypeVar("F", bound=StrEnum)


class CallFaults(Generic[F]):
    """Faults of calls: each kind at its rate, and alternating forms in an outage."""

    def __init__(
        self,
        generator: Rng,
        *,
        rates: dict[F, float],
        forms: Sequence[F],
        outage: Sequence[Interval],
        slow_s: tuple[float, float],
    ) -> None:
        self._generator = generator
        self._rates = rates
        self._forms = forms
        self._outages = tuple(outage)
        self._slow_s = slow_s
        self._outage_calls = 0
        self.injected: Counter[str] = Counter()

    def outages(self) -> tuple[Interval, ...]:
        """Return the outages, so that a check may excuse them."""
        return self._outages

    def call_fault(self, at_s: float) -> F | None:
        """Draw the fault of the call that arrives now, if any."""
        if any(interval.holds(at_s) for interval in self._outages):
            self._outage_calls += 1
            return self._forms[self._outage_calls % len(self._forms)]
        if not self._rates:
            return None
        draw = self._generator.random()
        for fault, rate in self._rates.items():
            draw -= rate
            if draw < 0:
                return fault
        return None

    def slowness_s(self) -> float:
        """Draw how long a slow reply takes."""
        return self._generator.uniform(*self._slow_s)

    def chance(self) -> bool:
        """Toss a coin."""
        return self._generator.random() < 0.5  # noqa: PLR2004 - a fair one


class FaultPlan(CallFaults[SimulatedFault]):
    """All that will go wrong; `injected` counts what did, by kind."""

    def __init__(
        self,
        seed: int = 0,
        *,
        rates: Mapping[str, float] | None = None,
        outage: Sequence[Interval] = (),
        poison: Collection[str] | Mapping[str, Poison] = (),
        vanish: Mapping[str, Interval] | None = None,
        badprice: Mapping[str, tuple[BadPrice, Interval]] | None = None,
        contradict: Mapping[str, tuple[Contradiction, Interval]] | None = None,
        renames: Mapping[str, tuple[str, Interval]] | None = None,
        no_currency: Sequence[Interval] = (),
        slow_s: tuple[float, float] = (5.0, 25.0),
    ) -> None:
        super().__init__(
            rng(f"faults {seed}"),
            rates=checked_rates(rates or {}, RATED, "fault"),
            forms=OUTAGE_FORMS,
            outage=outage,
            slow_s=slow_s,
        )
        self._poison = (
            dict(poison) if isinstance(poison, Mapping) else dict.fromkeys(poison, Poison.ERROR)
        )
        self._vanish = dict(vanish or {})
        self._badprice = dict(badprice or {})
        self._contradict = dict(contradict or {})
        self._renames = dict(renames or {})
        self._no_currency = tuple(no_currency)

    def poison_in(self, skus: Collection[str]) -> Poison | None:
        """Return what a call with these SKUs comes to, if one of them spoils it."""
        return next((self._poison[sku] for sku in skus if sku in self._poison), None)

    def heal(self) -> None:
        """End the fault of poisoned SKUs."""
        self._poison = {}

    def is_vanished(self, sku: str, at_s: float) -> bool:
        """Return True if this SKU is missing at the supplier now."""
        interval = self._vanish.get(sku)
        return interval is not None and interval.holds(at_s)

    def bad_price(self, sku: str, at_s: float) -> BadPrice | None:
        """Return the fault of this SKU's price now, if any."""
        if sku not in self._badprice:
            return None
        form, interval = self._badprice[sku]
        return form if interval.holds(at_s) else None

    def contradiction(self, sku: str, at_s: float) -> Contradiction | None:
        """Return how this SKU's line contradicts itself now, if it does."""
        form, interval = self._contradict.get(sku, (None, None))
        return form if interval is not None and interval.holds(at_s) else None

    def place_name(self, place: str, at_s: float) -> str:
        """Return what the supplier calls a location now."""
        name, interval = self._renames.get(place, (place, None))
        return name if interval is not None and interval.holds(at_s) else place

    def hides_currency(self, at_s: float) -> bool:
        """Return True if replies name no currency now."""
        return any(interval.holds(at_s) for interval in self._no_currency)

    def cut(self, length: int) -> int:
        """Draw how much of a body of that length is left."""
        return self._generator.randrange(max(1, length))


def checked_rates(rates: Mapping[str, float], rated: Sequence[F], label: str) -> dict[F, float]:
    """Return the rates by kind, in the order of the kinds; raises ConfigError."""
    if unknown := sorted(set(rates) - set(rated)):
        raise ConfigError(f"unknown {label} {unknown[0]}; known are {', '.join(rated)}")
    if any(rate < 0 for rate in rates.values()) or sum(rates.values()) > 1:
        raise ConfigError("fault rates are shares of all calls; keep their sum between 0 and 1")
    return {fault: rates[fault] for fault in rated if rates.get(fault)}
