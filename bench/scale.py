"""Workers side by side: calls a second and processor time a call, of Headway and of other queues.

Each round takes the queues in a new order, and adds worker process to worker process. With each
number the workers warm up, then every shop is due for a push at once. Calls are counted by the
server at the other end; raw Celery makes none.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version as version_of_package

from bench.answering_server import measure_ceiling, open_provider
from bench.processor import seconds_of
from bench.queues import DBOS_AT_ONCE, DBOS_POLL_S
from bench.services import CLOCK, postgres, scratch, valkey_version, version
from bench.table import median, report_progress, show
from bench.worker_queues import CONCURRENCY, OURS, QUEUES, Services, WorkerQueue
from bench.workers import POLL_S, REST_S, SupplierUsage, Workers
from headway.clock import rng
from headway.errors import HeadwayError
from headway.runners.valkey import EmbeddedValkey

SHOPS = 1000
ROUNDS = 2
PROCESSES = (1, 2, 4)
WARM_UP = 100
CEILING_S = 1.0
DRAIN_S = 180.0
NOTES = f"""\
calls/s: from the first call to the last as the far end saw them, middle of the rounds; celery:
  messages a second, from the first to the last acknowledgement
ratio: calls/s to headway's with as many processes; cpu: processor milliseconds a call of workers,
  PostgreSQL and broker, user and system, from the instant that all is due until all is settled
headway: tick, dispatch lease, message, permit, lease of the shop, intent, call, settle of permit
  and shop, an event, a line in the ledger; one connection a call; {CONCURRENCY} steps at once
celery: -P threads -c {CONCURRENCY}, late acknowledgement, prefetch 1; the task is empty: no call
procrastinate: an async task, concurrency {CONCURRENCY}, one pooled HTTP client; no limit, no event
DBOS: a queued workflow of transaction, step, transaction; polls every {DBOS_POLL_S} s, up to
  {DBOS_AT_ONCE} at once a process; one pooled HTTP client; no limit, no event
