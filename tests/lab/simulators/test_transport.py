import threading
from collections.abc import Mapping
from datetime import UTC, datetime

import httpx
import pytest

from headway.clock import ScaledClock, SystemClock
from headway.errors import ConfigError
from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.transport import SimTransport, serve
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)


def echo(method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
    text = f"{method} {path} {headers.get('X-A') or headers.get('x-a')} {body.decode()}"
    return SimReply(status=201, headers={"X-B": "b"}, body=text.encode(), delay_s=3)


def always(reply: SimReply) -> SimTransport:
    return SimTransport(lambda *_: reply, VirtualClock(START))


def test_both_ways_carry_the_same_request_and_answer(clock: VirtualClock) -> None:
    requests = []
    with serve(echo, ScaledClock(100, start=START)) as server:
        for url, transport in ((server.url, None), ("http://x.test", SimTransport(echo, clock))):
            with httpx.Client(
                base_url=url, transport=transport, trust_env=False, timeout=30
            ) as client:
                reply = client.post("/a/b?c=d", content=b"body", headers={"X-A": "a"})
                requests.append((reply.status_code, reply.headers["x-b"], reply.text))
    assert requests == [(201, "b", "POST /a/b?c=d a body")] * 2


def test_in_process_the_delays_pass_on_the_clock(clock: VirtualClock) -> None:
    with httpx.Client(transport=SimTransport(echo, clock, network_s=(1, 1)), timeout=30) as client:
        client.get("http://x.test/")
    assert clock.monotonic() == 4


def test_the_request_arrives_after_the_network_and_before_the_answer(clock: VirtualClock) -> None:
    arrived = []

    def note(*_: object) -> SimReply:
        arrived.append(clock.monotonic())
        return SimReply(delay_s=5)

    with httpx.Client(transport=SimTransport(note, clock, network_s=(2, 2)), timeout=30) as client:
        client.get("http://x.test/")
    assert arrived == [2]
    assert clock.monotonic() == 7


@pytest.mark.parametrize("reply", (SimReply(outcome="hang"), SimReply(delay_s=31)))
def test_a_silent_server_lasts_until_the_clients_timeout(
    clock: VirtualClock, reply: SimReply
) -> None:
    transport = SimTransport(lambda *_: reply, clock, network_s=(0, 0))
    with httpx.Client(transport=transport, timeout=30) as client, pytest.raises(httpx.ReadTimeout):
        client.get("http://x.test/")
    assert clock.monotonic() == 30


def test_a_refused_and_a_broken_connection_differ() -> None:
    for outcome, error in (("refuse", httpx.ConnectError), ("drop", httpx.RemoteProtocolError)):
        with (
            httpx.Client(transport=always(SimReply(outcome=outcome)), timeout=30) as client,
            pytest.raises(error),
        ):
            client.get("http://x.test/")


def test_over_sockets_a_dropped_call_breaks_the_connection() -> None:
    with (
        serve(lambda *_: SimReply(outcome="drop"), SystemClock()) as server,
        httpx.Client(trust_env=False, timeout=30) as client,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        client.get(server.url)


def test_stopping_wakes_a_call_that_hangs() -> None:
    arrived, outcome = threading.Event(), []

    def hang(*_: object) -> SimReply:
        arrived.set()
        return SimReply(outcome="hang")

    server = serve(hang, SystemClock())

    def call() -> None:
        with httpx.Client(trust_env=False, timeout=200) as client:
            try:
                client.get(server.url)
            except httpx.RemoteProtocolError as error:
                outcome.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    arrived.wait()
    server.stop()
    thread.join()
    assert len(outcome) == 1


def test_a_port_in_use_is_explained_in_one_line() -> None:
    with (
        serve(echo, SystemClock()) as server,
        pytest.raises(ConfigError, match=f"port {server.port} is in use"),
    ):
        serve(echo, SystemClock(), port=server.port)


def test_an_impossible_port_is_explained() -> None:
    with pytest.raises(ConfigError, match="choose another"):
        serve(echo, SystemClock(), port=99_999)


def test_a_stopped_server_frees_its_port() -> None:
    with serve(echo, SystemClock()) as server:
        port = server.port
    with serve(echo, SystemClock(), port=port) as again:
        assert again.url.endswith(str(port))
