"""The workers that send events to endpoints."""

from collections.abc import Callable
from datetime import timedelta

import httpx

from headway.app import App
from headway.app.providers import shared_vault
from headway.core.accounts.outgoing_webhooks import EndpointLease
from headway.core.accounts.webhook_addresses import read_networks
from headway.core.catalog.listings import Done, Wait
from headway.core.limits.rules import Resource, Window
from headway.engine.deliver import Deliver, DeliveryRule
from headway.providers.webhook_sender import WebhookSender
from headway.store.accounts.event_deliveries import EventDeliveries

# Endpoints that answer well and quickly, and those that fail or are slow, each have their workers.
QUICK_WORKERS, SLOW_WORKERS = 3, 2
# The first worker looks for events each second; the others help it when there are many.
POLL, HELPERS_POLL = timedelta(seconds=1), timedelta(seconds=5)


def new_deliver(
    app: App,
    owner: str,
    *,
    is_slow: bool = False,
    poll: timedelta = POLL,
    transport: httpx.BaseTransport | None = None,
) -> Deliver:
    """Make a worker's deliver; a transport stands in for the network."""
    settings = app.settings

    def know(lease: EndpointLease) -> None:
        app.limiter.know(
            Resource(key=lease.limit_key, rules=(Window(limit=settings.webhook_rate, span_s=1),))
        )

    return Deliver(
        clock=app.clock,
        queue=EventDeliveries(app.pool),
        limiter=app.observed_limiter("deliver"),
        know=know,
        sender=WebhookSender(
            clock=app.clock,
            open_vault=lambda: shared_vault(settings),
            timeout_s=settings.webhook_timeout_s,
            networks=read_networks(settings.webhook_networks),
            transport=transport,
        ),
        rule=DeliveryRule(disable_after=timedelta(days=settings.webhook_disable_days), poll=poll),
        owner=owner,
        is_slow=is_slow,
    )


def deliver_steps(app: App, owner: str) -> dict[str, Callable[[], Done | Wait]]:
    """Return the steps of one process that send events, by name."""
    steps: dict[str, Callable[[], Done | Wait]] = {}
    for number in range(1, QUICK_WORKERS + SLOW_WORKERS + 1):
        name = f"deliver-{number}"
        worker = new_deliver(
            app,
            f"{owner}:{name}",
            is_slow=number > QUICK_WORKERS,
            poll=POLL if number == 1 else HELPERS_POLL,
        )
        steps[name] = worker.step
    return steps
