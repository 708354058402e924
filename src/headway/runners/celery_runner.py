"""The Celery runner: a few threads that work off messages; four tasks, and no logic in them.

Threads, not forked processes: a step waits for others nearly all the time, and the threads share
connections to the database and to the shops. For more processors start more workers.
"""

import logging
import threading
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta

from celery import Celery
from celery.apps.worker import Worker
from celery.exceptions import SecurityWarning
from celery.worker import state
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from headway.app import App
from headway.app.dispatch import dispatch_rule, new_dispatcher, new_tick_loop
from headway.app.monitoring import notify_of
from headway.app.webhooks import deliver_steps
from headway.core.dispatch import DispatchLease, Verb, subject_of
from headway.engine.dispatch import DispatchRule
from headway.errors import HeadwayError, InvariantError
from headway.runners.celery_app import QUEUES, explained, task_name
from headway.runners.embedded import EmbeddedRunner, Report, Step

STOP_S = 10.0
LOGGERS = ("celery", "kombu")


class CeleryRunner:
    """One worker process: its tasks, its sign of life and, unless beat does, its tick."""

    def __init__(
        self,
        app: App,
        celery: Celery,
        *,
        owner: str,
        report: Report,
        rule: DispatchRule | None = None,
        ticks: bool = True,
        speed: float = 1.0,
    ) -> None:
        self._celery = celery
        self._owner = owner
        self._report = report
        self._ticks = ticks
        # How many of the application's seconds pass in a real one, as in a demo.
        self._speed = speed
        self._threads = EmbeddedRunner(app.clock, report)
        rule = rule or dispatch_rule(app)
        self._dispatcher = new_dispatcher(
            app,
            owner,
            send=self._send,
            report=report,
            rule=rule,
            stopping=self._threads.stopping,
        )
        self._tick_loop = new_tick_loop(app, send=self._send, rule=rule)
        self._notify = notify_of(app)
        self._deliver_steps = deliver_steps(app, owner)
        self._is_ticking = threading.Lock()
        celery.task(self._tick, name=task_name(Verb.TICK))
        for verb in (Verb.FETCH, Verb.PUSH, Verb.PULL):
            celery.task(self._task(verb), name=task_name(verb))

    def run(self, *, concurrency: int, queues: Sequence[str] = QUEUES) -> None:
        """Work until stopped; then finish the current steps, and return the other messages.

        Raises InvariantError if a bug stopped it.
        """
        with warnings.catch_warnings():
            # About root and pickle: we accept JSON only, and the deployment chooses the user.
            warnings.simplefilter("ignore", SecurityWarning)
            worker = _Worker(
                app=self._celery,
                hostname=self._owner,
                pool="threads",
                concurrency=concurrency,
                queues=list(queues),
                quiet=True,
                without_gossip=True,
                without_mingle=True,
                # Flower takes a worker without a heartbeat for one that is offline.
                without_heartbeat=not self._celery.conf.worker_enable_remote_control,
            )
        handler = _WarningReport(self._report, self._threads.stopping)
        for name in LOGGERS:
            logging.getLogger(name).addHandler(handler)
            logging.getLogger(name).propagate = False
        self.begin()
        try:
            worker.start()
        finally:
            self._threads.stop(STOP_S)
            for name in LOGGERS:
                logging.getLogger(name).removeHandler(handler)
        self.end()

    def begin(self) -> None:
        """Start what runs beside the tasks: signs of life, tick, notifications."""
        threading.Thread(target=self._await_stop, name="stop", daemon=True).start()
        steps: dict[str, Step] = {"life": self._dispatcher.keep, **self._deliver_steps}
        self._threads.start(bells=None, **steps)
        if self._ticks:
            self._threads.start(tick=self._tick_loop.step)
        if self._notify is not None:
            self._threads.start(notify=self._notify.step)

    def end(self) -> None:
        """Stop it; raises InvariantError if a bug had stopped the worker."""
        self._threads.stop(STOP_S)
        state.should_stop = None
        self._tick_loop.give_way()
        self._threads.check()

    def stop(self) -> None:
        """Ask it to end; fit for a signal handler."""
        self._threads.stopping.set()

    def _await_stop(self) -> None:
        self._threads.stopping.wait()
        state.should_stop = 0  # Celery's loop checks this value

    def _task(self, verb: Verb) -> Callable[[str, int], None]:
        def carry(subject: str, fence: int) -> None:
            named = DispatchLease(subject=subject_of(verb, subject), fence=fence)
            self._guarded(verb, lambda: self._dispatcher.carry(named))

        carry.__name__ = verb.value
        return carry

    def _tick(self) -> None:
        """Run one tick, as beat requests; one at a time in each process is enough."""
        if self._is_ticking.acquire(blocking=False):
            try:
                self._guarded(Verb.TICK, self._tick_loop.round)
            finally:
                self._is_ticking.release()

    def _guarded(self, name: str, does: Callable[[], object]) -> None:
        """Report errors; a bug stops this worker, or its message would be redelivered for ever."""
        try:
            does()
        except InvariantError as error:
            self._threads.fail(name, error)
        except HeadwayError as error:
            self._report(name, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, a silent failure would be worse
            self._threads.fail(name, error)

    def _send(self, dispatch_lease: DispatchLease, wait: timedelta) -> None:
        send_by(self._celery, dispatch_lease, wait.total_seconds() / self._speed)


def send_by(celery: Celery, dispatch_lease: DispatchLease, wait_s: float) -> None:
    """Send the message of a dispatch lease after a real delay in seconds; raises BrokerError."""
    subject = dispatch_lease.subject
    try:
        celery.send_task(
            task_name(subject.verb),
            args=[subject.name, dispatch_lease.fence],
            queue=subject.queue,
            countdown=wait_s or None,
        )
    except (OperationalError, RedisError, OSError) as error:
        raise explained(error) from None  # the cause may hold the address with its password


class _Worker(Worker):  # type: ignore[misc]
    """Celery's worker without its banner, its logging and its signal handlers."""

    def setup_logging(self, colorize: bool | None = None) -> bool:  # noqa: ARG002, FBT001 - as Celery calls it
        return True

    def install_platform_tweaks(self, worker: Worker) -> None:
        """Leave signals to the command."""


class _WarningReport(logging.Handler):
    """Reports Celery's warnings in one line, without the broker's password.

    It drops them while a worker stops: Celery then warns of each message that it returns.
    """

    def __init__(self, report: Report, stopping: threading.Event) -> None:
        super().__init__(logging.WARNING)
        self._report = report
        self._stopping = stopping

    def emit(self, record: logging.LogRecord) -> None:
        """Report the record."""
        if not self._stopping.is_set():
            self._report("broker", " ".join(record.getMessage().split()))
