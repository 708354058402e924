"""A consumer of webhooks over real sockets that can fail, hang, die and come back."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from psycopg_pool import ConnectionPool

from headway.app import App, build
from headway.app.accounts import connect_account
from headway.app.webhooks import new_deliver
from headway.config import Settings
from headway.core.accounts.standard_webhooks import is_signed
from headway.core.catalog.listings import SellerId, Wait
from headway.engine.deliver import Deliver
from headway.operations import webhook_endpoints as operations
from headway.operations.callers import operator, seller_or_operator
from headway_lab.platforms import ETSY
from headway_lab.virtual_clock import VirtualClock

ACME = SellerId("acme")
OK = 200


@dataclass(frozen=True)
class Received:
    """One request that reached the consumer, and what it answered."""

    headers: Mapping[str, str]
    body: bytes
    status: int

    @property
    def event(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


@dataclass
class Consumer:
    """An HTTP server on loopback; `answer` decides by the event, `received` keeps all requests."""

    port: int = 0
    answer: Callable[[Mapping[str, Any]], int] = lambda _event: OK
    headers: dict[str, str] = field(default_factory=dict)
    reply: bytes = b"thank you"
    received: list[Received] = field(default_factory=list)
    hangs: threading.Event | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/webhooks"

    @property
    def accepted(self) -> list[dict[str, Any]]:
        """Events that were accepted, each at its first acceptance."""
        events = [request.event for request in self.received if request.status == OK]
        return list({event["id"]: event for event in reversed(events)}.values())[::-1]

    @contextmanager
    def listening(self) -> Iterator["Consumer"]:
        """Serve until the block ends, on the same port each time."""
        consumer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if consumer.hangs is not None:
                    consumer.hangs.wait()
                status = consumer.answer(json.loads(body))
                request = Received(
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=body,
                    status=status,
                )
                consumer.received.append(request)
                self.send_response(status)
                for name, value in consumer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(consumer.reply)))
                self.end_headers()
                self.wfile.write(consumer.reply)

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        server.daemon_threads = True
        server.block_on_close = False
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            if self.hangs is not None:
                self.hangs.set()
            server.shutdown()
            server.server_close()
            thread.join()


@dataclass
class WebhookWorld:
    """An application whose seller `acme` has an Etsy account, and workers that send."""

    app: App
    clock: VirtualClock
    account_id: str

    def execute(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.app.pool.connection() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def endpoint(self, url: str, *types: str, seller: SellerId | None = None) -> tuple[str, str]:
        """Make an endpoint; return its id and its secret."""
        body = operations.EndpointBody(url=url, event_types=list(types))
        made = operations.create_endpoint(seller_or_operator(self.app, "tester", seller), body)
        assert made.secret is not None
        return made.id, made.secret

    def view(self, endpoint_id: str) -> operations.WebhookEndpoint:
        return operations.endpoint(operator(self.app, "tester"), endpoint_id)

    def deliveries(self, endpoint_id: str) -> list[operations.EventDelivery]:
        page = operations.deliveries(operator(self.app, "tester"), endpoint_id, limit=200)
        return list(page.items)

    def order(self, name: str, *, status: str = "paid", total: str = "5.00") -> None:
        """Write an order as a pull does: it is new, or not as it was."""
        self.execute(
            "INSERT INTO orders AS row (account_id, external_id, user_id, platform, status,"
            " is_open, currency, total, placed_at, checked_at, created_at, updated_at)"
            " VALUES (%s, %s, %s, 'etsy', %s, true, 'USD', %s, %s, %s, %s, %s)"
            " ON CONFLICT (account_id, external_id) DO UPDATE SET status = excluded.status,"
            " total = excluded.total, updated_at = excluded.updated_at",
            self.account_id, name, ACME, status, total, *[self.clock.now()] * 4,
        )  # fmt: skip

    def worker(self, name: str = "one", *, is_slow: bool = False) -> Deliver:
        # Nothing happens while they wait, so they need not look each second.
        return new_deliver(self.app, name, is_slow=is_slow, poll=timedelta(hours=1))

    def run(self, *workers: Deliver, until: Callable[[], bool]) -> None:
        """Let workers do their steps in turn until this is so; waits cost no real time."""
        workers = workers or (self.worker(), self.worker("two", is_slow=True))
        while not until():
            results = [worker.step() for worker in workers]
            waits = [result.until for result in results if isinstance(result, Wait)]
            if len(waits) == len(results):
                self.clock.sleep(max(0.001, (min(waits) - self.clock.now()).total_seconds()))

    def is_empty(self) -> bool:
        """Return True if nothing waits to be sent."""
        return self.execute("SELECT count(*) FROM event_deliveries WHERE ended_at IS NULL") == [
            (0,)
        ]

    def verify(self, secret: str, request: Received) -> bool:
        return is_signed(secret, request.headers, request.body, self.clock.now())


def create_world(
    pool: ConnectionPool, clock: VirtualClock, folder: Path, **chosen: Any
) -> WebhookWorld:
    """Create the world; keywords are settings."""
    defaults = {"webhook_networks": "127.0.0.0/8", "webhook_timeout_s": 2.0}
    settings = Settings(data_dir=folder, policy="rolling", **{**defaults, **chosen})
    app = build(settings, clock, pool)
    account = connect_account(pool, ACME, "1001", platform=ETSY, now=clock.now())
    return WebhookWorld(app=app, clock=clock, account_id=account.id)
