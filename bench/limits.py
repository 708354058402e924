"""Grants a second of our limiter and of libraries, and beside it what that speed buys.

Speed: all permitted, 1, 4 and 16 client processes. Strictness: 8 processes share 2 calls per 2 s;
a supplier logs when calls arrive, up to 50 ms after they were sent.
"""

import multiprocessing
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import psycopg
from psycopg import sql

from bench.contenders import BUILDERS, STRICT_LIMIT, STRICT_SPAN_S, Acquire, Order, build
from bench.services import (
    CLOCK,
    migrated,
    postgres,
    scratch,
    valkey_version,
    version,
)
from bench.table import median, report_progress, show
from headway.clock import rng
from headway.runners.valkey import EmbeddedValkey
from headway.store.server.embedded import EmbeddedServer
from headway.store.server.launch import HOST

CLIENTS = (1, 4, 16)
MIDDLING = 4
OURS = "headway, durable"
STRICT_CLIENTS = 8
ROUNDS = 3
SPEED_S = 1.5
STRICT_S = 15.0
START_S = 10.0
ARRIVAL_S = 0.05
JOIN_S = 5
NOTES = f"""\
speed: grants a second, all permitted, median of {ROUNDS} shuffled rounds; ratio: to ours with
  {MIDDLING} clients; p50: of one grant, 1 client; refused: denied though permitted, \
{CLIENTS[-1]} clients
strict: {STRICT_CLIENTS} processes share {STRICT_LIMIT} calls per {STRICT_SPAN_S} s, arriving \
up to {ARRIVAL_S * 1000:.0f} ms after the grant;
  early: calls that found the window full at the supplier; of allowed: speed from first call
  to last, where a burst at an end counts for more; per process: fewest and most calls
headway makes three transactions a grant (reserve, begin, settle) and a ledger line; its speed run
  uses a Bucket, its strict run a finish-anchored Window with a gap; the libraries make one
  request a grant, and what they keep in Valkey does not survive a crash"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a client process does, and for how long; a supplier's port makes it a strict run."""

    order: Order
    seconds: float
    client: int
    supplier_port: int | None = None


@dataclass(slots=True, kw_only=True)
class Speed:
    """What was measured of one limiter with some number of clients, a figure a round."""

    per_s: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    tries: int = 0
    grants: int = 0

    @property
    def refused(self) -> float:
        """The share of tries that were refused although everything is permitted."""
        return 1 - self.grants / self.tries if self.tries else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Strictness:
    """What the supplier saw, and how the grants fell on the processes."""

    arrivals: tuple[float, ...]
    grants: tuple[int, ...]

    @property
    def window_max(self) -> int:
        """The most calls in any window of the span; one that ends exactly in time is not inside."""
        return max((self._in_window(index) for index in range(len(self.arrivals))), default=0)

    @property
    def early(self) -> int:
        """Return how many calls arrived while the window was full."""
        pairs = zip(self.arrivals, self.arrivals[STRICT_LIMIT:], strict=False)
        return sum(later - first < STRICT_SPAN_S for first, later in pairs)

    @property
    def share(self) -> float:
        """The speed reached, of the speed allowed, between the first call and the last."""
        if len(self.arrivals) < STRICT_LIMIT:
            return 0.0
        took_s = self.arrivals[-1] - self.arrivals[0]
        return (len(self.arrivals) - 1) / took_s * STRICT_SPAN_S / STRICT_LIMIT

    def _in_window(self, index: int) -> int:
        end = self.arrivals[index] + STRICT_SPAN_S
        return sum(1 for at in self.arrivals[index:] if at < end)


