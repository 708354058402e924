"""Events reach their endpoints: all of them, in order, whatever the endpoints do."""

import threading
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.webhook_setup import ACME, OK, Consumer, WebhookWorld, create_world

from headway.clock import rng
from headway.core.accounts.outgoing_webhooks import EndpointStatus
from headway.core.catalog.listings import Done, Wait
from headway.operations import webhook_endpoints as operations
from headway.operations.callers import operator
from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def world(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> WebhookWorld:
    return create_world(pool, clock, tmp_path)


def test_every_event_arrives_in_order_at_a_consumer_that_fails_half_and_dies_and_returns(
    world: WebhookWorld,
) -> None:
    random = rng(7)
    consumer = Consumer(answer=lambda _event: random.choice([OK, 500]))
    with consumer.listening():
        world.endpoint(consumer.url)
        for round_ in range(4):
            for name in range(12):
                world.order(f"o{name}", status=f"state {round_}")
        world.run(until=lambda: len(consumer.received) > 20)
    # It is dead for two days, and more happens meanwhile.
    back_at = world.clock.now() + timedelta(days=2)
    for round_ in range(4, 6):
        for name in range(12):
            world.order(f"o{name}", status=f"state {round_}")
    world.run(until=lambda: world.clock.now() >= back_at)
    with consumer.listening():
        world.run(until=world.is_empty)
    by_subject = defaultdict(list)
    for event in consumer.accepted:
        by_subject[event["subject"]].append(event["data"]["status"])
    assert len(by_subject) == 12
    assert all(
        states == [f"state {round_}" for round_ in range(6)] for states in by_subject.values()
    )
    assert world.execute("SELECT count(*) FROM event_deliveries WHERE NOT is_delivered") == [(0,)]


def test_an_event_that_is_refused_delays_only_its_own_subject(world: WebhookWorld) -> None:
    consumer = Consumer(answer=lambda event: 500 if event["data"]["order_id"] == "bad" else OK)
    with consumer.listening():
        endpoint, _ = world.endpoint(consumer.url)
        world.order("bad")
        world.order("bad", status="sent")
        world.order("good")
        world.order("good", status="sent")
        world.run(until=lambda: len(consumer.accepted) == 2)
    assert [event["data"]["order_id"] for event in consumer.accepted] == ["good", "good"]
    assert {request.event["data"]["status"] for request in consumer.received[:1]} == {"paid"}
    assert world.view(endpoint).waiting_count == 2


def test_an_endpoint_that_hangs_is_served_apart_and_delays_no_other(world: WebhookWorld) -> None:
    hanging, quick = Consumer(hangs=threading.Event()), Consumer()
    with hanging.listening(), quick.listening():
        slow, _ = world.endpoint(hanging.url)
        worker = world.worker()
        world.order("first")
        world.run(worker, until=lambda: world.view(slow).failures == 1)
        assert world.deliveries(slow)[0].error == "no answer in time"
        world.endpoint(quick.url)
        for name in range(5):
            world.order(f"o{name}")
        # The worker of quick endpoints never meets the other one again.
        world.run(worker, until=lambda: len(quick.accepted) == 5)
        assert [row.attempts for row in world.deliveries(slow)] == [0, 0, 0, 0, 0, 1]
        assert isinstance(worker.step(), Wait)


def test_a_worker_that_dies_after_sending_loses_nothing_and_the_repeat_has_the_same_id(
    world: WebhookWorld,
) -> None:
    consumer = Consumer()
    with consumer.listening():
        world.endpoint(consumer.url)
        world.order("o1")

        class Killed(BaseException):
            """The worker dies after the endpoint has answered, before anything is recorded."""

        worker = world.worker()
        worker._queue.settle = _raise(Killed)  # type: ignore[method-assign]
        with pytest.raises(Killed):
            world.run(worker, until=world.is_empty)
        other = world.worker("two")
        assert isinstance(other.step(), Wait)  # the lease of the dead one
        world.run(other, until=world.is_empty)
    first, second = consumer.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


def test_a_worker_that_lost_its_lease_records_nothing(world: WebhookWorld) -> None:
    consumer = Consumer()
    with consumer.listening():
        endpoint, _ = world.endpoint(consumer.url)
        world.order("o1")

        def take_over(_event: Mapping[str, Any]) -> int:
            world.execute("UPDATE webhook_endpoints SET fence = fence + 1")
            return OK

        consumer.answer = take_over
        worker, results = world.worker(), list[Done | Wait]()
        while not consumer.received:
            results.append(worker.step())
            world.clock.sleep(1)
        assert results[-1] == Done(what="another worker sends to this endpoint")
    assert [row.status for row in world.deliveries(endpoint)] == ["waiting"]


def test_429_is_respected_for_as_long_as_it_says(world: WebhookWorld) -> None:
    consumer = Consumer(answer=lambda _event: 429, headers={"Retry-After": "600"})
    with consumer.listening():
        world.endpoint(consumer.url)
        for name in range(3):
            world.order(f"o{name}")
        begun = world.clock.now()
        world.run(until=lambda: len(consumer.received) == 1)
        consumer.answer = lambda _event: OK
        world.run(until=world.is_empty)
    assert world.clock.now() - begun >= timedelta(seconds=600)
    assert len(consumer.received) == 4


def test_410_disables_an_endpoint_keeps_what_waits_and_tells_the_others(
    world: WebhookWorld,
) -> None:
    gone, other = Consumer(answer=lambda _event: 410), Consumer()
    with gone.listening(), other.listening():
        endpoint, _ = world.endpoint(gone.url, "order.created")
        world.endpoint(other.url, "endpoint.disabled")
        world.order("o1")
        world.run(until=lambda: bool(other.accepted))
        view = world.view(endpoint)
        assert (view.status, view.reason) == (EndpointStatus.DISABLED, "it answered 410 Gone")
        assert other.accepted[0]["data"]["endpoint_id"] == endpoint
        world.order("o2")  # while it is disabled nothing is added for it
        gone.answer = lambda _event: OK
        body = operations.EndpointChangeBody(status=EndpointStatus.ENABLED)
        since = operations.ReplayBody(since=view.created_at, only_failed=True)
        operations.update_endpoint(operator(world.app, "tester"), endpoint, body)
        assert operations.replay_events(operator(world.app, "tester"), endpoint, since).count == 2
        world.run(until=world.is_empty)
    assert [event["data"]["order_id"] for event in gone.accepted] == ["o1", "o2"]


def test_a_delivery_is_given_up_after_three_days_and_can_be_replayed(world: WebhookWorld) -> None:
    consumer = Consumer(answer=lambda event: 500 if event["data"]["order_id"] == "bad" else OK)
    with consumer.listening():
        endpoint, _ = world.endpoint(consumer.url)
        begun = world.clock.now()
        world.order("bad")
        world.run(until=world.is_empty)
        assert timedelta(days=3) <= world.clock.now() - begun <= timedelta(days=4)
        (delivery,) = world.deliveries(endpoint)
        assert (delivery.status, delivery.http_status) == ("given up", 500)
        assert 9 < delivery.attempts < 20
        consumer.answer = lambda _event: OK
        body = operations.ReplayBody(event=delivery.id)
        operations.replay_events(operator(world.app, "tester"), endpoint, body)
        world.run(until=world.is_empty)
        assert world.deliveries(endpoint)[0].status == "delivered"


def test_an_endpoint_that_fails_for_days_is_disabled_and_asked_ever_less(
    world: WebhookWorld,
) -> None:
    consumer = Consumer(answer=lambda _event: 500)
    with consumer.listening():
        endpoint, _ = world.endpoint(consumer.url)
        for name in range(200):
            world.order(f"o{name}")
        world.run(until=lambda: len(consumer.received) == 12)
        # Two hundred events wait, and the endpoint has been asked a dozen times in minutes.
        assert world.clock.now() - world.deliveries(endpoint)[0].occurred_at > timedelta(minutes=4)
        world.execute(
            "UPDATE webhook_endpoints SET failing_since = failing_since - interval '5 days'"
        )
        world.run(until=lambda: world.view(endpoint).status is EndpointStatus.DISABLED)
    assert world.view(endpoint).reason.startswith("it has failed for 5 days; the last error: ")
    assert world.view(endpoint).waiting_count == 200


def test_the_limit_of_an_endpoint_is_kept(world: WebhookWorld) -> None:
    consumer = Consumer()
    with consumer.listening():
        endpoint, _ = world.endpoint(consumer.url)
        for name in range(60):
            world.order(f"o{name}")
        begun = world.clock.now()
        world.run(until=world.is_empty)
    assert world.clock.now() - begun >= timedelta(seconds=2)
    rows = world.execute(
        "SELECT count(*) FROM call_ledger WHERE limit_key = %s AND purpose = 'webhook'",
        f"webhook:{endpoint}",
    )
    assert rows == [(60,)]


def test_both_secrets_sign_for_a_day_after_one_was_replaced(world: WebhookWorld) -> None:
    consumer = Consumer()
    with consumer.listening():
        endpoint, old = world.endpoint(consumer.url)
        new = operations.rotate_secret(operator(world.app, "tester"), endpoint).secret
        assert new is not None
        world.order("o1")
        world.run(until=world.is_empty)
        assert world.verify(old, consumer.received[0])
        assert world.verify(new, consumer.received[0])
        world.clock.sleep(timedelta(hours=25).total_seconds())
        world.order("o2")
        world.run(until=world.is_empty)
        assert world.verify(new, consumer.received[1])
        assert not world.verify(old, consumer.received[1])
    stored = world.execute("SELECT secret FROM credential WHERE credential_key LIKE 'webhook:%%'")
    assert not any(old[6:].encode() in secret or new[6:].encode() in secret for (secret,) in stored)


def test_a_seller_receives_only_events_of_their_own(world: WebhookWorld) -> None:
    own, other = Consumer(), Consumer()
    with own.listening(), other.listening():
        world.endpoint(own.url)
        world.execute(
            "INSERT INTO webhook_endpoints (user_id, url, created_at, updated_at)"
            " VALUES ('best', %s, now(), now())", other.url,
        )  # fmt: skip
        world.order("o1")
        world.run(until=world.is_empty)
    assert len(own.accepted) == 1
    assert not other.received
    assert world.execute("SELECT DISTINCT user_id FROM webhook_events") == [(ACME,)]


def _raise(error: type[BaseException]) -> Any:
    def fail(*_arguments: object, **_named: object) -> None:
        raise error

    return fail
