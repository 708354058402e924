"""The application of Celery's own commands: `celery -A headway worker`, `beat` and `inspect`.

A worker that Celery's command starts does what `headway worker` does. For `inspect`, and for Flower
to see workers, set HEADWAY_CELERY_CONTROL.
"""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from celery.signals import celeryd_init, worker_ready, worker_shutdown, worker_shutting_down

from headway import config
from headway.cli.console import CommandConsole
from headway.cli.worker import open_runner
from headway.errors import HeadwayError
from headway.runners.celery_app import QUEUES, make_celery

if TYPE_CHECKING:
    from headway.runners.celery_runner import CeleryRunner

app = make_celery(config.load())


class CommandWorker:
    """The worker of this process, from Celery's signals."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._runner: CeleryRunner | None = None

    def open(self, options: dict[str, Any], **_rest: object) -> None:
        """Open the database and register the tasks, before the worker asks for messages."""
        settings = config.load()
        named: Any = options.get("queues") or QUEUES
        queues = named.split(",") if isinstance(named, str) else list(named)
        count = int(options.get("concurrency") or settings.worker_concurrency)
        try:
            self._runner, _owner = open_runner(
                self._stack,
                settings,
                CommandConsole(settings),
                count=count,
                queues=queues,
                celery=app,
            )
        except HeadwayError as error:
            self._stack.close()
            # Celery reports what a handler raises, and goes on; this ends it.
            raise SystemExit(f"headway: {error}") from None

    def begin(self, **_: object) -> None:
        """Start what runs beside the tasks."""
        assert self._runner is not None, "the worker was opened"
        self._runner.begin()

    def stop(self, **_: object) -> None:
        """Let the tasks end after their present steps."""
        if self._runner is not None:
            self._runner.stop()

    def close(self, **_: object) -> None:
        """Stop what runs beside the tasks, and close the database."""
        with self._stack:
            if self._runner is not None:
                self._runner.end()


_worker = CommandWorker()
celeryd_init.connect(_worker.open, weak=False)
worker_ready.connect(_worker.begin, weak=False)
worker_shutting_down.connect(_worker.stop, weak=False)
worker_shutdown.connect(_worker.close, weak=False)
