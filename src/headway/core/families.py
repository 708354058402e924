"""Families: listings that change together, and whether one of them just did so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What is believed of one family."""

    name: str

    def as_json(self) -> dict[str, Any]:
        """Return all but the name, as the store keeps it."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, name: str, state: Mapping[str, Any]) -> Self:
        """Return the family as the store kept it."""
        raise NotImplementedError
