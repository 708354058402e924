"""A process that has imported everything, and forks for each command that a test starts.

Importing takes longer than all else that a command does before it works; where a process is killed
every second, there would be no time left to work. What runs is `headway ...` as ever.
"""

import ctypes
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
POLL_S = 0.05
MESSAGE_BYTES = 1 << 16
START_S = 60
# The environment of a process names by how many seconds its host's clock is ahead.
SKEW = "CLOCK_AHEAD_S"


class Child:
    """One command as a process, with the interface of `subprocess.Popen`."""

    def __init__(self, fork_server: "ForkServer", pid: int) -> None:
        self.pid, self._fork_server = pid, fork_server
        self.returncode: int | None = None
        self._has_ended = threading.Event()

    def send_signal(self, signal_number: signal.Signals) -> None:
        """Send a signal unless the process has ended; the parent sends it, so ids are safe."""
        self._fork_server.ask({"pid": self.pid, "signal": int(signal_number)})

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout_s: float) -> int:
        assert self._has_ended.wait(timeout_s), f"{self.pid} does not end"
        assert self.returncode is not None
        return self.returncode

    def ended(self, code: int) -> None:
        self.returncode = code
        self._has_ended.set()


class ForkServer:
    """The forking process; `source` is a folder with another version of headway."""

    def __init__(self, source: Path | None) -> None:
        path = [str(source)] if source else []
        path += filter(None, [os.environ.get("PYTHONPATH")])
        self._listener, child = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.scale.processes", str(child.fileno())],
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
                pass_fds=[child.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._lock = threading.Lock()
        self._children: dict[int, Child] = {}
        self._started: Child | None = None
        self._has_started = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, arguments: Sequence[str], environ: Mapping[str, str], output: int) -> Child:
        """Start a command; its output goes to the file `output`."""
        with self._lock:
            self._has_started.clear()
            message = json.dumps({"arguments": list(arguments), "environ": dict(environ)}).encode()
            socket.send_fds(self._listener, [message], [output])
            assert self._has_started.wait(START_S), "the nursery has died"
            assert self._started is not None
            return self._started

    def ask(self, request: Mapping[str, Any]) -> None:
        self._listener.send(json.dumps(request).encode())

    def _listen(self) -> None:
        while message := self._listener.recv(MESSAGE_BYTES):
            news = json.loads(message)
            if "code" in news:
                self._children.pop(news["pid"]).ended(news["code"])
            else:
                self._started = self._children[news["pid"]] = Child(self, news["pid"])
                self._has_started.set()


@functools.cache
def fork_server(source: Path | None = None) -> ForkServer:
    """Return the fork server of this test run for a source; it ends with the run."""
    return ForkServer(source)


# -- in the forking process --------------------------------------------------------------------


def serve(listener: socket.socket) -> None:
    """Fork on request, pass on signals, and report exits; end with the parent."""
    alive: set[int] = set()
    while True:
        if select.select([listener], [], [], POLL_S)[0]:
            message, files, _, _ = socket.recv_fds(listener, MESSAGE_BYTES, 1)
            if not message:
                return
            request = json.loads(message)
            if "signal" in request:
                if request["pid"] in alive:
                    os.kill(request["pid"], request["signal"])
            else:
                alive.add(_fork(listener, request, files[0]))
        while alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            alive.remove(pid)
            code = os.waitstatus_to_exitcode(status)
            listener.send(json.dumps({"pid": pid, "code": code}).encode())


def _fork(listener: socket.socket, request: Mapping[str, Any], output: int) -> int:
    pid = os.fork()
    if pid == 0:
        listener.close()
        os._exit(_become(request["arguments"], request["environ"], output))
    os.close(output)
    listener.send(json.dumps({"pid": pid}).encode())
    return pid


def _become(arguments: Sequence[str], environ: Mapping[str, str], output: int) -> int:
    """Run the command; it ends with its parent."""
    from headway.cli import main  # noqa: PLC0415 - not in the tests' own process

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["headway", *arguments]
    _set_clock(float(environ.get(SKEW, "0")))
    try:
        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def _set_clock(ahead_s: float) -> None:
    """Set this process's clock ahead by that much."""
    import headway.cli.serving  # noqa: PLC0415 - not in the tests' own process
    import headway.cli.worker  # noqa: PLC0415
    from headway.clock import SystemClock  # noqa: PLC0415

    class Skewed(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(seconds=ahead_s)

    if ahead_s:
        headway.cli.serving.REAL_TIME = Skewed()


def _import_all() -> None:
    import headway.cli.api  # noqa: PLC0415 - to have them
    import headway.cli.run  # noqa: PLC0415
    import headway.cli.worker  # noqa: PLC0415
    import headway.runners.celery_runner  # noqa: F401, PLC0415


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _import_all()
    serve(socket.socket(fileno=int(sys.argv[1])))
