"""An application on a clock that runs faster than real time: real work gets real time."""

from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import httpx

from headway.app import App, build
from headway.app.rules import LEASE_MARGIN
from headway.clock import ScaledClock
from headway.config import Settings
from headway.engine.dispatch import DispatchRule
from headway.store.pool import Pool

# Shops of the largest plan, so that the drift check leaves room for pushes at any speed.
POINTS, POINTS_PER_S = 20_000, 1000
POLL = timedelta(seconds=0.25)


def build_fast(stack: ExitStack, settings: Settings, clock: ScaledClock, pool: Pool) -> App:
    """Put the application together; its timeouts must have been given in the clock's seconds."""
    app = build(
        settings,
        clock,
        pool,
        transport=stack.enter_context(httpx.HTTPTransport()),
        shop_transport=stack.enter_context(httpx.HTTPTransport()),
        platform_transport=stack.enter_context(httpx.HTTPTransport()),
    )
    return at_speed(app, clock.speed)


def at_speed(app: App, speed: float) -> App:
    """Return the application with real waits where real work is done."""
    more = max(1.0, speed)  # the database runs no faster
    fetch, push, pull = app.rule, app.push_rule, app.pull_rule
    # A lease is timeouts, which are long enough already, and a margin, which is not.
    longer = LEASE_MARGIN * (more - 1)
    return replace(
        app,
        shop_restore_per_s=restore_per_s(speed),
        rule=replace(
            fetch,
            poll=max(fetch.poll, POLL * more),
            lease=fetch.lease + longer,
            permit_grace=fetch.permit_grace * more,
        ),
        push_rule=replace(
            push,
            poll=max(push.poll, POLL * more),
            lease=push.lease + longer,
            permit_wait_max=push.permit_wait_max * more,
            permit_grace=push.permit_grace * more,
        ),
        pull_rule=replace(
            pull,
            poll=max(pull.poll, POLL * more),
            permit_wait_max=pull.permit_wait_max * more,
            permit_grace=pull.permit_grace * more,
        ),
    )


def dispatch_at_speed(rule: DispatchRule, speed: float) -> DispatchRule:
    """Return the rule with spans that last equally long in real time, as processes need."""
    more = max(1.0, speed)
    return replace(
        rule,
        life=rule.life * more,
        tick_life=rule.tick_life * more,
        time_slice=rule.time_slice * more,
        hop=rule.hop * more,
        look=rule.look * more,
        retry=rule.retry * more,
    )


def restore_per_s(speed: float) -> float:
    """Return how many points a demo's shop gives back in a second of the demo's clock.

    Our calls take real time: a bucket that fills by simulated time would be another's by then.
    """
    return POINTS_PER_S / max(1.0, speed)
