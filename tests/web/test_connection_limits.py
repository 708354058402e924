"""A sender that never completes its headers keeps neither memory nor a connection."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest
from tests.conftest import HTTP_TIMEOUT_S
from tests.operations.sample import SampleDeployment

from headway.web.connection_limits import HEADER_BYTES_MAX, PER_ADDRESS_MAX
from headway.web.server import LOOPBACK, SiteServer, listen
from headway.web.site import create

Serve = Callable[..., tuple[str, int]]
REQUEST = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture
def serve(sample: SampleDeployment) -> Iterator[Serve]:
    servers: list[SiteServer] = []

    def start(*, proxies: str = LOOPBACK, header_wait_s: float = 20) -> tuple[str, int]:
        listener = listen("127.0.0.1", 0)
        site = create(sample.app, refresh_s=0)
        server = SiteServer(site, listener, proxies=proxies, header_wait_s=header_wait_s)
        server.start()
        servers.append(server)
        return listener.getsockname()[:2]

    yield start
    for server in servers:
        server.stop()


def connect(stack: ExitStack, place: tuple[str, int]) -> socket.socket:
    return stack.enter_context(socket.create_connection(place, timeout=HTTP_TIMEOUT_S))


def read_all(sender: socket.socket) -> bytes:
    """Read until the server closes; a reset also means that it closed."""
    pieces: list[bytes] = []
    try:
        while piece := sender.recv(65_536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


def has_taken(sender: socket.socket, data: bytes) -> bool:
    """Return True if the server took all of it before it closed the connection."""
    try:
        sender.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


@pytest.mark.parametrize("line", (b"x: y\r\n", b"x" * 5000))
def test_headers_without_an_end_are_refused_soon(serve: Serve, line: bytes) -> None:
    with ExitStack() as stack:
        sender = connect(stack, serve())
        sender.sendall(REQUEST)
        assert not has_taken(sender, line * (2000 * HEADER_BYTES_MAX // len(line)))


def test_a_request_whose_headers_came_at_once_but_are_too_large_is_answered_431(
    serve: Serve,
) -> None:
    with ExitStack() as stack:
        sender = connect(stack, serve())
        sender.sendall(REQUEST + b"x: " + b"y" * HEADER_BYTES_MAX + b"\r\n\r\n")
        assert read_all(sender).startswith(b"HTTP/1.1 431 ")


def test_a_connection_that_sends_no_request_is_closed(serve: Serve) -> None:
    with ExitStack() as stack:
        place = serve(header_wait_s=0.2)
        silent, slow = connect(stack, place), connect(stack, place)
        slow.sendall(REQUEST)
        assert read_all(silent).startswith(b"HTTP/1.1 408 ")
        assert read_all(slow).startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_was_kept_must_complete_its_next_headers_too(serve: Serve) -> None:
    with ExitStack() as stack:
        sender = connect(stack, serve(header_wait_s=0.5))
        sender.sendall(REQUEST + b"\r\n")
        assert sender.recv(65_536).startswith(b"HTTP/1.1 200 ")
        sender.sendall(REQUEST)
        assert b"HTTP/1.1 408 " in read_all(sender)


def test_one_address_cannot_take_all_connections(serve: Serve) -> None:
    place = serve(proxies="10.0.0.0/8")
    with ExitStack() as stack:
        for _ in range(PER_ADDRESS_MAX):
            connect(stack, place)
        assert read_all(connect(stack, place)).startswith(b"HTTP/1.1 503 ")
    behind_a_proxy = serve(proxies="127.0.0.0/8")
    with ExitStack() as stack:
        for _ in range(PER_ADDRESS_MAX):
            connect(stack, behind_a_proxy)
        sender = connect(stack, behind_a_proxy)
        sender.sendall(REQUEST + b"connection: close\r\n\r\n")
        assert read_all(sender).startswith(b"HTTP/1.1 200 ")


def test_a_large_body_is_no_large_header(serve: Serve) -> None:
    host, port = serve()
    body = b"x" * (10 * HEADER_BYTES_MAX)
    answer = httpx.post(f"http://{host}:{port}/webhooks/etsy", content=body, trust_env=False)
    assert answer.status_code in {401, 503}
