"""The machine that runs the tests: find and install programs on it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import pytest

# Packages put some programs where only root looks.
SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"
INSTALL_S, LOOK_S = 900, 120
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Environment, folders, rights and Python for finding and installing programs."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folders: str = SYSTEM_FOLDERS
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)
    python: str = sys.executable

    @property
    def is_ci(self) -> bool:
        """Return True if a missing program is a failure."""
        return bool(self.environment.get("CI"))

    def find(self, *names: str) -> str | None:
        """Return the path of the first of these programs that starts."""
        places = f"{self.environment.get('PATH', '')}:{self.folders}"
        paths = (shutil.which(name, path=places) for name in names)
        works = (path for path in paths if path and self.run(path, "--version") is not None)
        return next(works, None)

    def find_or_install(self, find: Callable[["Machine"], T | None], *packages: str) -> T | None:
        """Return what `find` finds, after installing these packages if it finds nothing."""
        program = find(self)
        if program is None:
            self.install(*packages)
            program = find(self)
        return program

    def install(self, *packages: str) -> None:
        """Install the distribution's packages; do nothing if we are not root."""
        if not self.is_root:
            return
        self.report(f"installing {' and '.join(packages)} for the tests (once) ...")
        command = ("apt-get", "install", "-y", "--no-install-recommends", *packages)
        if self.run(*command, within_s=INSTALL_S) is None:
            self.run("apt-get", "update", within_s=INSTALL_S)
            self.run(*command, within_s=INSTALL_S)

    def skip(self, what_to_do: str) -> NoReturn:
        """Skip a test that lacks a program; with CI set, fail it."""
        (pytest.fail if self.is_ci else pytest.skip)(what_to_do)

    def run(self, *command: str, within_s: float = LOOK_S) -> str | None:
        """Return the output of a command; None if it does not exist or fails."""
        path = shutil.which(command[0], path=self.environment.get("PATH", ""))
        if path is None:
            return None
        try:
            result = subprocess.run(
                [path, *command[1:]],
                env={**self.environment, "DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True, text=True, timeout=within_s, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return result.stdout if result.returncode == 0 else None

    def report(self, text: str) -> None:
        """Print a message to stderr."""
        sys.stderr.write(f"{text}\n")
