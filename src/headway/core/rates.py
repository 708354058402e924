"""How often a listing changes, learned by Bayes from what reads found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """How change rates are spread over the catalogue."""

    shares: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recency:
    """How much more often a listing changes that changed lately, by time since that change."""

    hits: tuple[float, ...] = ()
    hits_expected: tuple[float, ...] = ()
