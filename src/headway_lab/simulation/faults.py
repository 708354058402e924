"""Parser of `--fault`: short texts that say what goes wrong, turned into the simulators' plans."""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from headway.clock import rng
from headway.core.catalog.listings import Sku
from headway.core.pauses import PauseKind
from headway.errors import InvalidError
from headway_lab.simulation.known_faults import CATALOG_FAULTS
from headway_lab.simulation.world import MAPPED
from headway_lab.simulators.faults import BadPrice, Contradiction, FaultPlan, Interval, Poison
from headway_lab.simulators.shopify.faults import ShopFaultPlan, ShopPoison, ShopPoisonForm

Form = TypeVar("Form")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
CALL_FAULTS = ("timeout", "error", "slow", "truncate", "html", "drop", "duplicate")
SHOP = "shop-"
SHOP_FAULTS = ("lost-reply", "lost-request", "error", "slow", "html", "throttle")
PAUSES = {
    "pause": PauseKind.ALL,
    "pause-supplier": PauseKind.SUPPLIER,
    "pause-seller": PauseKind.SELLER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPause:
    """Something that a person pauses, and for how long."""

    kind: PauseKind
    span: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """All faults of a run."""

    specs: tuple[str, ...] = ()
    outages: tuple[Interval, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    crashes_per_h: float = 0.0
    stalls_per_h: float = 0.0
    absences: tuple[Interval, ...] = ()
    skew_max_s: float = 0.0
    poison: int = 0
    vanish: tuple[tuple[int, float], ...] = ()
    badprice: tuple[tuple[int, float], ...] = ()
    contradict: tuple[tuple[int, float], ...] = ()
    renames: tuple[tuple[int, float], ...] = ()
    no_currency: tuple[Interval, ...] = ()
    shop_outages: tuple[Interval, ...] = ()
    shop_shares: Mapping[str, float] = field(default_factory=dict)
    shop_poison: int = 0
    shop_stale: tuple[tuple[int, float], ...] = ()
    shop_edits_per_h: float = 0.0
    shop_sales_per_h: float = 0.0
    planned_pauses: tuple[PlannedPause, ...] = ()

    @property
    def silences(self) -> tuple[Interval, ...]:
        """Return when the supplier does not answer, must not be called, or all workers are away."""
        return (*self.outages, *self.absences, *(pause.span for pause in self.planned_pauses))

    @property
    def shop_silences(self) -> tuple[Interval, ...]:
        """Return when shops do not answer, must not be written to, or all workers are away."""
        planned_pauses = (
            pause.span for pause in self.planned_pauses if pause.kind is not PauseKind.SUPPLIER
        )
        return (*self.shop_outages, *self.absences, *planned_pauses)

    @property
    def is_deadly(self) -> bool:
        """Return True if workers crash or freeze."""
        return self.crashes_per_h > 0 or self.stalls_per_h > 0 or bool(self.absences)

    def shop_plan(self, *, seed: int, poison: Sequence[ShopPoison] = ()) -> ShopFaultPlan:
        """Return the shops' plan for the whole run."""
        return ShopFaultPlan(seed, rates=self.shop_shares, outage=self.shop_outages, poison=poison)

    def affected(
        self, skus: Sequence[Sku], *, seed: int, changing: Collection[str] = ()
    ) -> "AffectedParts":
        """Choose the affected SKUs; the same seed chooses the same.

        A shop is called about `changing` SKUs, so those that spoil such calls are of them.
        """
        fated = sum(count for count, _ in (*self.vanish, *self.badprice, *self.contradict))
        fated += self.poison + self.shop_poison
        if fated > len(skus):
            raise InvalidError(f"--fault: {fated} SKUs are to suffer but there are {len(skus)}")
        order: list[str] = sorted(skus)
        rng(f"fates:{seed}").shuffle(order)
        taken = iter(order)
        vanish = {next(taken): Interval(start_s=at, end_s=math.inf) for at in _each(self.vanish)}
        badprice = _in_turn(self.badprice, list(BadPrice), taken)
        contradict = _in_turn(self.contradict, list(Contradiction), taken)
        forms = list(Poison)
        poison = {next(taken): forms[index % len(forms)] for index in range(self.poison)}
        shop_forms = list(ShopPoisonForm)
        left = sorted(taken, key=lambda sku: sku not in changing)
        shop_poison = tuple(
            ShopPoison(sku=sku, form=shop_forms[index % len(shop_forms)])
            for index, sku in enumerate(left[: self.shop_poison])
        )
        return AffectedParts(
            poison=poison,
            vanish=vanish,
            badprice=badprice,
            contradict=contradict,
            renames=_renames(self.renames),
            shop_poison=shop_poison,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedParts:
    """The SKUs with a fault, one fault each, and the locations with another name."""

    poison: Mapping[str, Poison] = field(default_factory=dict)
    vanish: Mapping[str, Interval] = field(default_factory=dict)
    badprice: Mapping[str, tuple[BadPrice, Interval]] = field(default_factory=dict)
    contradict: Mapping[str, tuple[Contradiction, Interval]] = field(default_factory=dict)
    renames: Mapping[str, tuple[str, Interval]] = field(default_factory=dict)
    shop_poison: tuple[ShopPoison, ...] = ()

    def affects(self, sku: str) -> bool:
        """Return True if this SKU has a fault of its own at the supplier."""
        faults = (self.poison, self.vanish, self.badprice, self.contradict)
        return any(sku in affected for affected in faults)

    def is_contradicting(self, sku: str, at_s: float) -> bool:
        """Return True if this SKU's line contradicts itself then."""
        return sku in self.contradict and self.contradict[sku][1].holds(at_s)

    def is_renamed(self, places: Collection[str], at_s: float) -> bool:
        """Return True if the supplier uses an unknown name for one of these locations then."""
        return any(
            place in self.renames
            and self.renames[place][1].holds(at_s)
            and self.renames[place][0].casefold() != place.casefold()
            for place in places
        )

    @property
    def unwritable(self) -> frozenset[str]:
        """The SKUs that spoil every call to their shop."""
        return frozenset(poison.sku for poison in self.shop_poison)

    def plan(self, faults: Faults, *, seed: int) -> FaultPlan:
        """Return the simulator's plan for the whole run."""
        return FaultPlan(
            seed,
            rates=faults.shares,
            outage=faults.outages,
            poison=self.poison,
            vanish=self.vanish,
            badprice=self.badprice,
            contradict=self.contradict,
            renames=self.renames,
            no_currency=faults.no_currency,
        )


def parse_faults(specs: Sequence[str]) -> Faults:
    """Read all specs of a run; raises InvalidError that shows how to write one."""
    values: dict[str, list[tuple[float, float]]] = {}
    for spec in specs:
        kind, _, rest = spec.partition(":")
        if kind not in READERS:
            raise InvalidError(f"--fault {spec!r} is not known; known: {CATALOG_FAULTS}")
        try:
            values.setdefault(kind, []).append(READERS[kind](rest))
        except ValueError:
            shown = " or ".join(
                piece for piece in CATALOG_FAULTS.split(", ") if piece.startswith(f"{kind}:")
            )
            raise InvalidError(f"--fault {spec!r} cannot be read; write it as {shown}") from None

    def total(kind: str) -> float:
        return sum(first for first, _ in values.get(kind, ()))

    def shares(kinds: Sequence[str], prefix: str = "") -> dict[str, float]:
        return {kind: total(prefix + kind) for kind in kinds if prefix + kind in values}

    def intervals(kind: str) -> tuple[Interval, ...]:
        spans = values.get(kind, ())
        return tuple(Interval(start_s=at, end_s=at + length) for length, at in spans)

    def counts(kind: str) -> tuple[tuple[int, float], ...]:
        return tuple((int(count), at) for count, at in values.get(kind, ()))

    calls, shop_calls = shares(CALL_FAULTS), shares(SHOP_FAULTS, SHOP)
    if max(sum(calls.values()), sum(shop_calls.values())) > 1:
        raise InvalidError("--fault: the shares of calls add up to more than 100 %; lower them")
    return Faults(
        specs=tuple(specs),
        outages=intervals("outage"),
        shares=calls,
        crashes_per_h=total("crash"),
        stalls_per_h=total("stall"),
        absences=intervals("away"),
        skew_max_s=max((first for first, _ in values.get("clock", ())), default=0.0),
        poison=int(total("poison")),
        vanish=counts("vanish"),
        badprice=counts("badprice"),
        contradict=counts("contradict"),
        renames=counts("rename"),
        no_currency=intervals("no-currency"),
        shop_outages=intervals("shop-outage"),
        shop_shares=shop_calls,
        shop_poison=int(total("shop-poison")),
        shop_stale=counts("shop-stale"),
        shop_edits_per_h=total("shop-edit"),
        shop_sales_per_h=total("shop-sale"),
        planned_pauses=tuple(
            PlannedPause(kind=kind, span=span)
            for name, kind in PAUSES.items()
            for span in intervals(name)
        ),
    )


def _match(pattern: str, text: str) -> tuple[str, ...]:
    match = re.fullmatch(pattern, text, re.ASCII)
    if not match:
        raise ValueError(text)
    return tuple(group or "" for group in match.groups())


def _instant(text: str) -> float:
    """Read `10:00` or `1d10:00` as seconds from the start."""
    days, hour, minute = _match(r"(?:(\d{1,4})d)?([01]?\d|2[0-3]):([0-5]\d)", text)
    return int(days or 0) * 86_400 + int(hour) * 3600 + int(minute) * 60


def _span_at(text: str) -> tuple[float, float]:
    number, unit, at = _match(r"(\d{1,6}(?:\.\d+)?)([smhd])@(.+)", text)
    length_s = float(number) * SECONDS[unit]
    if length_s <= 0:
        raise ValueError(text)
    return length_s, _instant(at)


def _span(text: str) -> tuple[float, float]:
    number, unit = _match(r"[±+]?(\d{1,6}(?:\.\d+)?)([smh])", text)
    return float(number) * SECONDS[unit], 0.0


def _share(text: str) -> tuple[float, float]:
    (number,) = _match(r"(\d{1,3}(?:\.\d+)?)%", text)
    if not 0 <= float(number) <= 100:  # noqa: PLR2004 - per cent
        raise ValueError(text)
    return float(number) / 100, 0.0


def _per_hour(text: str) -> tuple[float, float]:
    number, unit = _match(r"(\d{1,6}(?:\.\d+)?)/([mhd])", text)
    return float(number) * 3600 / SECONDS[unit], 0.0


def _count_at(text: str) -> tuple[float, float]:
    count, at = _match(r"(\d{1,9})(?:@(.+))?", text)
    return int(count), _instant(at) if at else 0.0


def _count(text: str) -> tuple[float, float]:
    (count,) = _match(r"(\d{1,9})", text)
    return int(count), 0.0


def _each(counts: Sequence[tuple[int, float]]) -> list[float]:
    return [at for count, at in counts for _ in range(count)]


def _in_turn(
    counts: Sequence[tuple[int, float]], forms: Sequence[Form], taken: Iterator[str]
) -> dict[str, tuple[Form, Interval]]:
    """Give the next SKUs a fault each, of all forms in turn, from then on."""
    return {
        next(taken): (forms[index % len(forms)], Interval(start_s=at, end_s=math.inf))
        for index, at in enumerate(_each(counts))
    }


def _renames(counts: Sequence[tuple[int, float]]) -> dict[str, tuple[str, Interval]]:
    """Rename the first locations: every second one only in its case, from then on."""
    return {
        place: (
            place.upper() if index % 2 else f"{place} Warehouse",
            Interval(start_s=at, end_s=math.inf),
        )
        for index, (place, at) in enumerate(zip(MAPPED, _each(counts), strict=False))
    }


READERS: Mapping[str, Callable[[str], tuple[float, float]]] = {
    **dict.fromkeys(CALL_FAULTS, _share),
    "outage": _span_at,
    "crash": _per_hour,
    "stall": _per_hour,
    "away": _span_at,
    "clock": _span,
    "poison": _count,
    "vanish": _count_at,
    "badprice": _count_at,
    "contradict": _count_at,
    "rename": _count_at,
    "no-currency": _span_at,
    **{SHOP + kind: _share for kind in SHOP_FAULTS},
    "shop-outage": _span_at,
    "shop-poison": _count,
    "shop-stale": _count_at,
    "shop-edit": _per_hour,
    "shop-sale": _per_hour,
    **dict.fromkeys(PAUSES, _span_at),
}
