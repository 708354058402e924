"""A price list over real HTTP: validators, restarts, 200,000 rows, and lists that are held back."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import AuthStep, Sku, SupplierName
from headway.errors import (
    ConflictError,
    ProviderError,
    ThrottledError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
)
from headway.providers.feed.client import FeedSupplier
from headway.providers.feed.provider import FEED
from headway.providers.provider import ProviderContext, SupplierRole
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway.store.catalog.suppliers import SupplierRow
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
TOKEN = "a-very-secret-token"
HEADER = "sku,price,quantity\n"


def role() -> SupplierRole:
    assert FEED.supplier is not None
    return FEED.supplier


@dataclass
class ListServer:
    """Serves one list, with or without an ETag, and counts requests by status."""

    body: bytes = b""
    status: int = 200
    has_etag: bool = True
    claimed_bytes: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)
    received: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        etag = '"' + hashlib.sha256(self.body).hexdigest() + '"'
        self.received.append(request.headers.get("Authorization", ""))
        status = self.status
        if self.has_etag and request.headers.get("If-None-Match") == etag:
            status = 304
        self.statuses.append(status)
        body = b"" if status == 304 else self.body
        request.send_response(status)
        request.send_header("Content-Length", str(self.claimed_bytes or len(body)))
        if self.has_etag:
            request.send_header("ETag", etag)
        for name, value in self.headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)


@pytest.fixture
def server() -> Iterator[ListServer]:
    state = ListServer(body=rows(10))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                state.answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{httpd.server_port}/prices.csv"
    yield state
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def rows(count: int, price: str = "5") -> bytes:
    return (HEADER + "".join(f"P{number},{price},1\n" for number in range(count))).encode()


@dataclass
class FeedSetup:
    """Opens clients of one list that share a database, a folder and a clock."""

    context: ProviderContext
    row: SupplierRow
    clock: VirtualClock

    def open(self) -> FeedSupplier:
        supplier = role().open(self.context, lambda: self.row, lambda: {"token": TOKEN})
        assert isinstance(supplier, FeedSupplier)
        return supplier


@dataclass
class FeedSettings:
    data_dir: Path


Opener = Callable[..., FeedSetup]


@pytest.fixture
def make_setup(pool: ConnectionPool, tmp_path: Path, server: ListServer) -> Opener:
    clock = VirtualClock(START)

    def make(url: str | None = None, **options: str) -> FeedSetup:
        context = ProviderContext(
            settings=FeedSettings(tmp_path / "data"),
            clock=clock,
            token_store=Credentials(pool),
            open_vault=lambda: Vault([KEY]),
        )
        row = SupplierRow(
            name=SupplierName("list"),
            client_id="abc",
            username="",
            url=url or server.url,
            kind="feed",
            options={"currency": "USD", **options},
        )
        return FeedSetup(context, row, clock)

    return make


def refresh(supplier: FeedSupplier) -> bool:
    step = supplier.auth_step()
    return step is not None and supplier.authenticate(step)


def price_of(supplier: FeedSupplier, sku: str = "P1") -> str:
    return str(supplier.quote([Sku(sku)]).quotes[Sku(sku)].net_price)


def test_the_list_is_read_once_an_interval_and_answers_slices(
    make_setup: Opener, server: ListServer
) -> None:
    supplier = make_setup().open()
    assert supplier.auth_step() is AuthStep.LIST
    assert refresh(supplier)
    assert supplier.auth_step() is None
    reply = supplier.quote([Sku("P1"), Sku("P9"), Sku("other")])
    assert (set(reply.quotes), reply.missing) == ({"P1", "P9"}, {"other"})
    assert server.statuses == [200]
    assert server.received == [f"Bearer {TOKEN}"]
    assert TOKEN not in repr(supplier)


@pytest.mark.parametrize("has_etag", (True, False))
def test_an_unchanged_list_is_a_good_read_of_everything(
    make_setup: Opener, server: ListServer, *, has_etag: bool
) -> None:
    setup, server.has_etag = make_setup(interval="1h"), has_etag
    supplier = setup.open()
    refresh(supplier)
    setup.clock.sleep(timedelta(hours=1).total_seconds())
    assert supplier.auth_step() is AuthStep.LIST
    assert refresh(supplier)
    assert supplier.auth_step() is None
    assert server.statuses == ([200, 304] if has_etag else [200, 200])
    assert price_of(supplier) == "5"


def test_a_changed_list_replaces_the_old_one(make_setup: Opener, server: ListServer) -> None:
    setup = make_setup()
    supplier = setup.open()
    refresh(supplier)
    server.body = rows(10, price="6")
    setup.clock.sleep(3601)
    refresh(supplier)
    assert price_of(supplier) == "6"


def test_a_restart_and_another_worker_need_no_request(
    make_setup: Opener, server: ListServer
) -> None:
    refresh(make_setup().open())
    other = make_setup().open()
    assert other.auth_step() is None
    assert price_of(other) == "5"
    assert server.statuses == [200]


def test_only_one_worker_reads_the_list_at_a_time(make_setup: Opener, server: ListServer) -> None:
    setup = make_setup()
    first, second = setup.open(), setup.open()
    states = second._states
    owner = states.begin()
    assert owner is not None
    assert first.authenticate(AuthStep.LIST) is False
    states.end(owner)
    assert first.authenticate(AuthStep.LIST) is True
    assert second.authenticate(AuthStep.LIST) is False, "it is there already"
    assert server.statuses == [200]


def test_two_hundred_thousand_rows_are_read_within_bounds(
    make_setup: Opener, server: ListServer
) -> None:
    server.body = rows(200_000)
    supplier = make_setup(seats="2000").open()
    assert refresh(supplier)
    skus = [Sku(f"P{number}") for number in range(198_000, 200_000)]
    assert len(supplier.quote(skus).quotes) == 2000
    assert supplier._state.rows == 200_000


def test_a_list_that_shrinks_by_half_is_held_until_a_person_accepts_it(
    make_setup: Opener, server: ListServer
) -> None:
    setup = make_setup()
    supplier, accept = setup.open(), role().accept
    assert accept is not None
    refresh(supplier)
    with pytest.raises(ConflictError, match="no price list is held"):
        accept(setup.context, setup.row)
    server.body = rows(5, price="6")
    setup.clock.sleep(3601)
    with pytest.raises(UnreadableError, match=r"5 usable rows, .* had 10.*accept list"):
        refresh(supplier)
    assert price_of(supplier) == "5", "the last good values stay"
    assert "5 rows are accepted" in accept(setup.context, setup.row)
    assert refresh(supplier)
    assert price_of(supplier) == "6"
    with pytest.raises(ConflictError, match="no price list is held"):
        accept(setup.context, setup.row)


def test_a_list_that_shrinks_a_little_is_read(make_setup: Opener, server: ListServer) -> None:
    setup = make_setup()
    supplier = setup.open()
    refresh(supplier)
    server.body = rows(6)
    setup.clock.sleep(3601)
    assert refresh(supplier)
    assert supplier.quote([Sku("P9")]).missing == {"P9"}


@pytest.mark.parametrize(
    ("body", "claimed"),
    (
        (rows(10)[:-3], None),
        (rows(9), 10_000),
        (HEADER.encode(), None),
        (b"", None),
        (b"\xff", None),
    ),
)
def test_a_truncated_or_empty_list_changes_nothing(
    make_setup: Opener, server: ListServer, body: bytes, claimed: int | None
) -> None:
    setup = make_setup()
    supplier = setup.open()
    refresh(supplier)
    server.body, server.claimed_bytes = body, claimed
    setup.clock.sleep(3601)
    with pytest.raises(TransientError):
        refresh(supplier)
    assert price_of(supplier) == "5"
    server.body, server.claimed_bytes = rows(11, price="7"), None
    assert refresh(supplier)
    assert price_of(supplier) == "7"


def test_a_list_above_the_size_limit_is_refused(make_setup: Opener, server: ListServer) -> None:
    supplier = make_setup().open()
    supplier._bytes_max = 1000
    server.body = rows(1000)
    with pytest.raises(UnreadableError, match="more than 0 MB"):
        refresh(supplier)
    assert list(supplier._path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("status", "kind"),
    (
        (401, UnauthorizedError),
        (429, ThrottledError),
        (500, TransientError),
        (304, UnreadableError),
    ),
)
def test_a_refusal_is_the_error_that_its_status_means(
    make_setup: Opener, server: ListServer, status: int, kind: type[ProviderError]
) -> None:
    server.status, server.has_etag = status, False
    server.body = json.dumps({"error": TOKEN}).encode()
    server.headers["Retry-After"] = "7"
    with pytest.raises(kind) as raised:
        refresh(make_setup().open())
    assert TOKEN not in str(raised.value)
    if isinstance(raised.value, ThrottledError):
        assert raised.value.retry_after_s == 7


def test_a_file_is_read_like_a_list_on_the_network(make_setup: Opener, tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_bytes(rows(3))
    setup = make_setup(url=str(path))
    supplier = setup.open()
    assert refresh(supplier)
    assert price_of(supplier) == "5"
    path.unlink()
    setup.clock.sleep(3601)
    with pytest.raises(TransientError, match="cannot be read: No such file"):
        refresh(supplier)
    assert price_of(supplier) == "5"