def run(*, seconds: float = SPEED_S, strict_seconds: float = STRICT_S) -> None:
    """Measure every limiter for speed and for strictness, then print one table."""
    with scratch() as folder, ExitStack() as stack:
        server = stack.enter_context(postgres(folder / "limits", {}))
        valkey = EmbeddedValkey(folder / "valkey", clock=CLOCK, keeps=False)
        stack.enter_context(valkey)
        store = {
            "postgres": migrated(server, "durable"),
            "postgres_async": _asynchronous(server),
            "valkey": valkey.url,
        }
        note = f"{version(server)}; {valkey_version(valkey)}"
        report_progress(note)
        report_progress(f"starting {max(CLIENTS)} client processes")
        workers = stack.enter_context(_clients(max(CLIENTS)))
        speeds = _measure_speed(workers, store, seconds)
        strictness = _measure_strictness(workers, store, strict_seconds)
        _print(speeds, strictness, note)


def _asynchronous(server: EmbeddedServer) -> str:
    """Make a database whose commits do not wait for the disk."""
    dsn = migrated(server, "relaxed")
    with psycopg.connect(dsn, autocommit=True) as connection:
        change = sql.SQL("ALTER DATABASE {} SET synchronous_commit = off")
        connection.execute(change.format(sql.Identifier("relaxed")))
    return dsn


def _measure_speed(
    workers: Sequence[Connection], store: dict[str, str], seconds: float
) -> dict[tuple[str, int], Speed]:
    """Run every limiter with every number of clients, in a new order each round."""
    # With a burst of one nothing but the strict run differs.
    names = [name for name in BUILDERS if "burst 1" not in name]
    speeds = {(name, clients): Speed() for name in names for clients in CLIENTS}
    shuffled = rng("bench")
    for number in range(ROUNDS):
        cases = list(speeds)
        shuffled.shuffle(cases)
        for name, clients in cases:
            report_progress(f"speed, round {number + 1} of {ROUNDS}: {name}, {clients} clients")
            order = Order(name=name, key=f"speed-{clients}-{number}", is_strict=False, **store)
            jobs = [Job(order=order, seconds=seconds, client=one) for one in range(clients)]
            results = _do(workers, jobs)
            speed = speeds[name, clients]
            grants = sum(len(latencies) for latencies, _ in results)
            speed.per_s.append(grants / seconds)
            speed.grants += grants
            speed.tries += sum(tries for _, tries in results)
            speed.latencies_ms += [latency for latencies, _ in results for latency in latencies]
    return speeds


def _measure_strictness(
    workers: Sequence[Connection], store: dict[str, str], seconds: float
) -> dict[str, Strictness]:
    results = {}
    for name in BUILDERS:
        report_progress(f"strictness, {seconds:.0f} s: {name}")
        order = Order(name=name, key=f"strict-{STRICT_CLIENTS}", is_strict=True, **store)
        with _supplier() as (port, log):
            jobs = [
                Job(order=order, seconds=seconds, client=one, supplier_port=port)
                for one in range(STRICT_CLIENTS)
            ]
            _do(workers, jobs)
        counts = Counter(client for _, client in log)
        results[name] = Strictness(
            arrivals=tuple(sorted(at for at, _ in log)),
            grants=tuple(counts[client] for client in range(STRICT_CLIENTS)),
        )
    return results


def _print(
    speeds: dict[tuple[str, int], Speed],
    strictness: dict[str, Strictness],
    note: str,
) -> None:
    many = CLIENTS[-1]
    headers = (
        "limiter", *(f"{clients} cl." for clients in CLIENTS), "ratio", "p50 ms", "refused",
        "max in window", "early", "of allowed", "per process",
    )  # fmt: skip
    base = median(speeds[OURS, MIDDLING].per_s)
    rows = []
    for name, strict in strictness.items():
        cells = ["", "", "", "", "", ""]
        if (name, many) in speeds:
            cells = [
                *(f"{median(speeds[name, clients].per_s):,.0f}" for clients in CLIENTS),
                f"{median(speeds[name, MIDDLING].per_s) / base:.1f}",
                f"{median(speeds[name, CLIENTS[0]].latencies_ms):.2f}",
                f"{speeds[name, many].refused:.0%}",
            ]
        strictness_cells = [
            f"{strict.window_max} (limit {STRICT_LIMIT})",
            f"{strict.early} of {len(strict.arrivals)}",
            f"{strict.share:.0%}",
            f"{min(strict.grants)}..{max(strict.grants)}",
        ]
        rows.append((name, *cells, *strictness_cells))
    show(
        "limiters: grants a second by client processes, and strictness of the same limiter",
        headers,
        rows,
        note,
        *NOTES.split("\n"),
    )


