"""The process checks of `headway doctor`: which processes run, and which differ."""

from collections import Counter
from collections.abc import Iterator, Sequence

from headway import __version__
from headway.app import App
from headway.app.agreement import agreement, disagreements
from headway.cli.doctor_shops import FAIL, OK, WARN, ShopCheck
from headway.store.monitoring.processes import Process, Processes

APART_WARN_MS = 2000
NAMED_MAX = 5


def examine_processes(app: App) -> Iterator[ShopCheck]:
    """Yield the checks of the processes on this database: versions, settings and clocks."""
    alive = Processes(app.pool).alive()
    yield ShopCheck(subject="processes", verdict=OK, finding=_process_counts(alive))
    if others := sorted({process.version for process in alive} - {__version__}):
        finding = f"some run headway {', '.join(others)}, here is {__version__}; upgrade them too"
        yield ShopCheck(subject="processes", verdict=WARN, finding=finding)
    for name, differing in disagreements(agreement(app.settings), alive).items():
        finding = (
            f"{name} has other settings than here: {', '.join(differing)}; two deployments on one"
            " database? give each its own, or all the same settings"
        )
        yield ShopCheck(subject="processes", verdict=FAIL, finding=finding)
    for process in alive:
        if abs(process.clock_ahead_ms) > APART_WARN_MS:
            finding = (
                f"the clock of {process.host} is {process.clock_ahead_ms / 1000:+.1f} s off the"
                " database's; due times drift there; run a time service"
            )
            yield ShopCheck(subject="clock", verdict=WARN, finding=finding)


def _process_counts(alive: Sequence[Process]) -> str:
    if not alive:
        return "none runs on this database now"
    counts = Counter((process.host, process.verb) for process in alive)
    named = [f"{count} {verb} on {host}" for (host, verb), count in sorted(counts.items())]
    more = len(named) - NAMED_MAX
    return ", ".join(named[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
