"""The command worker: required settings and the health check."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.store.monitoring.processes import SILENT, Presence, Processes

Headway = Callable[..., Any]
# No server listens there.
NOWHERE = "redis://:hunter2@127.0.0.1:9/0"


def test_a_missing_database_is_reported(headway_in_process: Headway) -> None:
    message = headway_in_process("worker", HEADWAY_BROKER_URL=NOWHERE).error(2)
    assert "needs DATABASE_URL" in message
    assert "headway run" in message


def test_a_missing_broker_is_reported(on_database: Headway) -> None:
    message = on_database("worker").error(2)
    assert "HEADWAY_BROKER_URL is not set; write it as redis://" in message


def test_an_unreachable_broker_is_reported_without_its_password(on_database: Headway) -> None:
    message = on_database("worker", HEADWAY_BROKER_URL=NOWHERE).error(1)
    assert "the broker of HEADWAY_BROKER_URL cannot be used: " in message
    assert "refused" in message
    assert "hunter2" not in message


def test_another_kind_of_broker_is_refused_without_showing_it(on_database: Headway) -> None:
    url = "amqp://me:hunter2@127.0.0.1//"
    message = on_database("worker", HEADWAY_BROKER_URL=url).error(2)
    assert "setting HEADWAY_BROKER_URL: write it as redis://" in message
    assert "hunter2" not in message


def test_an_unknown_queue_is_reported_with_the_existing_ones(on_database: Headway) -> None:
    message = on_database(
        "worker", "--queues", "push.shopify,pull.ebay", HEADWAY_BROKER_URL=NOWHERE
    ).error(2)
    assert "no such queue: pull.ebay; there are tick, fetch.boeing, push.shopify" in message


def test_the_health_check_needs_a_recent_heartbeat_of_a_worker_on_this_host(
    on_database: Headway, pool: ConnectionPool, execute: Callable[..., None]
) -> None:
    processes = Processes(pool)
    processes.see(Presence(verb="api", settings={}), SystemClock())
    processes.see(Presence(verb="worker", settings={}, host="another"), SystemClock())
    result = on_database("worker", "--healthcheck")
    assert (result.code, "no worker on" in result.out) == (1, True)
    processes.see(Presence(verb="worker", settings={}), SystemClock())
    assert on_database("worker", "--healthcheck").code == 0
    execute("UPDATE processes SET seen_at = seen_at - %s", SILENT + timedelta(seconds=1))
    assert on_database("worker", "--healthcheck").code == 1


def test_a_worker_without_its_database_counts_as_healthy(on_database: Headway) -> None:
    result = on_database("worker", "--healthcheck", DATABASE_URL="postgresql://me@127.0.0.1:1/shop")
    assert (result.code, "does not answer" in result.out) == (0, True)