@contextmanager
def _supplier() -> Iterator[tuple[int, list[tuple[float, int]]]]:
    """Listen on loopback and record when each call arrives, and from which client."""
    log: list[tuple[float, int]] = []
    with socket.create_server((HOST, 0), backlog=64) as listener:

        def serve() -> None:
            while True:
                try:
                    call, _ = listener.accept()
                except OSError:
                    return
                with call:
                    client = call.recv(1)
                    if not client:
                        return
                    log.append((CLOCK.monotonic(), client[0]))
                    call.sendall(b"k")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        try:
            yield port, log
        finally:
            # An empty call asks the supplier to close.
            socket.create_connection((HOST, port)).close()
            thread.join(JOIN_S)


@contextmanager
def _clients(count: int) -> Iterator[list[Connection]]:
    """Start client processes that wait for jobs; they end with us."""
    context = multiprocessing.get_context("spawn")
    lines: list[Connection] = []
    processes = []
    try:
        for _ in range(count):
            parent, child = context.Pipe()
            process = context.Process(target=_client, args=(child,), daemon=True)
            process.start()
            child.close()
            lines.append(parent)
            processes.append(process)
        yield lines
    finally:
        for process in processes:
            process.kill()  # they hold nothing that is worth a goodbye
        for process in processes:
            process.join()


def _do(workers: Sequence[Connection], jobs: Sequence[Job]) -> list[tuple[list[float], int]]:
    """Hand out the jobs, start all clients together, and collect their results."""
    lines = workers[: len(jobs)]
    for line, job in zip(lines, jobs, strict=True):
        line.send(job)
    for line in lines:
        line.recv()
    for line in lines:
        line.send("go")
    return [line.recv() for line in lines]


def _client(line: Connection) -> None:
    """Do one job after another until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent notices, and ends us
    while True:
        try:
            job: Job = line.recv()
            with ExitStack() as stack:
                acquire = build(job.order, stack)
                if job.supplier_port is None:
                    _call_once(acquire)
                line.send("ready")
                line.recv()
                line.send(
                    _grants(acquire, job) if job.supplier_port is None else _calls(acquire, job)
                )
        except (EOFError, BrokenPipeError):
            return


def _call_once(acquire: Acquire) -> None:
    """Make connections and rows before the time counts."""
    finish = acquire(START_S)
    if finish is not None:
        finish()


def _grants(acquire: Acquire, job: Job) -> tuple[list[float], int]:
    """Take grants as fast as they come; return the milliseconds of each, and the tries."""
    latencies_ms: list[float] = []
    tries = 0
    end = CLOCK.monotonic() + job.seconds
    while (at := CLOCK.monotonic()) < end:
        tries += 1
        finish = acquire(0)
        if finish is not None:
            finish()
            latencies_ms.append((CLOCK.monotonic() - at) * 1000)
    return latencies_ms, tries


def _calls(acquire: Acquire, job: Job) -> tuple[list[float], int]:
    """Call the supplier as often as the limiter allows; the figures are in the supplier's log."""
    late = rng(f"arrival {job.client}")
    end = CLOCK.monotonic() + job.seconds
    while (left_s := end - CLOCK.monotonic()) > 0:
        finish = acquire(left_s)
        if finish is None:
            continue
        CLOCK.sleep(late.random() * ARRIVAL_S)
        with socket.create_connection((HOST, job.supplier_port or 0)) as call:
            call.sendall(bytes([job.client]))
            call.recv(1)
        finish()
    return [], 0
