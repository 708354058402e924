"""Finds Prometheus and its Alertmanager for the tests of the watch, or installs them.

`make test` runs it as a program. Those that are installed serve; else root installs the
distribution's packages. Nobody else can, and is told what to do. Tests only look, never install.
"""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.browser.chromium import INSTALL_S, LISTS, Machine

# Distributions and the project itself name it differently.
ALERTMANAGERS = ("prometheus-alertmanager", "alertmanager")
PACKAGES = ("prometheus", "prometheus-alertmanager")
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", *PACKAGES)
NONE = (
    "no Prometheus with promtool and Alertmanager was found, and none could be installed: the tests"
    f" of the watch with them are skipped. To run them: apt-get install {' '.join(PACKAGES)}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where they are."""

    prometheus: str
    promtool: str
    alertmanager: str


def find(machine: Machine) -> Programs | None:
    """Return where they are, if all of them are there and start."""
    prometheus, promtool = _first(machine, "prometheus"), _first(machine, "promtool")
    alertmanager = _first(machine, *ALERTMANAGERS)
    if prometheus is None or promtool is None or alertmanager is None:
        return None
    return Programs(prometheus=prometheus, promtool=promtool, alertmanager=alertmanager)


def find_or_install(
    machine: Machine, say: Callable[[str], None] = lambda _text: None
) -> Programs | None:
    """Return where they are, installed if need be and if we may."""
    found = find(machine)
    if found is None and machine.is_root:
        say("installing Prometheus and Alertmanager for the tests of the watch (once) ...")
        if machine.run(*INSTALL, within_s=INSTALL_S) is None:
            machine.run(*LISTS, within_s=INSTALL_S)
            machine.run(*INSTALL, within_s=INSTALL_S)
        found = find(machine)
    return found


def main(machine: Machine) -> int:
    """Find or install, and say so where there is none; with CI set that is a failure."""

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    if find_or_install(machine, say) is not None:
        return 0
    say(NONE)
    return 1 if machine.is_ci else 0


def _first(machine: Machine, *names: str) -> str | None:
    """Return the path of the first of these that starts."""
    paths = (shutil.which(each, path=machine.environment.get("PATH", "")) for each in names)
    return next((each for each in paths if each and machine.run(each, "--version")), None)


if __name__ == "__main__":
    sys.exit(main(Machine()))
