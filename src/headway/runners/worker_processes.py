"""Workers as child processes: their output is read, they restart when they die, and end with us."""

import contextlib
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

from headway.clock import Clock, SystemClock
from headway.runners.child_command import own_command
from headway.runners.embedded import Report

# A worker that has just been started and dies again and again is tried ever more seldom.
AGAIN_S, AGAIN_S_MAX, SETTLED_S = 1.0, 30.0, 30.0
END_S = 5.0
LINE_CHARS_MAX = 500


class WorkerProcesses:
    """A number of `headway worker` processes, each with a thread that reads its output."""

    def __init__(
        self,
        count: int,
        *,
        options: Sequence[str],
        environ: Mapping[str, str],
        report: Report,
        clock: Clock | None = None,
    ) -> None:
        self._options = options
        self._environ = dict(environ)
        self._report = report
        # Processes live in real time, whatever clock they work on.
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        names = [f"worker {number}" for number in range(1, count + 1)]
        self._last_lines = dict.fromkeys(names, "starts")
        self._threads = [
            threading.Thread(target=self._keep, args=(name,), name=name, daemon=True)
            for name in names
        ]

    def start(self) -> None:
        """Start them all."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End them all: what they have in hand is done or given back, unless that takes long."""
        with self._lock:
            self._stopping.set()
            for process in self._processes.values():
                process.terminate()
        give_up_s = self._clock.monotonic() + END_S
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, give_up_s - self._clock.monotonic()))
        for process in self._processes.values():
            process.kill()
            process.wait()

    @property
    def lines(self) -> Sequence[tuple[str, str]]:
        """The last output line of each process, by name."""
        return tuple(self._last_lines.items())

    def _keep(self, name: str) -> None:
        """Start a process, and restart it when it has died, until stopped."""
        again_s = AGAIN_S
        while (process := self._start(name)) is not None:
            began_s = self._clock.monotonic()
            assert process.stdout is not None
            with contextlib.suppress(ValueError, OSError), process.stdout:
                for line in process.stdout:
                    self._show(name, line.rstrip()[:LINE_CHARS_MAX])
            code = process.wait()
            if self._stopping.is_set():
                return
            is_settled = self._clock.monotonic() - began_s >= SETTLED_S
            again_s = AGAIN_S if is_settled else again_s
            self._show(name, f"{_ended(code)}; it is started again in {again_s:g} s")
            self._clock.sleep(again_s, self._stopping)
            again_s = min(2 * again_s, AGAIN_S_MAX)

    def _start(self, name: str) -> "subprocess.Popen[str] | None":
        """Start a process; None if all are stopping."""
        with self._lock:
            if self._stopping.is_set():
                return None
            # The database is ours and ends with us, and so does the work of a worker: if we are
            # killed, it is killed too. Ctrl-C in the terminal reaches only us; we then stop it.
            process = self._processes[name] = subprocess.Popen(  # noqa: S603 - our own command
                own_command("worker", *self._options, ends_by=signal.SIGKILL),
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        return process

    def _show(self, name: str, text: str) -> None:
        if text:
            self._last_lines[name] = text
            self._report(name, text)


def _ended(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"
