"""The embedded runner: a few threads in one process that run the engine's steps."""

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta

from headway.clock import Clock
from headway.core.catalog.listings import Done, Wait
from headway.errors import HeadwayError, InvariantError

Step = Callable[[], Done | Wait]
Report = Callable[[str, str], None]
RETRY_AFTER = timedelta(seconds=10)


def run_steps(
    step: Step,
    clock: Clock,
    stop: threading.Event,
    report: Report,
    name: str,
    *,
    wake: threading.Event | None = None,
) -> None:
    """Repeat a step until stopped; report errors and retry later.

    The same loop serves threads on a real clock and actors on a virtual one. A bug is not retried:
    it ends the loop. Setting `wake` ends a wait early; code that sets `stop` sets `wake` too.
    """
    while not stop.is_set():
        if wake is not None:
            wake.clear()
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
                clock.sleep(wait_s, stop if wake is None else wake)
        elif result.what:
            report(name, result.what)


class EmbeddedRunner:
    """Threads by name, started together and stopped together; a bug in one stops them all."""

    def __init__(self, clock: Clock, report: Report = lambda _name, _text: None) -> None:
        self._clock = clock
        self._report = report
        self._threads: list[threading.Thread] = []
        self._wakes: list[threading.Event] = []
        self._failure: tuple[str, Exception] | None = None
        self.stopping = threading.Event()

    def start(self, *, bells: Mapping[str, threading.Event] | None = None, **steps: Step) -> None:
        """Run each step in its own thread; a wake-up event cuts its wait short."""
        bells = bells or {}
        self._wakes += bells.values()
        for name, step in steps.items():
            thread = threading.Thread(
                target=self._run, args=(name, step, bells.get(name)), name=name, daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def stop(self, timeout_s: float = 10) -> None:
        """Ask all to stop after their present step, and wait for them."""
        self._end()
        for thread in self._threads:
            thread.join(timeout_s)

    def check(self) -> None:
        """Raise InvariantError if a bug stopped the threads."""
        if self._failure is not None:
            name, error = self._failure
            what = f"{type(error).__name__}: {error}"
            raise InvariantError(f"{name} stopped at a bug; please report it: {what}") from error

    def fail(self, name: str, error: Exception) -> None:
        """Stop all threads because of a bug, which `check` then raises; the first one counts."""
        self._failure = self._failure or (name, error)
        self._end()

    def _end(self) -> None:
        self.stopping.set()
        for wake in self._wakes:
            wake.set()

    def _run(self, name: str, step: Step, wake: threading.Event | None) -> None:
        try:
            run_steps(step, self._clock, self.stopping, self._report, name, wake=wake)
        except Exception as error:  # noqa: BLE001 - whatever it is, a silent thread would be worse
            self.fail(name, error)
