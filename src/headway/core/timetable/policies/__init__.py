"""Policies: each decides one thing, when a listing is due.

A policy is one module of this package with a constant `POLICY`. Settings, commands, the API and
the documentation take the names from `POLICIES`.
"""

from importlib import import_module
from pkgutil import iter_modules

from headway.core.timetable.policies.policy import (
    CatalogSummary,
    Next,
    Placement,
    Policy,
    ReadResult,
    RetryWindow,
)

__all__ = [
    "POLICIES",
    "CatalogSummary",
    "Next",
    "Placement",
    "Policy",
    "ReadResult",
    "RetryWindow",
    "by_name",
]


def _installed() -> dict[str, Policy]:
    """Return the policies by name; those that read once a day come first."""
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    policies: list[Policy] = [module.POLICY for module in modules if hasattr(module, "POLICY")]
    policies.sort(key=lambda policy: (policy.is_eager, policy.name))
    return {policy.name: policy for policy in policies}


POLICIES = _installed()


def by_name(name: str) -> Policy:
    """Return the policy of this name; the caller has checked that it exists."""
    return POLICIES[name]
