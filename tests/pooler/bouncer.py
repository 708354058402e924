"""A real pgbouncer as a process, in front of a PostgreSQL of the tests."""

import contextlib
import shutil
import subprocess
from pathlib import Path
from typing import Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headway.clock import SystemClock
from headway.store.server.launch import HOST, choose_drop, free_port, give, spawn

READY_S, POLL_S, STOP_S = 30.0, 0.02, 10.0
# It does not retry an unreachable server for `server_login_retry`, and lets clients wait for
# one for `query_wait_timeout`.
CONFIG = """[databases]
* = host={server_host} port={server_port}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 200
server_login_retry = 1
query_wait_timeout = {wait_s}
server_idle_timeout = 5
"""


class PgBouncer:
    """A pgbouncer with few connections to the server, in any pool mode."""

    def __init__(
        self,
        program: str,
        folder: Path,
        server: str,
        *,
        mode: str = "transaction",
        size: int = 4,
        wait_s: int = 30,
    ) -> None:
        self._program, self._folder = program, folder
        self._login = conninfo_to_dict(server)
        self._chosen = {"mode": mode, "size": size, "wait_s": wait_s}
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)
        user, password = self._login["user"], self._login["password"]
        users, config = self._folder / "users", self._folder / "pgbouncer.ini"
        for path in (users, config):
            path.touch(mode=0o600)
        users.write_text(f'"{user}" "{password}"\n', encoding="utf-8")
        config.write_text(
            CONFIG.format(
                server_host=self._login["host"],
                server_port=self._login["port"],
                host=HOST,
                port=self._port,
                folder=self._folder,
                **self._chosen,
            ),
            encoding="utf-8",
        )
        drop = choose_drop()  # it refuses to run as root, as PostgreSQL does
        give(self._folder, drop)
        with (self._folder / "log").open("wb") as log:
            self._process = spawn([self._program, str(config)], drop=drop, output=log)
        self._await_answer(self._process)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def address_of(self, dsn: str) -> str:
        """Return the address of this database through the pooler."""
        name = conninfo_to_dict(dsn)["dbname"]
        user, password = self._login["user"], self._login["password"]
        return f"postgresql://{user}:{password}@{HOST}:{self._port}/{name}?sslmode=disable"

    def _await_answer(self, process: "subprocess.Popen[bytes]") -> None:
        clock = SystemClock()
        give_up_s = clock.monotonic() + READY_S
        while process.poll() is None and clock.monotonic() < give_up_s:
            with contextlib.suppress(psycopg.Error):
                psycopg.connect(self.address_of(" dbname=postgres"), connect_timeout=5).close()
                return
            clock.sleep(POLL_S)
        raise AssertionError((self._folder / "log").read_text(errors="replace")[-2000:])
