"""An application verifies what Headway sent it."""

from datetime import timedelta
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.webhook_setup import Consumer, create_world

from headway.client import read_webhook
from headway.core.accounts.standard_webhooks import make_secret
from headway.errors import UnauthenticatedError
from headway_lab.virtual_clock import VirtualClock


def test_an_application_reads_what_headway_sent_and_refuses_everything_else(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    world = create_world(pool, clock, tmp_path)
    with Consumer().listening() as consumer:
        _, secret = world.endpoint(consumer.url)
        world.order("Ünï-1")
        world.run(until=world.is_empty)
    (request,) = consumer.received
    headers = {name.title(): value for name, value in request.headers.items()}
    now = clock.now()
    event = read_webhook(secret, headers, request.body, now=now)
    assert (event["type"], event["data"]["order_id"]) == ("order.created", "Ünï-1")
    other = make_secret("cd" * 32)
    assert read_webhook([other, secret], headers, request.body, now=now) == event
    for secrets, body, at in (
        (other, request.body, now),
        (secret, request.body.replace(b"5.00", b"6.00"), now),
        (secret, request.body, now + timedelta(minutes=6)),
    ):
        with pytest.raises(UnauthenticatedError, match="signature does not match"):
            read_webhook(secrets, headers, body, now=at)
