"""Heartbeat of a process among others, in a thread of its own, as long as it runs."""

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.store.monitoring.processes import Presence, Processes

EVERY_S = 30.0
STOP_S = 5.0


@contextmanager
def present(processes: Processes, presence: Presence, clock: Clock) -> Iterator[None]:
    """Store a heartbeat of this process every half minute, and remove it at the end."""
    stopping = threading.Event()

    def work() -> None:
        while not stopping.is_set():
            clock.sleep(EVERY_S, stopping)
            # Without a database no heartbeat can be stored; try again later.
            with contextlib.suppress(HeadwayError):
                if not stopping.is_set():
                    processes.see(presence, clock)

    processes.see(presence, clock)
    thread = threading.Thread(target=work, name="presence", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(STOP_S)
        with contextlib.suppress(HeadwayError):
            processes.leave(presence)
