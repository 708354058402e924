"""Families: listings that change together, and whether one of them just did so.

A change of a member opens an episode: was it a price list that hit a share of the family, or a
change of its own? The next reads of the family show it. How often it is a list, and what share a
list hits, is learned: for all families together, and for each.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

# What share of a family a list may hit; which of these it does is learned.
SHARES = (0.12, 0.35, 0.7)
# Lists a day and family before anything is known, each share as likely as the others.
LISTS_A_DAY = 0.5 / 30 / len(SHARES)
# The number of expected lists that weighs as much as the prior: for all families, for one.
SMOOTHING_ALL, SMOOTHING_ONE = 3.0, 1.0
FACTOR_MIN = 0.001
FACTOR_MAX = 30.0
KEPT_A_DAY = 0.97
# An episode that is so unlikely to be a list is over.
HOPELESS = 0.0005
ODDS_MAX = 1e9
DAY = timedelta(days=1)

Odds = tuple[float, ...]
NONE: Odds = (0.0,) * len(SHARES)


def chances(odds: Odds) -> Odds:
    """Return how likely a list of each share is, against a change of its own (odds of 1)."""
    total = 1 + sum(odds)
    return tuple(odd / total for odd in odds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A change of one member, and what reads of its companions have shown since.

    If it was a list, it came between `began_at` and `opened_at`. `asked` companions were to be
    swept so far, all of them if `asks_all`; `answered` counts those that were read.
    """

    began_at: datetime
    opened_at: datetime
    odds: Odds
    odds_first: Odds
    asked: int = 0
    answered: int = 0
    asks_all: bool = False

    @property
    def chance(self) -> float:
        """Probability that the change was a price list."""
        return sum(chances(self.odds))

    @property
    def hit_chance(self) -> float:
        """Probability that a companion not read since has changed too."""
        return sum(map(float.__mul__, chances(self.odds), SHARES))

    def missed_by(self, read_at: datetime) -> float:
        """Return how likely a read at that time came before the list."""
        span = (self.opened_at - self.began_at).total_seconds()
        if span <= 0:
            return 1.0 if read_at < self.opened_at else 0.0
        return min(1.0, max(0.0, (self.opened_at - read_at).total_seconds() / span))

    def after(self, *, read_at: datetime, own_chance: float, has_changed: bool) -> Self:
        """Return the episode after a read of a companion that was last read before it."""
        missed = self.missed_by(read_at)
        if missed <= 0:
            return self
        odds = []
        for chances, share in zip(self.odds, SHARES, strict=True):
            chance = share * missed + (1 - share * missed) * own_chance
            ratio = chance / own_chance if has_changed else (1 - chance) / (1 - own_chance)
            odds.append(min(ODDS_MAX, chances * ratio))
        return replace(self, odds=tuple(odds), answered=self.answered + 1)

    def explains(self, *, read_at: datetime, own_chance: float) -> float:
        """Return how likely the list explains that a companion has changed."""
        missed = self.missed_by(read_at)
        hits = [chances * share * missed for chances, share in zip(self.odds, SHARES, strict=True)]
        by_list = sum(hits)
        both = sum(self.odds) - by_list
        return by_list / (own_chance * (1 + both) + by_list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Estimates for one family: how many lists there were, how many were expected."""

    name: str
    lists: Odds = NONE
    lists_expected: Odds = NONE
    counted_at: datetime | None = None
    episode: Episode | None = None

    def factors(self, pooled: Odds) -> Odds:
        """Return by what to multiply the first belief in lists of each share."""
        return tuple(
            (observed + SMOOTHING_ONE * factor) / (expected + SMOOTHING_ONE)
            for observed, expected, factor in zip(
                self.lists, self.lists_expected, pooled, strict=True
            )
        )

    def opened(self, *, began_at: datetime, at: datetime, rate: float, pooled: Odds) -> Self:
        """Return the family with an episode that a change of such a rate has opened."""
        factors = self.factors(pooled)
        first = tuple(LISTS_A_DAY * share / rate for share in SHARES)
        odds = tuple(min(ODDS_MAX, a * b) for a, b in zip(first, factors, strict=True))
        episode = Episode(began_at=began_at, opened_at=at, odds=odds, odds_first=first)
        return replace(self, episode=episode)

    def closed(self, at: datetime) -> tuple[Self, Odds, Odds]:
        """Return the family without its episode, and the lists found and expected in it."""
        episode = self.episode
        assert episode is not None
        observed, expected = chances(episode.odds), chances(episode.odds_first)
        days = (at - self.counted_at) / DAY if self.counted_at else 0.0
        kept = KEPT_A_DAY ** max(0.0, days)
        family = replace(
            self,
            lists=tuple(kept * a + b for a, b in zip(self.lists, observed, strict=True)),
            lists_expected=tuple(
                kept * a + b for a, b in zip(self.lists_expected, expected, strict=True)
            ),
            counted_at=at,
            episode=None,
        )
        return family, observed, expected

    def as_json(self) -> dict[str, Any]:
        """Return all but the name, as the store keeps it."""
        episode = self.episode
        return {
            "lists": list(self.lists),
            "lists_expected": list(self.lists_expected),
            "counted_at": self.counted_at.isoformat() if self.counted_at else None,
            "episode": episode
            and {
                "began_at": episode.began_at.isoformat(),
                "opened_at": episode.opened_at.isoformat(),
                "odds": list(episode.odds),
                "odds_first": list(episode.odds_first),
                "asked": episode.asked,
                "answered": episode.answered,
                "asks_all": episode.asks_all,
            },
        }

    @classmethod
    def from_json(cls, name: str, state: Mapping[str, Any]) -> Self:
        """Return the family from its stored state; state of another version is ignored."""
        if len(state.get("lists", ())) != len(SHARES):
            return cls(name=name)
        episode, counted_at = state["episode"], state["counted_at"]
        return cls(
            name=name,
            lists=tuple(state["lists"]),
            lists_expected=tuple(state["lists_expected"]),
            counted_at=datetime.fromisoformat(counted_at) if counted_at else None,
            episode=episode
            and Episode(
                began_at=datetime.fromisoformat(episode["began_at"]),
                opened_at=datetime.fromisoformat(episode["opened_at"]),
                odds=tuple(episode["odds"]),
                odds_first=tuple(episode["odds_first"]),
                asked=episode["asked"],
                answered=episode["answered"],
                asks_all=episode["asks_all"],
            ),
        )


def pooled_factors(lists: Sequence[float], lists_expected: Sequence[float]) -> Odds:
    """Return by what all families together correct the first belief in lists."""
    if len(lists) != len(SHARES):  # none yet, or another version's
        return (1.0,) * len(SHARES)
    return tuple(
        min(FACTOR_MAX, max(FACTOR_MIN, (observed + SMOOTHING_ALL) / (expected + SMOOTHING_ALL)))
        for observed, expected in zip(lists, lists_expected, strict=True)
    )


def own_chance(rate: float, gap_days: float) -> float:
    """Return how likely a listing of this rate changed by itself; never quite 0 or 1."""
    return min(1 - 1e-6, max(1e-6, -math.expm1(-rate * max(0.0, gap_days))))
