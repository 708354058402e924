"""Permits for the few requests that a person asks for: wait in line like every other caller."""

from collections.abc import Sequence
from datetime import timedelta

from headway.app import App
from headway.core.limits.transitions import Expired, Granted, NotYet, Permit, Rejected
from headway.errors import ConflictError, ProviderError, ThrottledError

# Two tokens and the call, at two calls a minute, and some patience with other workers.
WAIT_MAX = timedelta(minutes=3)
GRACE_S, LEASE_S = 30.0, 90.0
# How long everybody waits after "too many requests": by default, and at most.
THROTTLED_S, THROTTLED_MAX_S = 60.0, 3600.0


def give_up_at(app: App) -> float:
    """Return the monotonic second at which a person has waited long enough."""
    return app.clock.monotonic() + WAIT_MAX.total_seconds()


def wait_for_permit(
    app: App, keys: Sequence[str], *, purpose: str, give_up_s: float, cost: float = 1
) -> tuple[Permit, float]:
    """Wait for a permit; return it with the last second at which it may be used."""
    permit: Permit | None = None
    while (left_s := give_up_s - app.clock.monotonic()) > 0:
        if permit is None:
            answer = app.limiter.reserve(
                keys,
                cost=cost,
                priority=0,
                owner=purpose,
                max_wait_s=left_s,
                lease_s=LEASE_S,
                grace_s=GRACE_S,
                purpose=purpose,
            )
            if isinstance(answer, Rejected):
                break
            permit = answer
        began_s = app.clock.monotonic()
        match app.limiter.begin(permit):
            case Granted(send_within_s=send_within_s):
                return permit, began_s + send_within_s
            case NotYet(wait_s=wait_s):
                app.clock.sleep(min(max(wait_s, 0.01), left_s))
            case Expired():
                permit = None
    if permit is not None:
        app.limiter.settle(permit, sent=False)
    raise ConflictError("the limit allows no call within three minutes; try again later")


def pause_if_throttled(app: App, keys: Sequence[str], error: ProviderError) -> None:
    """Pause the limits, for workers too, if the provider answered "too many requests"."""
    if not isinstance(error, ThrottledError):
        return
    wait_s = THROTTLED_S if error.retry_after_s is None else error.retry_after_s
    for key in keys:
        app.limiter.pause(key, min(wait_s, THROTTLED_MAX_S), "rate limited by the provider")
