"""The dispatcher and the tick loop of one worker process."""

import math
import threading
from dataclasses import replace

from headway.app import App
from headway.app.monitoring import alert_monitor
from headway.app.suppliers import new_fetch
from headway.core.accounts.jobs import PlatformName
from headway.core.dispatch import Subject, Verb, supplier_of
from headway.engine.dispatch import Dispatcher, DispatchRule, Report, Send, TickLoop, Worker
from headway.errors import InvariantError
from headway.store.catalog.suppliers import Suppliers
from headway.store.dispatch import DispatchLeases

# How many calls a minute one worker surely makes, one after the other.
CALLS_PER_WORKER = 30


def dispatch_rule(app: App) -> DispatchRule:
    """Return how many workers may work at once on what is shared."""
    settings = app.settings
    fetches = max(1, math.ceil(settings.rate_limit / CALLS_PER_WORKER))
    return replace(DispatchRule(), fetches=fetches, pulls=settings.jobs_max)


def new_dispatcher(
    app: App,
    owner: str,
    *,
    send: Send,
    report: Report,
    rule: DispatchRule,
    stopping: threading.Event,
) -> Dispatcher:
    """Make the dispatcher of a worker process."""

    def new_worker(subject: Subject) -> Worker:
        match subject.verb:
            case Verb.FETCH:
                return new_fetch(app, supplier_of(subject), f"{owner}:{subject.which}")
            case Verb.PUSH:
                return app.push(owner, only=subject.which)
            case Verb.PULL:
                return app.pull(f"{owner}:{subject.which}", only=PlatformName(subject.provider))
            case Verb.TICK:
                raise InvariantError("a tick is not dispatched to a worker")

    return Dispatcher(
        clock=app.clock,
        dispatch_leases=DispatchLeases(app.pool, app.clock),
        new_worker=new_worker,
        send=send,
        rule=rule,
        report=report,
        stopping=stopping,
    )


def new_tick_loop(app: App, *, send: Send, rule: DispatchRule) -> TickLoop:
    """Make the tick of a worker process."""
    return TickLoop(
        clock=app.clock,
        dispatch_leases=DispatchLeases(app.pool, app.clock),
        suppliers=Suppliers(app.pool),
        shops=app.pushes,
        jobs=app.jobs,
        tick=app.tick(watch=alert_monitor(app)).step,
        send=send,
        rule=rule,
        verify_every=app.push_rule.verify_every,
    )
