"""Access scopes: what a shop's owner lets our app do."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessScope:
    """A permission that a shop grants, and what Headway needs it for."""

    name: str
    """The scope's name at the platform. Example: `write_products`"""
    purpose: str
    """What Headway needs it for. Example: `write prices`"""


def list_scopes(scopes: Sequence[AccessScope]) -> str:
    """Return scopes and their purposes in one line."""
    return ", ".join(f"{scope.name} ({scope.purpose})" for scope in scopes)
