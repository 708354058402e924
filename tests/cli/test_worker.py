"""`headway worker`: what it needs, and what it says when that is missing."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.store.monitoring.processes import SILENT, Presence, Processes

Headway = Callable[..., Any]
# Nobody listens there.
NOWHERE = "redis://:hunter2@127.0.0.1:9/0"


def test_without_a_database_it_says_why_and_what_to_do(here: Headway) -> None:
    complaint = here("worker", HEADWAY_BROKER_URL=NOWHERE).complaint(2)
    assert "needs DATABASE_URL" in complaint
    assert "headway run" in complaint


def test_without_a_broker_it_says_how_to_name_one(on_database: Headway) -> None:
    complaint = on_database("worker").complaint(2)
    assert "HEADWAY_BROKER_URL is not set; write it as redis://" in complaint


def test_a_broker_that_does_not_answer_is_said_without_its_password(on_database: Headway) -> None:
    complaint = on_database("worker", HEADWAY_BROKER_URL=NOWHERE).complaint(1)
    assert "the broker of HEADWAY_BROKER_URL cannot be used: " in complaint
    assert "refused" in complaint
    assert "hunter2" not in complaint


def test_another_kind_of_broker_is_refused_without_showing_it(on_database: Headway) -> None:
    url = "amqp://me:hunter2@127.0.0.1//"
    complaint = on_database("worker", HEADWAY_BROKER_URL=url).complaint(2)
    assert "setting HEADWAY_BROKER_URL: write it as redis://" in complaint
    assert "hunter2" not in complaint


def test_an_unknown_queue_is_said_with_those_that_are_there(on_database: Headway) -> None:
    complaint = on_database(
        "worker", "--queues", "push.shopify,pull.ebay", HEADWAY_BROKER_URL=NOWHERE
    ).complaint(2)
    assert "no such queue: pull.ebay; there are tick, fetch.boeing, push.shopify" in complaint


def test_health_is_that_a_worker_of_this_host_was_heard_of_lately(
    on_database: Headway, pool: ConnectionPool, execute: Callable[..., None]
) -> None:
    processes = Processes(pool)
    processes.see(Presence(verb="api", settings={}), SystemClock())
    processes.see(Presence(verb="worker", settings={}, host="another"), SystemClock())
    done = on_database("worker", "--healthcheck")
    assert (done.code, "no worker of" in done.out) == (1, True)
    processes.see(Presence(verb="worker", settings={}), SystemClock())
    assert on_database("worker", "--healthcheck").code == 0
    execute("UPDATE processes SET seen_at = seen_at - %s", SILENT + timedelta(seconds=1))
    assert on_database("worker", "--healthcheck").code == 1


def test_a_worker_without_its_database_is_not_called_ill(on_database: Headway) -> None:
    done = on_database("worker", "--healthcheck", DATABASE_URL="postgresql://me@127.0.0.1:1/shop")
    assert (done.code, "does not answer" in done.out) == (0, True)
