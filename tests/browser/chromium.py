"""Finds a Chromium for the browser tests, or installs one; `make test` runs it as a program.

A browser that is on the PATH serves; else root installs the distribution's package, and anybody
else has playwright download its own. Tests themselves only look, and never install.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGE = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")
LISTS = ("apt-get", "update")
DOWNLOAD = (sys.executable, "-m", "playwright", "install", "chromium")
ASK_OWN = """
from playwright.sync_api import sync_playwright
with sync_playwright() as own:
    print(own.chromium.executable_path)
"""
OWN = (sys.executable, "-c", ASK_OWN)
INSTALL_S, LOOK_S = 900, 120
NONE = (
    "no Chromium was found, and none could be installed: the browser tests are skipped."
    " To run them: apt-get install chromium, or .venv/bin/python -m playwright install chromium"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is to find a browser with: where programs are, who we are, how to download."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)
    download: Sequence[str] = DOWNLOAD
    own: Sequence[str] = OWN

    @property
    def is_ci(self) -> bool:
        """Whether a missing browser is a failure."""
        return bool(self.environment.get("CI"))

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


def find(machine: Machine) -> str | None:
    """Return the path of a Chromium that starts, if there is any."""
    on_path = (shutil.which(name, path=machine.environment.get("PATH", "")) for name in NAMES)
    works = (path for path in on_path if path and machine.run(path, "--version") is not None)
    return next(works, None) or _own(machine)


def find_or_install(
    machine: Machine, say: Callable[[str], None] = lambda _text: None
) -> str | None:
    """Return the path of a Chromium, installed if need be; None if nothing helps."""
    found = find(machine)
    if found is None and machine.is_root:
        say("installing Chromium for the browser tests (once) ...")
        if machine.run(*PACKAGE, within_s=INSTALL_S) is None:
            machine.run(*LISTS, within_s=INSTALL_S)
            machine.run(*PACKAGE, within_s=INSTALL_S)
        found = find(machine)
    if found is None:
        say("downloading Chromium for the browser tests (once) ...")
        machine.run(*machine.download, within_s=INSTALL_S)
        found = _own(machine)
    return found


def _own(machine: Machine) -> str | None:
    """Return the browser that playwright downloaded, if it did and it starts."""
    path = (machine.run(*machine.own) or "").strip()
    is_there = bool(path) and Path(path).is_file()
    return path if is_there and machine.run(path, "--version") is not None else None


def main(machine: Machine) -> int:
    """Find or install, and say so where there is none; with CI set that is a failure."""

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    if find_or_install(machine, say) is not None:
        return 0
    say(NONE)
    return 1 if machine.is_ci else 0


if __name__ == "__main__":
    sys.exit(main(Machine()))
