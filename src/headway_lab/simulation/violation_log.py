"""The violations of a run: which laws are checked, how often each broke, and the first examples."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from headway.clock import Clock

EXAMPLES_MAX = 5
ALL_LAWS = (*(f"L{number}" for number in range(1, 14)), "L16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One breach: which law, at which second of the run, in words."""

    law: str
    at_s: float
    text: str

    def __str__(self) -> str:
        """Write it as a person reads it."""
        hours, rest_s = divmod(self.at_s, 3600)
        days, hours = divmod(int(hours), 24)
        minutes, seconds = divmod(rest_s, 60)
        return f"{self.law} at day {days} {hours:02}:{int(minutes):02}:{seconds:06.3f}: {self.text}"


class ViolationLog:
    """Counts breaches; a law that nothing checked is not in play, and never counts as kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._in_play: set[str] = set()
        self.examples: list[Violation] = []

    def enable(self, laws: Iterable[str]) -> None:
        """Mark these laws as checked from now on."""
        self._in_play.update(laws)

    def add(self, law: str, text: str, *, count: int = 1) -> None:
        """Write a breach down."""
        self._counts[law] += count
        self._in_play.add(law)
        if sum(example.law == law for example in self.examples) < EXAMPLES_MAX:
            at_s = self._clock.monotonic()
            self.examples.append(Violation(law=law, at_s=at_s, text=text))

    @property
    def counts(self) -> dict[str, int]:
        """Law → breaches, for every law in play."""
        return {law: self._counts[law] for law in ALL_LAWS if law in self._in_play}

    @property
    def not_checked(self) -> list[str]:
        """The laws that this run could not break."""
        return [law for law in ALL_LAWS if law not in self._in_play]
