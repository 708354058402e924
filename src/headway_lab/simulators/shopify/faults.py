"""Faults of a simulated shop: shares of calls, outages, and products that spoil every call.

Seconds count from the simulator's start. The same seed and the same calls give the same faults.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headway.clock import rng
from headway_lab.simulators.faults import CallFaults, Interval, checked_rates


class ShopFault(StrEnum):
    """A fault of one call; the last three happen in outages only."""

    LOST_REPLY = "lost-reply"  # applied, but the reply never comes
    LOST_REQUEST = "lost-request"  # lost before it was applied
    ERROR = "error"  # 502 before it was applied
    SLOW = "slow"
    THROTTLE = "throttle"  # someone else of our app has just emptied the bucket
    HTML = "html"  # a page instead of the answer, applied or not
    DOWN = "down"
    REFUSED = "refused"
    SILENT = "silent"


OUTAGE_FORMS = (ShopFault.DOWN, ShopFault.REFUSED, ShopFault.SILENT)
RATED = tuple(fault for fault in ShopFault if fault not in OUTAGE_FORMS)


class ShopPoisonForm(StrEnum):
    """What a call comes to whenever one particular product is in it; nothing is written."""

    INTERNAL = "internal"  # 200 with INTERNAL_SERVER_ERROR, and no data
    BAD_GATEWAY = "502"  # a page
    VARIABLE = "variable"  # 200 with INVALID_VARIABLE, and no data


ALWAYS = Interval(start_s=0.0, end_s=math.inf)
POISON_ERRORS = {
    ShopPoisonForm.INTERNAL: (
        "INTERNAL_SERVER_ERROR",
        "Internal error. Looks like something went wrong on our end.",
    ),
    ShopPoisonForm.VARIABLE: (
        "INVALID_VARIABLE",
        "Variable of type ID! was provided invalid value",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopPoison:
    """A SKU that spoils calls: to these root fields, or to all that name it, while it lasts."""

    sku: str
    form: ShopPoisonForm = ShopPoisonForm.INTERNAL
    fields: frozenset[str] = frozenset()
    span: Interval = ALWAYS

    def spoils(
        self, fields: Collection[str], variables: object, ids: Collection[str], at_s: float
    ) -> bool:
        """Return True if a call with these fields and variables fails; `ids` are the SKU's own."""
        if not self.span.holds(at_s) or (self.fields and self.fields.isdisjoint(fields)):
            return False
        return any(
            text == self.sku or text in ids or ("sku:" in text and f'"{self.sku}"' in text)
            for text in _texts(variables)
        )


def _texts(value: object) -> Iterator[str]:
    """Yield every text inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


class ShopFaultPlan(CallFaults[ShopFault]):
    """All that will go wrong; `injected` counts what did, by kind."""

    def __init__(
        self,
        seed: int = 0,
        *,
        rates: Mapping[str, float] | None = None,
        outage: Sequence[Interval] = (),
        slow_s: tuple[float, float] = (5.0, 25.0),
        poison: Sequence[ShopPoison] = (),
    ) -> None:
        super().__init__(
            rng(f"shop faults {seed}"),
            rates=checked_rates(rates or {}, RATED, "shop fault"),
            forms=OUTAGE_FORMS,
            outage=outage,
            slow_s=slow_s,
        )
        self.poison = poison

    def call_fault(self, at_s: float) -> ShopFault | None:
        """Draw the fault of the call that arrives now, if any, and count it."""
        fault = super().call_fault(at_s)
        if fault is not None:
            self.injected[fault] += 1
        return fault

    def poison_in(
        self,
        fields: Collection[str],
        variables: Mapping[str, Any],
        ids_of: Callable[[str], Collection[str]],
        at_s: float,
    ) -> ShopPoisonForm | None:
        """Return how a call fails because of a product in it, if it does, and count it."""
        for poison in self.poison:
            if poison.spoils(fields, variables, ids_of(poison.sku), at_s):
                self.injected["poison"] += 1
                return poison.form
        return None
