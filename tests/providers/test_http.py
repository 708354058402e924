import contextlib
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.clock import ScaledClock
from headway.errors import (
    PermanentError,
    ProviderError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
    UnsentError,
)
from headway.providers.excerpt import excerpt
from headway.providers.http import HttpResponse, build_client, check_status, exchange, retry_after_s
from headway.providers.http_deadline import _Deadline
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
RawServer = Callable[[Callable[[socket.socket], None]], str]


def fetch(url: str, *, timeout_s: float = 30, speed: float = 20) -> HttpResponse:
    clock = ScaledClock(speed, start=START)
    with build_client(url, clock=clock, timeout_s=timeout_s) as client:
        request = client.build_request("GET", "/")
        return exchange(client, request, clock=clock, timeout_s=timeout_s, provider="test")


def answering(body: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(body)


def test_a_whole_answer_comes_back(raw_server: RawServer) -> None:
    answer = fetch(raw_server(answering(OK)))
    assert (answer.status, answer.body) == (200, b"ok")


@pytest.mark.parametrize("drips", ("headers", "body", "chunks"))
def test_a_server_that_drips_bytes_is_given_up_at_the_deadline(
    raw_server: RawServer, drips: str
) -> None:
    heads = {
        "headers": b"",
        "body": b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n",
        "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    }
    piece = {
        "headers": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "body": b"x" * 40,
        "chunks": b"1\r\nx\r\n" * 40 + b"0\r\n\r\n",
    }[drips]
    clock = ScaledClock(20, start=START)
    has_ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(heads[drips])
        for byte in piece:
            clock.sleep(1)
            connection.sendall(bytes([byte]))
        has_ended.set()

    # Every single byte is in time; the whole, 40 and more seconds, is not.
    with pytest.raises(TimedOutError, match="in time"):
        fetch(raw_server(drip), timeout_s=10)
    assert not has_ended.is_set()


def test_a_throttled_answer_counts_even_if_its_body_never_ends(raw_server: RawServer) -> None:
    head = b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 99\r\n\r\nslow"
    answer = fetch(raw_server(answering(head)))
    with pytest.raises(ThrottledError, match="slow") as raised:
        check_status(answer, provider="test", shows_body=True)
    assert raised.value.retry_after_s == 7


@pytest.mark.parametrize(
    "sent",
    (
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        b"HTTP/1.1 2",
        b"\x16\x03 nonsense\r\n\r\n",
    ),
)
def test_a_connection_that_breaks_may_have_been_counted(raw_server: RawServer, sent: bytes) -> None:
    with pytest.raises(TimedOutError, match="broke"):
        fetch(raw_server(answering(sent)))


def test_a_body_without_end_is_cut_off(raw_server: RawServer) -> None:
    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(100):
                connection.sendall(b"x" * 100_000)

    with pytest.raises(UnreadableError, match="5 MB"):
        fetch(raw_server(flood), timeout_s=100)


def test_a_compressed_answer_is_refused(raw_server: RawServer) -> None:
    bomb = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok"
    with pytest.raises(UnreadableError, match="compressed"):
        fetch(raw_server(answering(bomb)))


def test_a_redirect_is_not_followed(raw_server: RawServer) -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    answer = fetch(raw_server(answering(moved)))
    with pytest.raises(UnreadableError, match="302"):
        check_status(answer, provider="test", shows_body=True)


def test_a_port_nobody_listens_on_is_unsent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnsentError):
        fetch(f"http://127.0.0.1:{port}")


def test_a_proxy_of_the_environment_is_not_used(
    raw_server: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetch(raw_server(answering(OK))).body == b"ok"


def test_the_request_says_who_we_are_and_keeps_no_cookie(raw_server: RawServer) -> None:
    clock = ScaledClock(20, start=START)
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    with build_client(raw_server(answering(cookie)), clock=clock, timeout_s=30) as client:
        request = client.build_request("GET", "/")
        exchange(client, request, clock=clock, timeout_s=30, provider="test")
        assert request.headers["user-agent"].startswith("headway/")
        assert not client.cookies


def test_what_must_be_hidden_is_cut_from_the_body(clock: VirtualClock) -> None:
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, stream=Chunks([b"my-to", b"ken-1"]))
    )
    with build_client("http://x.test", clock=clock, timeout_s=5, transport=transport) as client:
        answer = exchange(
            client,
            client.build_request("GET", "/"),
            clock=clock,
            timeout_s=5,
            provider="test",
            hide=["my-token-1"],
        )
    assert answer.body == b"***"


