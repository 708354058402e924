"""Runs in the background: one process at a time beside the server, watched and stopped by it.

The process is the command itself, so a run over the API comes to what it would in a terminal. It
dies with its server; another server then finds the run without a living lease, and fails it.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import IO, Any

from headway.clock import Clock, SystemClock, fresh_id
from headway.core.runs import Run, words
from headway.errors import HeadwayError
from headway.runners.child_command import keeping_interrupts, own_command
from headway.store.runs import Runs

LEASE = timedelta(seconds=30)
REPORT_S, LOOK_S = 1.0, 5.0
# A busy machine needs some seconds to drop a throw-away database.
END_S = 20.0
ERROR_CHARS_MAX, OUTPUT_CHARS_MAX = 1_000, 10_000


class BackgroundRuns:
    """Works out one run after the other in a thread, as long as the server lives."""

    def __init__(
        self, runs: Runs, *, environ: Mapping[str, str] | None = None, clock: Clock | None = None
    ) -> None:
        self._runs = runs
        self._environ = environ
        # A process takes real time, whatever clock the engine runs on.
        self._clock = clock or SystemClock()
        self._owner = f"{os.getpid()}:{fresh_id()}"
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="runs", daemon=True)

    def start(self) -> None:
        """Start the thread that polls for runs."""
        self._thread.start()

    def ring(self) -> None:
        """Wake the thread: there is a new run, or one to cancel."""
        self._wake.set()

    def stop(self) -> None:
        """Stop the current run, which fails, and the thread."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(2 * END_S)

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                run = self._runs.claim(self._owner, lease=LEASE, now=self._clock.now())
                if run is not None:
                    self._carry_out(run)
                    continue
            except HeadwayError:
                pass  # without a database there is nothing to do or report
            self._clock.sleep(LOOK_S, self._wake)

    def _carry_out(self, run: Run) -> None:
        with keeping_interrupts():
            child = subprocess.Popen(  # noqa: S603 - our own command; every option is one word
                # An interrupt lets it drop its throw-away database.
                own_command(*words(run), ends_by=signal.SIGINT),
                env=None if self._environ is None else dict(self._environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        assert child.stdout is not None
        assert child.stderr is not None
        output = _ChildOutput(child.stdout, child.stderr, on_output=self._wake.set)
        try:
            is_wanted = self._watch(run, child, output)
        finally:
            _end(child)
            output.finish()
        if is_wanted:
            answer = output.answer(child.returncode)
            self._runs.finish(run.id, self._owner, **answer, now=self._clock.now())

    def _watch(self, run: Run, child: "subprocess.Popen[str]", output: "_ChildOutput") -> bool:
        """Report progress until the child ends; return True if its result is still needed."""
        while child.poll() is None:
            if self._stopping.is_set():
                error = "the server was stopped; ask again"
                self._runs.finish(run.id, self._owner, error=error, now=self._clock.now())
                return False
            now = self._clock.now()
            if not self._runs.report(run.id, self._owner, output.progress, lease=LEASE, now=now):
                return False
            # A wake-up means that the child has ended, or that some run was canceled.
            self._wake.clear()
            self._clock.sleep(REPORT_S, self._wake)
        return True


class _ChildOutput:
    """Output of a child process: progress on one pipe, the result on the other."""

    def __init__(self, stdout: IO[str], stderr: IO[str], *, on_output: Callable[[], None]) -> None:
        self.progress = 0.0
        self._on_output = on_output
        self._lines: list[str] = []
        self._result = ""
        self._threads = [
            threading.Thread(target=self._read_result, args=(stdout,), daemon=True),
            threading.Thread(target=self._read_progress, args=(stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Wait until both pipes are empty."""
        for thread in self._threads:
            thread.join(END_S)

    def answer(self, code: int | None) -> dict[str, Any]:
        """Return the result, or why there is none; a broken law is a result."""
        try:
            result = json.loads(self._result)
        except ValueError:
            result = None
        if isinstance(result, dict) and "error" in result and "exit_code" in result:
            return {"error": str(result["error"])[:ERROR_CHARS_MAX], "exit_code": code}
        if result is not None and code in {0, 1}:
            text = "\n".join(self._lines)[:OUTPUT_CHARS_MAX]
            return {"result": result, "message": text, "exit_code": code}
        last = self._lines[-1][:ERROR_CHARS_MAX] if self._lines else f"it ended with code {code}"
        return {"error": last, "exit_code": code}

    def _read_result(self, stdout: IO[str]) -> None:
        with contextlib.suppress(ValueError, OSError), stdout:
            self._result = stdout.read()
        self._on_output()

    def _read_progress(self, stderr: IO[str]) -> None:
        with contextlib.suppress(ValueError, OSError), stderr:
            for line in stderr:
                try:
                    self.progress = min(1.0, max(0.0, float(json.loads(line)["progress"])))
                except (ValueError, TypeError, KeyError):
                    self._lines += [line.strip()] if line.strip() else []


def _end(child: "subprocess.Popen[str]") -> None:
    """End a child and whatever it started, kindly at first."""
    for hint in (signal.SIGINT, signal.SIGKILL):
        if child.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, hint)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)
