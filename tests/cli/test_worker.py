"""`headway worker`: what it needs, and what it says when that is missing."""

from collections.abc import Callable
from typing import Any

Headway = Callable[..., Any]
# Nobody listens there.
NOWHERE = "redis://:hunter2@127.0.0.1:9/0"


def test_without_a_database_it_says_why_and_what_to_do(headway: Headway) -> None:
    complaint = headway("worker", HEADWAY_BROKER_URL=NOWHERE).complaint(2)
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
