"""Runners as processes: the embedded one, or Celery's workers; a test waits on their output."""

import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.scale.processes import Child, fork_server

PATIENCE_S = 60


@dataclass(kw_only=True)
class ProcessGroup:
    """Processes that do the work, and their output, line by line."""

    environ: Mapping[str, str] = field(repr=False)
    # Folder of another version of headway to run, if any.
    source: Path | None = None
    output: list[str] = field(default_factory=list)
    processes: list[Child] = field(default_factory=list)
    # How long there may be no output before a process counts as stuck.
    patience_s: float = PATIENCE_S
    _lines: "queue.Queue[str]" = field(default_factory=queue.Queue)

    def start(self, *arguments: str) -> Child:
        child, parent = os.pipe()
        environ = {"PATH": "/usr/bin:/bin", **self.environ}
        try:
            process = fork_server(self.source).start(arguments, environ, parent)
        finally:
            os.close(parent)
        self.processes.append(process)
        threading.Thread(target=self._read, args=(process, child), daemon=True).start()
        return process

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds; check it whenever a process prints something."""
        while not condition():
            try:
                self.output.append(self._lines.get(timeout=self.patience_s))
            except queue.Empty:
                output = "\n".join(self.output[-30:])
                raise AssertionError(f"nothing happens any more; last:\n{output}") from None

    def until_output(self, words: str) -> str:
        """Wait until a process prints this; return the line."""
        self.until(lambda: any(words in line for line in self.output))
        return next(line for line in self.output if words in line)

    def stop(self, signal_number: signal.Signals = signal.SIGTERM) -> list[int]:
        """Stop all running processes; return their exit codes."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal_number)
        codes = [process.wait(self.patience_s) for process in self.processes]
        self.processes.clear()
        return codes

    def _read(self, process: Child, output: int) -> None:
        with open(output, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._lines.put(line.rstrip())
        process.wait(PATIENCE_S)
        self._lines.put(f"[{process.pid} ended]")
