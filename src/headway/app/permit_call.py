"""One call outside of the engine's steps, such as a token request, within the provider's limits."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from headway.app import App
from headway.clock import fresh_id
from headway.core.limits.transitions import (
    CallReport,
    Expired,
    Granted,
    NotYet,
    Permit,
    Rejected,
    Resource,
)
from headway.engine.ports_limits import Limiter
from headway.errors import (
    ConfigError,
    HeadwayError,
    StoreError,
    TimedOutError,
    TooManyError,
    UnsentError,
)

PERMIT_WAIT_S = 5.0
GRACE_S = 10.0
T = TypeVar("T")


def call_with_permit(
    app: App,
    resources: Sequence[Resource],
    call: Callable[[], T],
    *,
    purpose: str,
    unsent: type[Exception] = UnsentError,
) -> T:
    """Make one call; wait a few seconds for a permit at most, or raise TooManyError.

    `call` raises `unsent` if it decides to send nothing.
    """
    limiter = app.observed_limiter(purpose)
    for resource in resources:
        app.limiter.know(resource)
    permit = limiter.reserve(
        [resource.key for resource in resources],
        owner=fresh_id(),
        max_wait_s=PERMIT_WAIT_S,
        lease_s=app.settings.platform_timeout_s + GRACE_S,
        grace_s=GRACE_S,
        purpose=purpose,
        begins=True,
    )
    if isinstance(permit, Rejected) or not _goes(app, limiter, permit):
        raise TooManyError("its limit is used up for now", retry_after_s=PERMIT_WAIT_S)
    try:
        answer = call()
    except unsent:
        limiter.settle(permit, sent=False)
        raise
    except HeadwayError as error:
        is_late = isinstance(error, TimedOutError)
        is_sent = not isinstance(error, UnsentError | ConfigError | StoreError)
        report = CallReport(result=f"{purpose} failed", ended=getattr(error, "ended", "failed"))
        limiter.settle(permit, sent=is_sent, is_late=is_late, report=report)
        raise
    limiter.settle(permit, sent=True, report=CallReport(result=purpose))
    return answer


def _goes(app: App, limiter: Limiter, permit: Permit) -> bool:
    """Wait until the permit may start; return False if it was withdrawn."""
    begun, wait_s = permit.granted, permit.wait_s
    while begun is None:
        app.clock.sleep(wait_s)
        match limiter.begin(permit):
            case Granted() as begun:
                pass
            case NotYet(wait_s=wait_s) if wait_s <= PERMIT_WAIT_S:
                pass
            case NotYet() | Expired():
                limiter.settle(permit, sent=False)
                return False
    return True
