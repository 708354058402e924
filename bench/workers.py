"""Worker processes under measurement: started until they are ready, watched, killed at the end."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.processor import seconds_of
from bench.services import CLOCK
from headway.errors import HeadwayError
from headway.runners.valkey import EmbeddedValkey
from headway.store.server.embedded import EmbeddedServer

START_S, POLL_S, REST_S = 120.0, 0.02, 0.5
OUTPUT_CHARS = 500
# Settings of the shell must not reach the processes that are measured.
SETTINGS = ("HEADWAY_", "SYNC_")

SupplierUsage = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Processes of one command; each prints `ready` to a log file once it works."""

    name: str
    folder: Path
    command: Sequence[str]
    environ: Mapping[str, str] = field(repr=False)
    ready: str
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def start(self, count: int) -> None:
        """Start processes until there are `count`, and wait until all are ready."""
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)
        }
        files = [self._log_file(number) for number in range(len(self.processes), count)]
        for file in files:
            with file.open("wb") as log:
                process = subprocess.Popen(
                    self.command,
                    env={**environ, **self.environ},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            self.processes.append(process)
        give_up_s = CLOCK.monotonic() + START_S
        while not all(self.ready in file.read_text(encoding="utf-8") for file in files):
            is_over = any(process.poll() is not None for process in self.processes)
            if CLOCK.monotonic() > give_up_s or is_over:
                output = self.last_output(count - 1)
                raise HeadwayError(f"{self.name} did not start; its output: {output}")
            CLOCK.sleep(POLL_S)
        CLOCK.sleep(REST_S)

    def last_output(self, number: int) -> str:
        """Return the end of one process's output."""
        return self._log_file(number).read_text(encoding="utf-8")[-OUTPUT_CHARS:]

    def spent(self, server: EmbeddedServer, valkey: EmbeddedValkey) -> SupplierUsage:
        """Return the processor seconds of the workers, of PostgreSQL, and of the broker so far."""
        with valkey.client() as client:
            info = client.info("cpu")
        broker = float(info["used_cpu_sys"]) + float(info["used_cpu_user"])
        workers = sum(seconds_of(process.pid) for process in self.processes)
        return workers, seconds_of(server.pid), broker

    def kill(self) -> None:
        """Kill all processes; their unfinished work is not needed."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def _log_file(self, number: int) -> Path:
        return self.folder / f"worker-{number}"
