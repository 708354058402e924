"""Policies: each decides one thing, when a listing is due. `by_name` finds one."""

from headway.core.timetable.policies.adaptive import Adaptive
from headway.core.timetable.policies.anchored import Anchored
from headway.core.timetable.policies.packed import Packed
from headway.core.timetable.policies.policy import (
    CatalogSummary,
    Next,
    Placement,
    Policy,
    ReadResult,
    RetryWindow,
)
from headway.core.timetable.policies.rolling import Rolling
from headway.core.timetable.policies.split import Split

__all__ = [
    "POLICIES",
    "Adaptive",
    "Anchored",
    "CatalogSummary",
    "Next",
    "Packed",
    "Placement",
    "Policy",
    "ReadResult",
    "RetryWindow",
    "Rolling",
    "Split",
    "by_name",
]

POLICIES: dict[str, Policy] = {
    policy.name: policy for policy in (Packed(), Split(), Anchored(), Rolling(), Adaptive())
}


def by_name(name: str) -> Policy:
    """Return the policy of this name; the caller has checked that it exists."""
    return POLICIES[name]
