"""The folder of the embedded database: who owns it, its secret, its files, its last server.

No file in it is ever incomplete: files are written under another name and renamed.
"""

import fcntl
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from headway.clock import SystemClock, fresh_secret
from headway.errors import ConfigError
from headway.store.server.launch import Drop, Programs, can_reach, copy_programs, give, run

USER = "headway"
LOCK_TRIES = 25
END_S = 20
POLL_S = 0.02

# A real process takes real time to start and end, whatever clock the engine runs on.
REAL_CLOCK = SystemClock()


class FolderInUseError(ConfigError):
    """Another process owns the folder."""

    def __init__(self, data_dir: Path) -> None:
        try:
            holder = (data_dir / "lock").read_text(errors="replace") or "unknown"
        except OSError:
            holder = "unknown"
        super().__init__(
            f"{data_dir} is in use by another Headway (pid {holder}); stop it or set"
            " HEADWAY_DATA_DIR"
        )


@contextmanager
def explained(data_dir: Path) -> Iterator[None]:
    """Raise problems with the folder as a one-line error that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot keep the embedded database in {data_dir}: {reason};"
            " set HEADWAY_DATA_DIR to a folder you may write to, with 200 MB free"
        ) from error
    except psycopg.Error as error:
        message = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"the embedded database in {data_dir} refuses the connection: {message};"
            f" if {data_dir / 'password'} was changed, put the old one back"
        ) from error


def take_lock(data_dir: Path) -> int:
    """Own the folder as long as the returned file is open; the kernel closes it if we die."""
    lock = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            REAL_CLOCK.sleep(POLL_S)  # `find_running` holds it for an instant
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            return lock
    os.close(lock)
    raise FolderInUseError(data_dir)


def is_owned(data_dir: Path) -> bool:
    """Return True if a running process holds the folder."""
    try:
        lock = os.open(data_dir / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def open_to_nobody(data_dir: Path, programs: Programs) -> Programs:
    """Let `nobody` into the folder and to the programs, copying these if need be."""
    data_dir.chmod(0o711)
    if not can_reach(data_dir, "nobody"):
        raise ConfigError(
            f"PostgreSQL must not run as root, and the user nobody cannot enter {data_dir}; set"
            " HEADWAY_DATA_DIR to a folder such as /var/lib/headway, or run as another user"
        )
    if can_reach(programs.path("postgres"), "nobody"):
        return programs
    return copy_programs(programs, data_dir / "programs")


def ensure_password(data_dir: Path, drop: Drop) -> str:
    """Return the password of the database, made before the database is."""
    path = data_dir / "password"
    if not path.exists():
        if (data_dir / "pg").exists():
            raise ConfigError(
                f"{path} is gone and the database beside it cannot be opened without it;"
                " put it back, or set HEADWAY_DATA_DIR to another folder"
            )
        write_private(path, fresh_secret())
    give(path, drop)
    return path.read_text(encoding="utf-8")


def initialize(data_dir: Path, programs: Programs, drop: Drop, *, is_durable: bool) -> None:
    """Create the database files in another folder and rename it, so none is ever incomplete."""
    fresh, final = data_dir / "pg.new", data_dir / "pg"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    give(fresh, drop)
    done = run(
        [
            str(programs.path("initdb")), f"--pgdata={fresh}", f"--username={USER}",
            f"--pwfile={data_dir / 'password'}", "--auth=scram-sha-256", "--encoding=UTF8",
            "--locale=C", "--no-instructions", *(() if is_durable else ("--no-sync",)),
        ],
        drop=drop,
    )  # fmt: skip
    if done.returncode != 0:
        shutil.rmtree(fresh, ignore_errors=True)
        reason = worst_line(done.stderr)
        raise ConfigError(
            f"cannot make the embedded database in {data_dir}: {reason};"
            " fix that, or set HEADWAY_DATA_DIR to another folder"
        )
    fresh.rename(final)


def await_predecessor(pg: Path) -> None:
    """Wait for a server whose owner was killed; forget one that was itself killed.

    PostgreSQL takes any live process with the recorded id for its predecessor, so an unrelated
    process with that id would block it for ever. We hold the lock, so we wait only for our own.
    """
    record = pg / "postmaster.pid"
    try:
        pid = int(record.read_text(encoding="utf-8").partition("\n")[0])
        is_ours = _works_in(pid, pg)
    except (OSError, ValueError):
        is_ours = False
    if not is_ours:
        record.unlink(missing_ok=True)
        return
    with suppress(ProcessLookupError):
        if not _end(pid):
            raise ConfigError(
                f"an old PostgreSQL (pid {pid}) does not end; end it, then start again"
            )


def _works_in(pid: int, pg: Path) -> bool:
    """Return True if this process is a server of the data folder; raises OSError if it ended."""
    if sys.platform == "linux":
        is_ours = Path(f"/proc/{pid}/cwd").samefile(pg)  # a server works in its data folder
    else:
        command = ["/bin/ps", "-ww", "-p", str(pid), "-o", "command="]
        shown = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        is_ours = f"-D {pg} " in shown.stdout
    return is_ours


if sys.platform == "linux":

    def _end(pid: int) -> bool:
        """Wait for a process, then ask it to end; its handle never means another process."""
        handle = os.pidfd_open(pid)
        try:
            for hint in (None, signal.SIGINT, signal.SIGQUIT):
                if hint is not None:
                    signal.pidfd_send_signal(handle, hint)
                if select.select([handle], [], [], END_S)[0]:
                    return True
        finally:
            os.close(handle)
        return False

else:

    def _end(pid: int) -> bool:
        """Wait for a process, then ask it to end; raises ProcessLookupError once it has ended."""
        for hint in (0, signal.SIGINT, signal.SIGQUIT):
            os.kill(pid, hint)
            give_up_at = REAL_CLOCK.monotonic() + END_S
            while REAL_CLOCK.monotonic() < give_up_at:
                os.kill(pid, 0)
                REAL_CLOCK.sleep(POLL_S)
        return False


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner may read, whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def worst_line(text: str) -> str:
    """Return the line of a program's output that names the error."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    bad = [line for line in lines if re.search(r"FATAL|PANIC|error:", line)]
    line = (bad or lines or ["no reason given"])[-1]
    return re.sub(r"^.*?(FATAL|PANIC|error):\s*", "", line)
