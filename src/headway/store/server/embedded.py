"""The embedded PostgreSQL: one folder, one owner, nothing left behind.

The owner holds a lock that the kernel frees when it dies, however it dies; the server gets a signal
at that moment and shuts down. A second process may join by `find_running`.
"""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from headway.clock import Clock
from headway.errors import ConfigError, StoreError
from headway.store.server.folder import (
    END_S,
    POLL_S,
    REAL_CLOCK,
    USER,
    await_predecessor,
    ensure_password,
    explained,
    initialize,
    is_owned,
    open_to_nobody,
    take_lock,
    worst_line,
    write_private,
)
from headway.store.server.launch import (
    HOST,
    Drop,
    Programs,
    choose_drop,
    find_programs,
    free_port,
    give,
    spawn,
)

DEFAULTS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}
START_TRIES = 50
READY_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server that some process owns, as another process sees it."""

    port: int
    pid: int
    started_at: datetime
    note: Mapping[str, Any]
    password: str = field(repr=False)

    def dsn(self, database: str = "headway") -> str:
        """Return the address of one database; it holds the password."""
        return _dsn(self.password, self.port, database)


class EmbeddedServer:
    """A private PostgreSQL in a folder; use it as a context manager."""

    def __init__(
        self,
        data_dir: Path,
        *,
        clock: Clock,
        settings: Mapping[str, str] | None = None,
        drop: Drop | None = None,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self._clock = clock
        self._settings = {**DEFAULTS, **(settings or {})}
        self._drop = drop
        self._note: Mapping[str, Any] = {}
        self._started_at = clock.now()
        self._lock: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._password = ""
        self._port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Take the folder and start the server; after a ConfigError nothing is left running."""
        # The kernel sends the death signal when the starting *thread* ends.
        assert threading.current_thread() is threading.main_thread(), (
            "start it from the main thread"
        )
        assert self._lock is None, "started twice"
        try:
            with explained(self.data_dir):
                self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._lock = take_lock(self.data_dir)
                self._boot()
        except BaseException:
            self.stop(immediate=True)
            raise

    def stop(self, *, immediate: bool = False) -> None:
        """Shut the server down, cleanly or at once as after a power cut, and free the folder."""
        process, self._process = self._process, None
        if process is not None:
            _end(process, immediate=immediate)
            (self.data_dir / "server.json").unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def pid(self) -> int:
        """The process id of the server."""
        assert self._process is not None, "not started"
        return self._process.pid

    def dsn(self, database: str = "headway") -> str:
        """Return the address of one database; it holds the password."""
        assert self._process is not None, "not started"
        socket_dir = self._settings["unix_socket_directories"]
        return _dsn(self._password, self._port, database, socket_dir=socket_dir)

    def announce(self, note: Mapping[str, Any]) -> None:
        """Publish what joining processes need to know besides the address."""
        self._note = dict(note)
        facts = {
            "pid": self.pid,
            "port": self._port,
            "started_at": self._started_at.isoformat(),
            "note": self._note,
        }
        write_private(self.data_dir / "server.json", json.dumps(facts))

    def ensure_database(self, name: str, *, template: str | None = None) -> None:
        """Create the database unless it is there, as a copy of the template if one is given."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            copying = sql.SQL(" TEMPLATE {} STRATEGY FILE_COPY").format(sql.Identifier(template))
            statement += copying
        with self._administration() as conn:
            try:
                conn.execute(statement)
            except psycopg.errors.DuplicateDatabase:
                return

    def drop_database(self, name: str) -> None:
        """Drop the database if it exists, with all its connections."""
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        with self._administration() as conn:
            conn.execute(statement)

    @contextmanager
    def _administration(self) -> Iterator[psycopg.Connection]:
        try:
            with psycopg.connect(self.dsn("postgres"), autocommit=True, connect_timeout=5) as conn:
                yield conn
        except psycopg.Error as error:
            message = str(error).strip().partition("\n")[0]
            raise StoreError(f"the embedded database in {self.data_dir}: {message}") from error

    def _boot(self) -> None:
        (self.data_dir / "server.json").unlink(missing_ok=True)
        drop = self._drop or choose_drop()
        made_by = self.data_dir / "pg" / "PG_VERSION"
        programs = find_programs(int(made_by.read_text()) if made_by.exists() else None)
        if drop == "nobody":
            programs = open_to_nobody(self.data_dir, programs)
        self._password = ensure_password(self.data_dir, drop)
        if not made_by.exists():
            initialize(self.data_dir, programs, drop, is_durable=self._is_durable)
        give(self.data_dir / "pg", drop)
        await_predecessor(self.data_dir / "pg")
        self._launch(programs, drop)
        self._started_at = self._clock.now()
        self.announce(self._note)

    @property
    def _is_durable(self) -> bool:
        return self._settings.get("fsync", "on") != "off"

    def _launch(self, programs: Programs, drop: Drop) -> None:
        log = self.data_dir / "postgres.log"
        if log.exists():
            log.replace(self.data_dir / "postgres.log.old")
        for _ in range(START_TRIES):
            self._port = free_port(self._port)
            settings = self._settings | {"port": str(self._port)}
            flags = [f"--{name}={value}" for name, value in settings.items()]
            command = [str(programs.path("postgres")), "-D", str(self.data_dir / "pg"), *flags]
            with log.open("wb") as output:
                self._process = spawn(command, drop=drop, output=output)
            if self._becomes_ready():
                return
            # Another process took the port, or a backend has not noticed its postmaster's death.
            if not re.search("already in use|still in use", log.read_text(errors="replace")):
                break
            REAL_CLOCK.sleep(POLL_S * 10)
        raise ConfigError(f"the embedded PostgreSQL did not start: {_tail(log)}; see {log}")

    def _becomes_ready(self) -> bool:
        assert self._process is not None
        give_up_at = REAL_CLOCK.monotonic() + READY_S
        while REAL_CLOCK.monotonic() < give_up_at:
            if self._process.poll() is not None:
                return False
            # Connect only to the port our own server announces: another process might use the port.
            if _announced_port(self.data_dir / "pg", self.pid) == self._port:
                with psycopg.connect(self.dsn("postgres"), connect_timeout=5):
                    return True
            REAL_CLOCK.sleep(POLL_S)
        return False


def find_running(data_dir: Path) -> RunningServer | None:
    """Return the server that another process runs in this folder, if there is one."""
    if not is_owned(data_dir):
        return None
    try:
        facts = json.loads((data_dir / "server.json").read_text(encoding="utf-8"))
        password = (data_dir / "password").read_text(encoding="utf-8")
    except OSError:
        return None  # it is still starting, or already stopping
    return RunningServer(
        port=facts["port"],
        pid=facts["pid"],
        started_at=datetime.fromisoformat(facts["started_at"]),
        note=facts["note"],
        password=password,
    )


def _dsn(password: str, port: int, database: str, *, socket_dir: str = "") -> str:
    """Return an address on loopback, or by the socket in that folder."""
    host = quote(socket_dir, safe="") if socket_dir else HOST
    return f"postgresql://{USER}:{password}@{host}:{port}/{database}?sslmode=disable"


def _announced_port(pg: Path, pid: int) -> int | None:
    """Read the port from the server's own record, once the server is ready."""
    try:
        lines = (pg / "postmaster.pid").read_text(encoding="utf-8").split("\n")
        is_ready = int(lines[0]) == pid and lines[7].strip() == "ready"
        return int(lines[3]) if is_ready else None
    except (OSError, ValueError, IndexError):
        return None


def _end(process: subprocess.Popen[bytes], *, immediate: bool) -> None:
    hints = (signal.SIGQUIT, signal.SIGKILL) if immediate else (signal.SIGINT, signal.SIGQUIT)
    for hint in hints:
        process.send_signal(hint)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            continue
        return
    process.kill()
    process.wait()


def _tail(log: Path) -> str:
    try:
        return worst_line(log.read_text(encoding="utf-8", errors="replace")[-8000:])
    except OSError:
        return "it wrote no log"
