"""The embedded runner: a few threads in one process that turn the engine's steps."""

import threading
from collections.abc import Callable
from datetime import timedelta

from headway.clock import Clock
from headway.core.model import Done, Wait
from headway.errors import HeadwayError, InvariantError

Step = Callable[[], Done | Wait]
Report = Callable[[str, str], None]
RETRY_AFTER = timedelta(seconds=10)


def turn(step: Step, clock: Clock, wake: threading.Event, report: Report, name: str) -> None:
    """Repeat a step until told to stop; trouble is reported and tried again later.

    The same loop serves threads on a real clock and actors on a virtual one. A bug is no trouble
    to try again: it ends the loop.
    """
    while not wake.is_set():
        try:
            result = step()
        except InvariantError:
            raise
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
    """Threads by name, started together and stopped together; a bug in one stops them all."""

    def __init__(self, clock: Clock, report: Report = lambda _name, _text: None) -> None:
        self._clock = clock
        self._report = report
        self._threads: list[threading.Thread] = []
        self._failure: tuple[str, Exception] | None = None
        self.stopping = threading.Event()

    def start(self, **steps: Step) -> None:
        """Turn each step in a thread of its own."""
        for name, step in steps.items():
            thread = threading.Thread(target=self._run, args=(name, step), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, timeout_s: float = 10) -> None:
        """Ask all to stop after their present step, and wait for them."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(timeout_s)

    def check(self) -> None:
        """Raise InvariantError if a bug stopped the line."""
        if self._failure is not None:
            name, error = self._failure
            what = f"{type(error).__name__}: {error}"
            raise InvariantError(f"{name} stopped at a bug; please report it: {what}") from error

    def _run(self, name: str, step: Step) -> None:
        try:
            turn(step, self._clock, self.stopping, self._report, name)
        except Exception as error:  # noqa: BLE001 - whatever it is, a silent thread would be worse
            self._failure = (name, error)
            self.stopping.set()
