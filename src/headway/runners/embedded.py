"""The embedded runner: a few threads in one process that turn the engine's steps."""

import threading
from collections.abc import Callable
from datetime import timedelta

from headway.clock import Clock
from headway.core.model import Done, Wait
from headway.errors import HeadwayError

Step = Callable[[], Done | Wait]
Report = Callable[[str, str], None]
RETRY_AFTER = timedelta(seconds=10)


def turn(step: Step, clock: Clock, wake: threading.Event, report: Report, name: str) -> None:
    """Repeat a step until told to stop; trouble is reported and tried again later.

    The same loop serves threads on a real clock and actors on a virtual one.
    """
    while not wake.is_set():
        try:
            result = step()
        except HeadwayError as error:
            report(name, str(error))
            result = Wait(until=clock.now() + RETRY_AFTER)
        if isinstance(result, Wait):
            wait_s = (result.until - clock.now()).total_seconds()
            if wait_s > 0:
                clock.sleep(wait_s, wake)
        elif result.what:
            report(name, result.what)


class EmbeddedRunner:
    """Threads by name, started together and stopped together."""

    def __init__(self, clock: Clock, report: Report = lambda _name, _text: None) -> None:
        self._clock = clock
        self._report = report
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, **steps: Step) -> None:
        """Turn each step in a thread of its own."""
        for name, step in steps.items():
            arguments = (step, self._clock, self._stop, self._report, name)
            thread = threading.Thread(target=turn, args=arguments, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, timeout_s: float = 10) -> None:
        """Ask all to stop after their present step, and wait for them."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout_s)
