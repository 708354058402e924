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

START_S, LOOK_S, REST_S = 120.0, 0.02, 0.5
SAID_CHARS = 500
# Whatever deployment the shell is set up for, it is not what is measured.
SETTINGS = ("HEADWAY_", "SYNC_")

Spent = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Processes of one command; each says `ready` once it works, into a file of the folder."""

    name: str
    folder: Path
    command: Sequence[str]
    environ: Mapping[str, str] = field(repr=False)
    ready: str
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def start(self, count: int) -> None:
        """Start some until there are so many, and wait until all are ready."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        heard = [self._heard(number) for number in range(len(self.processes), count)]
        for each in heard:
            with each.open("wb") as output:
                process = subprocess.Popen(
                    self.command,
                    env={**ours, **self.environ},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            self.processes.append(process)
        give_up_s = CLOCK.monotonic() + START_S
        while not all(self.ready in each.read_text(encoding="utf-8") for each in heard):
            is_over = any(each.poll() is not None for each in self.processes)
            if CLOCK.monotonic() > give_up_s or is_over:
                said = self.said(count - 1)
                raise HeadwayError(f"{self.name} did not start; it said: {said}")
            CLOCK.sleep(LOOK_S)
        CLOCK.sleep(REST_S)

    def said(self, number: int) -> str:
        """Return what one of them said last."""
        return self._heard(number).read_text(encoding="utf-8")[-SAID_CHARS:]

    def spent(self, server: EmbeddedServer, valkey: EmbeddedValkey) -> Spent:
        """Return the processor seconds of the workers, of PostgreSQL, and of the broker so far."""
        with valkey.client() as client:
            told = client.info("cpu")
        broker = float(told["used_cpu_sys"]) + float(told["used_cpu_user"])
        workers = sum(seconds_of(each.pid) for each in self.processes)
        return workers, seconds_of(server.pid), broker

    def kill(self) -> None:
        """End them all; what they have in hand is of no worth."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def _heard(self, number: int) -> Path:
        return self.folder / f"worker-{number}"
