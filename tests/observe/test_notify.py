"""Notifications through the real Apprise to a real server: each address once, no secrets."""

import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.app.monitoring import notify_urls
from headway.config import Settings
from headway.core.catalog.listings import Done, Wait
from headway.core.monitoring.alerts import Alert, Severity
from headway.core.monitoring.messages import alert_message
from headway.engine.notify import Notify
from headway.errors import ConfigError
from headway.observe.notify import AppriseSender
from headway.store.monitoring.alert_states import AlertStates
from headway.store.monitoring.outbox import Outbox
from headway_lab.virtual_clock import VirtualClock

SECRET = "tok-5e4d3c2b"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DOWN = Alert(name="supplier_down", severity=Severity.CRITICAL, sentence="No answer for 3 min.")


class NotificationServer:
    """A server that replies with a status per path and keeps what it received."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []
        self.status: dict[str, int] = {}
        notification_server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                notification_server.received.append((self.path, json.loads(body)))
                self.send_response(notification_server.status.get(self.path, 200))
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
                """Keep the tests' output clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path: str) -> str:
        return f"json://me:{SECRET}@127.0.0.1:{self.server.server_port}/{path}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.received]


@pytest.fixture
def notification_server() -> Iterator[NotificationServer]:
    made = NotificationServer()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def fired(pool: ConnectionPool) -> Outbox:
    """An outbox with one message in it."""
    states = AlertStates(pool)
    for minute in range(2):
        now = NOW + timedelta(minutes=minute)
        states.update(
            [DOWN],
            now,
            write=lambda news, now=now: alert_message(news, now, base="https://hw.test"),
        )
    return Outbox(pool)


def drive(notify: Notify, clock: VirtualClock) -> list[str]:
    """Step until nothing waits; return the steps that did something."""
    steps = []
    for _ in range(200):
        result = notify.step()
        if isinstance(result, Done):
            steps.append(result.what)
        elif result.until >= clock.now() + timedelta(seconds=10) and steps:
            return steps
        if isinstance(result, Wait):
            clock.sleep((result.until - clock.now()).total_seconds())
    return steps


def test_a_message_reaches_every_address_once_with_its_links(
    notification_server: NotificationServer, fired: Outbox, clock: VirtualClock
) -> None:
    messenger = AppriseSender([notification_server.url("a"), notification_server.url("b")])
    clock.sleep(120)
    drive(Notify(clock=clock, outbox=fired, messenger=messenger), clock)
    assert sorted(notification_server.paths) == ["/a", "/b"]
    sent = notification_server.received[0][1]
    assert (sent["title"], sent["type"]) == ("critical: supplier down", "failure")
    assert "No answer for 3 min." in sent["message"]
    assert "https://hw.test/runbook/supplier_down" in sent["message"]
    assert "Message " in sent["message"]


def test_a_message_that_an_alert_is_over_is_good_news(
    notification_server: NotificationServer, fired: Outbox, clock: VirtualClock
) -> None:
    notify = Notify(
        clock=clock, outbox=fired, messenger=AppriseSender([notification_server.url("a")])
    )
    clock.sleep(120)
    drive(notify, clock)
    for minute in (3, 20):
        now = NOW + timedelta(minutes=minute)
        AlertStates(fired._pool).update(
            [], now, write=lambda news, now=now: alert_message(news, now, base="")
        )
    clock.sleep(1200)
    drive(notify, clock)
    sent = [body for _, body in notification_server.received]
    assert [(body["title"], body["type"]) for body in sent] == [
        ("critical: supplier down", "failure"),
        ("resolved: supplier down", "success"),
    ]


def test_only_the_address_that_failed_is_retried(
    notification_server: NotificationServer, fired: Outbox, clock: VirtualClock
) -> None:
    notification_server.status["/b"] = 503
    messenger = AppriseSender([notification_server.url("a"), notification_server.url("b")])
    notify = Notify(clock=clock, outbox=fired, messenger=messenger)
    clock.sleep(120)
    first = notify.step()
    assert isinstance(first, Done)
    assert first.what == "not sent (json (2 of 2): HTTP 503): critical: supplier down"
    notification_server.status.clear()
    clock.sleep(60)
    drive(notify, clock)
    assert notification_server.paths == ["/a", "/b", "/b"]


def test_a_crash_after_sending_repeats_the_message_with_the_same_id(
    notification_server: NotificationServer, fired: Outbox, clock: VirtualClock
) -> None:
    class FailingOutbox(Outbox):
        def note(self, *_arguments: Any) -> bool:
            raise KeyboardInterrupt

    messenger = AppriseSender([notification_server.url("a")])
    clock.sleep(120)
    with pytest.raises(KeyboardInterrupt):
        Notify(clock=clock, outbox=FailingOutbox(fired._pool), messenger=messenger).step()
    clock.sleep(600)
    drive(Notify(clock=clock, outbox=fired, messenger=messenger), clock)
    assert notification_server.paths == ["/a", "/a"]
    assert (
        notification_server.received[0][1]["message"]
        == notification_server.received[1][1]["message"]
    )


def test_no_secret_of_an_address_is_printed_or_logged(
    notification_server: NotificationServer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    notification_server.status[f"/{SECRET}"] = 403
    gone = f"json://me:{SECRET}@127.0.0.1:1/x"
    messenger = AppriseSender([notification_server.url(SECRET), gone])
    errors = [
        messenger.send(target, title="t", body="b", severity=Severity.WARNING)
        for target in messenger.targets
    ]
    assert errors == ["json (1 of 2): HTTP 403", "json (2 of 2): could not be reached"]
    with pytest.raises(ConfigError) as refused:
        AppriseSender([f"nosuch://{SECRET}"])
    printed = capfd.readouterr()
    everything = f"{errors} {refused.value} {caplog.text} {printed.out} {printed.err} {messenger!r}"
    assert SECRET not in everything


def test_addresses_are_separated_by_spaces_and_deduplicated() -> None:
    settings = Settings(notify_urls="json://a/x?b=1,2  json://c\njson://a/x?b=1,2")
    assert notify_urls(settings) == ["json://a/x?b=1,2", "json://c"]
    assert "json" not in repr(settings)
