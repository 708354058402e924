"""Finds a pgbouncer for the tests of the pooler, or installs one; `make test` runs it as a program.

One that is installed serves; else root installs the distribution's package. Nobody else can, and is
told what to do. Tests themselves only look, and never install.
"""

import shutil
import sys
from collections.abc import Callable

from tests.browser.chromium import INSTALL_S, LISTS, Machine

NAME = "pgbouncer"
# Packages put it where only root looks.
SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"
PACKAGE = ("apt-get", "install", "-y", "--no-install-recommends", NAME)
NONE = (
    "no pgbouncer was found, and none could be installed: the tests of the pooler are skipped."
    " To run them: apt-get install pgbouncer"
)


def find(machine: Machine, folders: str = SYSTEM_FOLDERS) -> str | None:
    """Return the path of a pgbouncer that starts, if there is any."""
    places = f"{machine.environment.get('PATH', '')}:{folders}"
    path = shutil.which(NAME, path=places)
    return path if path and machine.run(path, "--version") is not None else None


def find_or_install(
    machine: Machine,
    say: Callable[[str], None] = lambda _text: None,
    folders: str = SYSTEM_FOLDERS,
) -> str | None:
    """Return the path of a pgbouncer, installed if need be and if we may."""
    found = find(machine, folders)
    if found is None and machine.is_root:
        say("installing pgbouncer for the tests of the pooler (once) ...")
        if machine.run(*PACKAGE, within_s=INSTALL_S) is None:
            machine.run(*LISTS, within_s=INSTALL_S)
            machine.run(*PACKAGE, within_s=INSTALL_S)
        found = find(machine, folders)
    return found


def main(machine: Machine, folders: str = SYSTEM_FOLDERS) -> int:
    """Find or install, and say so where there is none; with CI set that is a failure."""

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    if find_or_install(machine, say, folders) is not None:
        return 0
    say(NONE)
    return 1 if machine.is_ci else 0


if __name__ == "__main__":
    sys.exit(main(Machine()))