limits do not bind: a call is permitted 450, and costs 10, of the 1,800 points that each shop's
  bucket gives at once"""


@dataclass(slots=True, kw_only=True)
class Figures:
    """The figures of one queue with some number of processes, one per round."""

    per_s: list[float] = field(default_factory=list)
    workers_ms: list[float] = field(default_factory=list)
    postgres_ms: list[float] = field(default_factory=list)
    broker_ms: list[float] = field(default_factory=list)

    def add(self, per_s: float, before: SupplierUsage, after: SupplierUsage, calls: int) -> None:
        """Note a round, of which the processor seconds before and after are known."""
        self.per_s.append(per_s)
        kinds = (self.workers_ms, self.postgres_ms, self.broker_ms)
        for kind, early_s, late_s in zip(kinds, before, after, strict=True):
            kind.append((late_s - early_s) * 1000 / calls)

    @property
    def cpu_ms(self) -> float:
        """All of it."""
        return sum(median(values) for values in (self.workers_ms, self.postgres_ms, self.broker_ms))


Results = dict[tuple[str, int], Figures]


def run(*, shops: int = SHOPS, rounds: int = ROUNDS) -> None:
    """Measure every queue with every number of processes, in a new order each round; print."""
    with scratch() as folder, ExitStack() as stack:
        valkey = EmbeddedValkey(folder / "valkey", clock=CLOCK, keeps=False)
        services = Services(
            folder=folder,
            server=stack.enter_context(postgres(folder / "scale", {"max_connections": "200"})),
            valkey=stack.enter_context(valkey),
            provider=stack.enter_context(open_provider()),
            shops=shops,
        )
        ceiling = _tell_ceiling(services)
        report_progress(f"{shops:,} shops: entering them")
        queues = [make(services, stack) for make in QUEUES]
        results: Results = {
            (queue.name, count): Figures() for queue in queues for count in PROCESSES
        }
        shuffled = rng("bench")
        for number in range(rounds):
            shuffled.shuffle(queues)
            for queue in queues:
                report_progress(f"round {number + 1} of {rounds}: {queue.name}")
                _measure(services, queue, results)
        notes = (
            f"{version(services.server)}; {valkey_version(valkey)}",
            *_versions(),
            ceiling,
        )
        _print(results, shops, rounds, notes)


def _tell_ceiling(services: Services) -> str:
    before_s, begun = seconds_of(services.provider.pid), services.provider.calls
    per_s = measure_ceiling(services.provider, CEILING_S)
    spent_ms = (
        (seconds_of(services.provider.pid) - before_s) * 1000 / (services.provider.calls - begun)
    )
    return (
        f"server: one process with one reply; {per_s:,.0f} calls a second from a bare client on"
        f" the same cores, {spent_ms:.2f} ms of processor a call, not counted below"
    )


def _versions() -> tuple[str, ...]:
    names = ("celery", "procrastinate", "dbos", "httpx")
    load = " ".join(f"{figure:.1f}" for figure in os.getloadavg())
    versions = ", ".join(f"{name} {version_of_package(name)}" for name in names)
    return (f"{versions}; {os.cpu_count()} cores, load after {load}",)


# -- one case ----------------------------------------------------------------------------------


def _measure(services: Services, queue: WorkerQueue, results: Results) -> None:
    """Add worker process to worker process; with each number make everything due and measure."""
    queue.clear()
    workers = Workers(
        name=queue.name,
        folder=services.folder,
        command=queue.command,
        environ=queue.environ,
        ready=queue.ready,
    )
    try:
        for count in PROCESSES:
            workers.start(count)
            _drain(services, queue, workers, min(WARM_UP, services.shops))
            CLOCK.sleep(REST_S)
            before = workers.spent(services.server, services.valkey)
            per_s = _drain(services, queue, workers, services.shops)
            after = workers.spent(services.server, services.valkey)
            results[queue.name, count].add(per_s, before, after, services.shops)
    finally:
        workers.kill()  # all is settled: they hold nothing


def _drain(services: Services, queue: WorkerQueue, workers: Workers, calls: int) -> float:
    """Make that many calls due, and wait until all are settled; return calls a second."""
    begun = services.provider.calls
    waiting = queue.release(calls)
    began_s, give_up_s = CLOCK.monotonic(), CLOCK.monotonic() + DRAIN_S
    # Asked only when it may be done, so that the question does not load the database.
    while (queue.makes_calls and services.provider.calls - begun < calls) or waiting():
        if CLOCK.monotonic() > give_up_s:
            made = services.provider.calls - begun
            raise HeadwayError(
                f"{queue.name} made {made} of {calls} calls; its output: {workers.last_output(0)}"
            )
        CLOCK.sleep(POLL_S)
    if not queue.makes_calls:
        return calls / (CLOCK.monotonic() - began_s)
    made = services.provider.calls
    assert made - begun == calls, f"{queue.name} made {made - begun} calls for {calls}"
    return (calls - 1) / services.provider.span_s(begun, made)


# -- the table ---------------------------------------------------------------------------------


def _print(results: Results, shops: int, rounds: int, notes: Sequence[str]) -> None:
    rows = []
    for (name, count), figures in results.items():
        baseline = results[OURS, count]
        rows.append(
            (
                name if count == PROCESSES[0] else "",
                str(count),
                f"{median(figures.per_s):,.0f}",
                f"{median(figures.per_s) / median(baseline.per_s):.1f}",
                f"{median(figures.workers_ms):.2f}",
                f"{median(figures.postgres_ms):.2f}",
                f"{median(figures.broker_ms):.2f}",
                f"{figures.cpu_ms:.2f}",
                f"{figures.cpu_ms / baseline.cpu_ms:.2f}",
            )
        )
    show(
        f"scale: {shops:,} shops, one call each, by worker processes; {rounds} shuffled rounds",
        (
            "queue",
            "processes",
            "calls/s",
            "ratio",
            "workers ms",
            "PostgreSQL ms",
            "broker ms",
            "cpu ms a call",
            "cpu ratio",
        ),
        rows,
        *notes,
        *NOTES.split("\n"),
    )
