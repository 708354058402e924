"""What another program asks for when it takes a permit, and what it gets unless it says more."""

from enum import StrEnum

MAX_WAIT_S, TIMEOUT_S = 600.0, 60.0
PURPOSE = "another program"


class PermitPriority(StrEnum):
    """The place in the limiter's queue: `manual` first; `ordinary` is that of scheduled reads."""

    MANUAL = "manual"
    ONBOARDING = "onboarding"
    ORDINARY = "ordinary"
    LOW = "low"