class Chunks(httpx.SyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self):  # noqa: ANN204
        yield from self._chunks


def test_a_first_byte_that_would_leave_late_stays_here(clock: VirtualClock) -> None:
    deadline = _Deadline(clock=clock, timeout_s=30, speed=1)
    clock.sleep(2.4)
    assert deadline.connect() == pytest.approx(0.1)
    clock.sleep(0.2)
    with pytest.raises(httpcore.ConnectTimeout):
        deadline.write()
    sent = _Deadline(clock=clock, timeout_s=30, speed=1)
    sent.write()
    clock.sleep(29)
    assert sent.write() == pytest.approx(1)
    assert sent.read() == pytest.approx(1)
    clock.sleep(1)
    with pytest.raises(httpcore.ReadTimeout):
        sent.read()


@pytest.mark.parametrize(
    ("status", "error"),
    (
        (301, UnreadableError),
        (400, PermanentError),
        (401, TransientError),
        (403, TransientError),
        (404, PermanentError),
        (408, TransientError),
        (422, PermanentError),
        (429, ThrottledError),
        (430, ThrottledError),
        (500, TransientError),
        (503, TransientError),
    ),
)
def test_a_status_has_one_meaning(status: int, error: type[ProviderError]) -> None:
    answer = HttpResponse(
        status=status, headers=httpx.Headers(), body=b"why\n\x1b[31mnot" + b"x" * 999
    )
    with pytest.raises(ProviderError) as raised:
        check_status(answer, provider="test", shows_body=True)
    assert type(raised.value) is error
    assert raised.value.status == status
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 240
    with pytest.raises(error) as hidden:
        check_status(answer, provider="test", shows_body=False)
    assert "why" not in str(hidden.value)


@pytest.mark.parametrize("status", (400, 401, 403, 404, 422))
def test_a_page_says_nothing_of_a_token_or_a_request(status: int) -> None:
    answer = HttpResponse(status=status, headers=httpx.Headers(), body=b"\n<!DOCTYPE html><p>No")
    with pytest.raises(TransientError) as raised:
        check_status(answer, provider="test", shows_body=True)
    assert type(raised.value) is TransientError


def test_only_the_api_itself_refuses_a_token() -> None:
    answer = HttpResponse(status=401, headers=httpx.Headers(), body=b'{"error": "no"}')
    with pytest.raises(UnauthorizedError):
        check_status(answer, provider="test", shows_body=True)


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    (
        ("120", None, 120),
        ("2.5", None, 2.5),
        ("0", None, 0),
        ("-5", None, 0),
        ("999999999", None, 86_400),
        ("Thu, 01 Jan 2026 00:01:30 GMT", DATE, 90),
        ("Wed, 31 Dec 2025 23:00:00 GMT", DATE, 0),
        ("Thu, 01 Jan 2099 00:00:00 GMT", DATE, 86_400),
        ("Thu, 01 Jan 2026 00:01:30 GMT", None, None),
        ("soon", DATE, None),
        ("nan", None, None),
        ("inf", None, None),
        ("", DATE, None),
    ),
)
def test_retry_after_is_read_in_all_its_forms(
    value: str, date: str | None, seconds: float | None
) -> None:
    headers = httpx.Headers({"retry-after": value, **({"date": date} if date else {})})
    assert retry_after_s(headers) == seconds


@given(st.text(), st.text())
def test_any_retry_after_is_a_bounded_wait_or_none(value: str, date: str) -> None:
    headers = httpx.Headers([(b"retry-after", value.encode()), (b"date", date.encode())])
    seconds = retry_after_s(headers)
    assert seconds is None or 0 <= seconds <= 86_400


@given(st.binary())
def test_an_excerpt_is_short_and_printable(body: bytes) -> None:
    assert len(excerpt(body)) <= 200
    assert excerpt(body).isprintable()
