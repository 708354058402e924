"""The client of a server's API, against a socket that sends scripted replies."""

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from headway.client.api import NOT_SET_UP, HeadwayApi
from headway.errors import (
    ConfigError,
    ConflictError,
    HeadwayError,
    NotFoundError,
    StoreError,
    TimedOutError,
    TooManyError,
    UnauthenticatedError,
    UnreadableError,
    UnsentError,
)
from headway_lab.virtual_clock import VirtualClock

KEY = "hw_a-key-that-nobody-may-see"
SIGNED = {
    "Headway-Version": "9.9",
    "Headway-Now": "2026-01-01T00:00:00+00:00",
    "Content-Type": "application/json",
}
PROBLEM = {"Content-Type": "application/problem+json"}
BREAK = b""


def reply(status: int, body: object, headers: dict[str, str]) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    all_headers = {**headers, "Content-Length": str(len(raw)), "Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + raw


def problem(status: int, detail: str, **headers: str) -> bytes:
    body = {"title": "t", "status": status, "detail": detail}
    return reply(status, body, {**SIGNED, **PROBLEM, **headers})


GOOD = reply(200, {"a": 1}, SIGNED)


class ScriptedServer:
    """A server that sends one reply after another and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def reply_with(self, *replies: bytes) -> None:
        threading.Thread(target=self._serve, args=(replies,), daemon=True).start()

    def _serve(self, replies: tuple[bytes, ...]) -> None:
        for reply in replies:
            connection, _ = self._socket.accept()
            with connection:
                self.requests.append(_read_request(connection))
                connection.sendall(reply)

    def send_at_once(self, payload: bytes) -> None:
        """Send this to the next connection without reading its request."""

        def serve() -> None:
            connection, _ = self._socket.accept()
            with connection:
                connection.sendall(payload)

        threading.Thread(target=serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    @property
    def keys(self) -> list[str]:
        return [_header(request, "idempotency-key") for request in self.requests]


def _read_request(connection: socket.socket) -> str:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += connection.recv(65_536)
    head, _, body = raw.partition(b"\r\n\r\n")
    length = int(_header(head.decode(), "content-length") or 0)
    while len(body) < length:
        body += connection.recv(65_536)
    return (head + b"\r\n\r\n" + body).decode()


def _header(request: str, name: str) -> str:
    pairs = (line.partition(": ") for line in request.split("\r\n")[1:])
    return next((value for key, _, value in pairs if key.lower() == name), "")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    api_client = ScriptedServer()
    yield api_client
    api_client.close()


@pytest.fixture
def api(server: ScriptedServer, clock: VirtualClock) -> Iterator[HeadwayApi]:
    api_client = HeadwayApi(server.url, KEY, clock=clock)
    yield api_client
    api_client.close()


def test_a_response_has_the_version_and_clock_of_the_server(
    server: ScriptedServer, api: HeadwayApi
) -> None:
    server.reply_with(reply(200, {"a": 1}, {**SIGNED, "Headway-Speed": "60.0"}))
    response = api.request("GET", "/api/x/a%2Fb", query={"q": "a b", "none": None, "empty": ""})
    assert (response.json, response.version, response.speed) == ({"a": 1}, "9.9", 60.0)
    assert response.now.isoformat() == "2026-01-01T00:00:00+00:00"
    assert server.requests[0].startswith("GET /api/x/a%2Fb?q=a+b HTTP/1.1\r\n")
    assert _header(server.requests[0], "authorization") == f"Bearer {KEY}"


def test_a_post_whose_connection_breaks_is_sent_once_more_under_the_same_key(
    server: ScriptedServer, api: HeadwayApi
) -> None:
    server.reply_with(BREAK, GOOD, GOOD)
    assert api.request("POST", "/api/x", body={"b": 2}).json == {"a": 1}
    first, again = server.keys
    assert first == again != ""
    assert [request.endswith('{"b":2}') for request in server.requests] == [True, True]
    api.request("POST", "/api/x")
    assert server.keys[2] not in {"", first}, "another question has another key"


def test_a_connection_that_breaks_twice_is_an_error(
    server: ScriptedServer, api: HeadwayApi
) -> None:
    server.reply_with(BREAK, BREAK)
    with pytest.raises(TimedOutError, match="broke; the request may have been carried out"):
        api.request("POST", "/api/x")


@pytest.mark.parametrize("status", (409, 429, 503))
def test_it_honors_retry_after(
    server: ScriptedServer, api: HeadwayApi, clock: VirtualClock, status: int
) -> None:
    server.reply_with(problem(status, "wait", **{"Retry-After": "7"}), GOOD)
    assert api.request("POST", "/api/x").json == {"a": 1}
    assert clock.monotonic() == 7
    assert server.keys[0] == server.keys[1]


def test_it_does_not_wait_forever(
    server: ScriptedServer, api: HeadwayApi, clock: VirtualClock
) -> None:
    server.reply_with(*[problem(429, "too often", **{"Retry-After": "20"})] * 2)
    with pytest.raises(TooManyError, match="too often") as caught:
        api.request("GET", "/api/x")
    assert caught.value.retry_after_s == 20
    assert clock.monotonic() == 20


@pytest.mark.parametrize(
    ("status", "kind"),
    (
        (404, NotFoundError),
        (409, ConflictError),
        (503, StoreError),
    ),
)
def test_a_problem_reply_becomes_the_same_error_with_the_same_message(
    server: ScriptedServer, api: HeadwayApi, status: int, kind: type[HeadwayError]
) -> None:
    server.reply_with(problem(status, "no part is called A=1"))
    with pytest.raises(kind, match=r"^no part is called A=1$"):
        api.request("GET", "/api/x")


@pytest.mark.parametrize(
    ("raw", "kind", "pattern"),
    (
        (reply(200, b"<html>", {}), UnreadableError, "is not Headway"),
        (reply(200, {"a": 1}, {}), UnreadableError, "is not Headway"),
        (reply(200, b"{", SIGNED), UnreadableError, "is not Headway"),
        (reply(502, b"<html>", {}), UnreadableError, r"is not Headway.*\(status 502\)"),
        (reply(404, [1], PROBLEM), UnreadableError, "is not Headway"),
        (reply(301, b"", {"Location": "https://b/"}), ConfigError, "redirects to https://b/"),
        (
            reply(404, {"title": "t", "detail": "nothing here"}, PROBLEM),
            UnreadableError,
            "another version",
        ),
        (
            reply(401, {"title": "t", "detail": "who?"}, PROBLEM),
            UnauthenticatedError,
            "does not accept the key in HEADWAY_API_KEY, or it expired; create one there",
        ),
        (
            reply(503, {"title": NOT_SET_UP, "detail": "no key file"}, {**SIGNED, **PROBLEM}),
            ConfigError,
            "no key file",
        ),
    ),
)
def test_an_unexpected_reply_is_a_clear_error_without_the_key(
    server: ScriptedServer, api: HeadwayApi, raw: bytes, kind: type[HeadwayError], pattern: str
) -> None:
    server.reply_with(raw)
    with pytest.raises(kind, match=pattern) as caught:
        api.request("GET", "/api/x")
    assert KEY not in str(caught.value)
    assert str(caught.value).isprintable()


def test_an_unreachable_server_is_an_error(server: ScriptedServer, clock: VirtualClock) -> None:
    url = server.url
    server.close()
    with pytest.raises(UnsentError, match="no server is running there"):
        HeadwayApi(url, KEY, clock=clock).request("GET", "/api/x")


def test_a_server_without_tls_is_an_error(server: ScriptedServer, clock: VirtualClock) -> None:
    server.send_at_once(reply(400, b"", {}))
    with pytest.raises(UnsentError, match="does the server use http:// instead of https://"):
        HeadwayApi(server.url.replace("http:", "https:"), KEY, clock=clock).request("GET", "/api/x")


def test_a_long_reply_is_streamed_and_a_truncated_one_is_an_error(
    server: ScriptedServer, api: HeadwayApi
) -> None:
    full_reply = reply(200, b"one\ntwo\n", SIGNED)
    server.reply_with(full_reply, full_reply[:-4], problem(404, "no such seller"))
    assert list(api.lines("/api/audit")) == ["one", "two"]
    lines = api.lines("/api/audit")
    assert next(lines) == "one"
    with pytest.raises(TimedOutError, match="broke"):
        list(lines)
    with pytest.raises(NotFoundError, match="no such seller"):
        list(api.lines("/api/audit"))


@pytest.mark.parametrize(
    "url", ("headway.example.com", "ftp://a", "http://", "https://me:word@a", "https://a?b=1", "[")
)
def test_an_invalid_address_is_refused(clock: VirtualClock, url: str) -> None:
    with pytest.raises(ConfigError, match=r"^--server: write"):
        HeadwayApi(url, KEY, clock=clock)


@pytest.mark.parametrize("key", ("hw_a b", "hw_ä", "hw_a\nhw_b"))
def test_an_invalid_key_is_refused_without_showing_it(clock: VirtualClock, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HeadwayApi("http://127.0.0.1", key, clock=clock)
    assert "hw_" not in str(caught.value)
