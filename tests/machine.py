"""The machine that tests run on: what is installed on it, and how something more is installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import pytest

# Packages put some programs where only root looks.
SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"
INSTALL_S, LOOK_S = 900, 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is to find a program with: where programs are, who we are, and a Python."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folders: str = SYSTEM_FOLDERS
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)
    python: str = sys.executable

    @property
    def is_ci(self) -> bool:
        """Whether a missing program is a failure."""
        return bool(self.environment.get("CI"))

    def first(self, *names: str) -> str | None:
        """Return the path of the first of these programs that starts."""
        places = f"{self.environment.get('PATH', '')}:{self.folders}"
        paths = (shutil.which(name, path=places) for name in names)
        works = (path for path in paths if path and self.run(path, "--version") is not None)
        return next(works, None)

    def install(self, *packages: str) -> None:
        """Install the distribution's packages, if we may; only root may."""
        if not self.is_root:
            return
        self.say(f"installing {' and '.join(packages)} for the tests (once) ...")
        command = ("apt-get", "install", "-y", "--no-install-recommends", *packages)
        if self.run(*command, within_s=INSTALL_S) is None:
            self.run("apt-get", "update", within_s=INSTALL_S)
            self.run(*command, within_s=INSTALL_S)

    def lacks(self, what_to_do: str) -> NoReturn:
        """Skip the test that needs what is not there; with CI set, fail it."""
        (pytest.fail if self.is_ci else pytest.skip)(what_to_do)

    def run(self, *command: str, within_s: float = LOOK_S) -> str | None:
        """Return what a command prints; None if there is no such command, or it fails."""
        path = shutil.which(command[0], path=self.environment.get("PATH", ""))
        if path is None:
            return None
        try:
            done = subprocess.run(
                [path, *command[1:]],
                env={**self.environment, "DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True, text=True, timeout=within_s, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None

    def say(self, text: str) -> None:
        """Tell whoever waits."""
        sys.stderr.write(f"{text}\n")
