"""One attempt over real sockets: where it may go, how long it takes, and what is read of it."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography.fernet import Fernet
from tests.engine.webhook_setup import Consumer

from headway.clock import SystemClock
from headway.core.accounts.outgoing_webhooks import DueEvent, EndpointLease
from headway.core.accounts.standard_webhooks import make_secret
from headway.core.accounts.webhook_addresses import read_networks
from headway.core.catalog.listings import SellerId
from headway.errors import InvalidError
from headway.providers.http import build_client
from headway.providers.http_deadline import DeadlineTransport
from headway.providers.vault import Vault
from headway.providers.webhook_sender import WebhookSender, checked_addresses

LOOPBACK = read_networks("127.0.0.0/8")
VAULT = Vault([Fernet.generate_key().decode()])
EVENT = DueEvent(
    event_id=1,
    message_id="evt_1",
    type="webhook.test",
    seller="",
    subject="endpoint:1",
    data={"name": "Ünï ✈"},
    occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
    attempts=0,
    first_tried_at=None,
)
LEASE = EndpointLease(
    id="1",
    seller=None,
    url="",
    fence=1,
    failures=0,
    failing_since=None,
    secrets=[VAULT.encrypt(make_secret("ab" * 32))],
)


def sender(**chosen: object) -> WebhookSender:
    arguments = {"timeout_s": 1.0, "networks": LOOPBACK, **chosen}
    return WebhookSender(clock=SystemClock(), open_vault=lambda: VAULT, **arguments)  # type: ignore[arg-type]


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    with Consumer().listening() as consumer:
        yield consumer


def test_the_answer_of_an_endpoint_is_kept_in_short(consumer: Consumer) -> None:
    consumer.reply = b"x" * 2_000_000
    attempt = sender().send(replace(LEASE, url=consumer.url), EVENT)
    assert (attempt.status, attempt.reply, attempt.error) == (200, "x" * 200, "")


def test_a_sellers_endpoint_reaches_no_address_of_ours_even_where_operators_may(
    consumer: Consumer,
) -> None:
    for host in ("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1"):
        url = f"https://{host}:{consumer.port}/"
        attempt = sender().send(replace(LEASE, url=url, seller=SellerId("acme")), EVENT)
        assert attempt.status is None
        assert "not a public address" in attempt.error or "not public" in attempt.error
    assert not consumer.received


def test_a_name_that_resolves_to_an_internal_address_is_refused() -> None:
    for host in ("localhost", "127.1", "2130706433"):
        with pytest.raises(InvalidError, match="resolves to an address that is not public"):
            checked_addresses(host, 443, networks=(), is_plain=False, wait_s=2)
    assert checked_addresses("127.1", 80, networks=LOOPBACK, is_plain=True, wait_s=2) == [
        "127.0.0.1"
    ]
    with pytest.raises(InvalidError, match="must begin with https"):
        checked_addresses("8.8.8.8", 80, networks=LOOPBACK, is_plain=True, wait_s=2)


def test_the_connection_goes_to_the_address_that_was_checked(consumer: Consumer) -> None:
    asked = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    clock = SystemClock()
    transport = DeadlineTransport(clock=clock, timeout_s=2, speed=1, resolve=resolve)
    # No resolver knows this name, so nobody can have asked one again.
    url = f"http://rebound.invalid:{consumer.port}/x"
    with build_client("", clock=clock, timeout_s=2, transport=transport) as client:
        assert client.post(url, json={}).status_code == 200
    assert asked == [("rebound.invalid", consumer.port)]
    assert consumer.received[0].headers["host"] == f"rebound.invalid:{consumer.port}"


def test_a_redirect_is_not_followed(consumer: Consumer) -> None:
    with Consumer().listening() as other:
        consumer.answer = lambda _event: 302
        consumer.headers = {"Location": other.url}
        attempt = sender().send(replace(LEASE, url=consumer.url), EVENT)
        assert (attempt.status, attempt.is_delivered) == (302, False)
        assert not other.received


def test_an_endpoint_that_hangs_or_drips_ends_with_the_time_limit() -> None:
    clock = SystemClock()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            ended = threading.Event()
            with connection:
                connection.recv(65_536)
                while not ended.wait(0.05):
                    try:
                        connection.sendall(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        begun_s = clock.monotonic()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        attempt = sender().send(replace(LEASE, url=url), EVENT)
        assert attempt.error
        assert clock.monotonic() - begun_s < 30
        thread.join(30)


def test_a_closed_port_and_an_unknown_name_say_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    attempt = sender().send(replace(LEASE, url=f"http://127.0.0.1:{port}/"), EVENT)
    assert attempt.error == "no connection"
    attempt = sender().send(replace(LEASE, url="https://nobody.invalid/"), EVENT)
    assert attempt.error == "nobody.invalid cannot be resolved"


def test_retry_after_is_read(consumer: Consumer) -> None:
    consumer.answer = lambda _event: 429
    consumer.headers = {"Retry-After": "17"}
    assert sender().send(replace(LEASE, url=consumer.url), EVENT).retry_after_s == 17
