"""Law L1 with real processes and sockets, kill -9 and crashes of the database."""

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headway.clock import SystemClock, rng
from headway.store.migrate import upgrade
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer

WORKERS = Path(__file__).with_name("limit_storm_workers.py")
CLOCK = SystemClock()
LIMIT = 2
SPAN_S = 0.5
GAP_S = 0.25


class Supplier:
    """Counts arrivals and refuses by four meanings of "two in a span" at once."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[str, float, datetime]] = []
        self.refusals: list[str] = []
        self.arrived = threading.Condition()
        self._recent: deque[float] = deque(maxlen=LIMIT)
        self._fixed = (-1.0, 0)
        self._left = float(LIMIT)
        self._last_s = -GAP_S

    def take(self, permit_id: str) -> None:
        """Record an arrival and check it."""
        with self.arrived:
            at_s, at = CLOCK.monotonic(), CLOCK.now()
            self.refusals += [f"{name} at {at_s}" for name in self._refusals(at_s)]
            self.arrivals.append((permit_id, at_s, at))
            self.arrived.notify_all()

    def _refusals(self, at_s: float) -> Iterator[str]:
        if len(self._recent) == LIMIT and at_s - self._recent[0] <= SPAN_S:
            yield "sliding log"
        self._recent.append(at_s)
        number = at_s // SPAN_S
        self._fixed = (number, self._fixed[1] + 1 if number == self._fixed[0] else 1)
        if self._fixed[1] > LIMIT:
            yield "fixed window"
        self._left = min(LIMIT, self._left + (at_s - self._last_s) / GAP_S) - 1
        if self._left < 0:
            yield "bucket"
        if at_s - self._last_s < GAP_S:
            yield "leaky bucket"
        self._last_s = at_s

    def await_arrivals(self, count: int) -> None:
        """Wait until that many more calls have arrived."""
        with self.arrived:
            goal = len(self.arrivals) + count
            assert self.arrived.wait_for(lambda: len(self.arrivals) >= goal, timeout=200)


@contextmanager
def serving(supplier: Supplier) -> Iterator[int]:
    """Serve a supplier on a free port; some replies are slow, and a few are too late."""
    generator = rng("replies")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            supplier.take(self.path.removeprefix("/"))
            CLOCK.sleep(generator.choice((0, 0.01, 0.02, 0.05, 0.05, 0.1, 0.1, 0.4)))
            try:
                self.send_response(204)
                self.end_headers()
            except OSError:
                return  # the caller was killed, or has given up

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # a killed caller resets its connection
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def storm(folder: Path, supplier: Supplier, *, rounds: int, calls: int) -> int:
    """Run callers, and crash the database between rounds; return how many were started."""
    with EmbeddedServer(folder, clock=CLOCK) as server, serving(supplier) as port:
        server.ensure_database("storm")
        with open_pool(server.dsn("storm"), size=1) as pool:
            upgrade(pool, CLOCK)
        command = [sys.executable, str(WORKERS), str(folder), str(port), "storm"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as workers:
            try:
                supplier.await_arrivals(calls)
                for _ in range(rounds):
                    server.stop(immediate=True)
                    server.start()
                    supplier.await_arrivals(calls)
            finally:
                output, _ = workers.communicate(timeout=30)
        assert workers.returncode == 0
        check_ledger(server.dsn("storm"), supplier)
    return int(output)


def check_ledger(dsn: str, supplier: Supplier) -> None:
    """Check that every arrival was permitted, and came between its begin and its assumed end."""
    with open_pool(dsn, size=1) as pool, pool.connection() as conn:
        rows = conn.execute("SELECT permit_id::text, status, begun_at, arrived_by FROM call_ledger")
        ledger = {permit_id: values for permit_id, *values in rows}
    for permit_id, _, at in supplier.arrivals:
        status, begun_at, arrived_by = ledger[permit_id]
        assert status != "unsent"
        assert begun_at <= at
        assert arrived_by is None or at <= arrived_by + timedelta(milliseconds=1)


def test_a_storm_of_callers_is_never_refused(tmp_path: Path) -> None:
    supplier = Supplier()
    started = storm(tmp_path / "pg", supplier, rounds=2, calls=14)
    assert supplier.refusals == []
    assert started > 16, "no caller was killed"


@pytest.mark.campaign
def test_a_long_storm_of_callers_is_never_refused(tmp_path: Path) -> None:
    supplier = Supplier()
    storm(tmp_path / "pg", supplier, rounds=20, calls=60)
    assert supplier.refusals == []
