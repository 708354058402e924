"""Policies: each decides one thing, when a listing is due. `by_name` finds one."""

from headway.core.timetable.policies.adaptive import Adaptive
from headway.core.timetable.policies.anchored import Anchored
from headway.core.timetable.policies.packed import Packed
from headway.core.timetable.policies.policy import (
    Catalogue,
    Next,
    Placement,
    Policy,
    RetryWindow,
    Seen,
)
from headway.core.timetable.policies.rolling import Rolling
from headway.core.timetable.policies.split import Split

__all__ = [
    "POLICIES",
    "Adaptive",
    "Anchored",
    "Catalogue",
    "Next",
    "Packed",
    "Placement",
    "Policy",
    "RetryWindow",
    "Rolling",
    "Seen",
    "Split",
    "by_name",
]

POLICIES: dict[str, Policy] = {
    policy.name: policy for policy in (Packed(), Split(), Anchored(), Rolling(), Adaptive())
}


def by_name(name: str) -> Policy:
    """Return the policy of this name; the caller has checked that it exists."""
    return POLICIES[name]
