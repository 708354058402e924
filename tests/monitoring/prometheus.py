"""Finds Prometheus and its Alertmanager for the tests of the watch, or installs them.

Those that are installed serve; else root installs the distribution's packages. Nobody else can, and
is told what to do.
"""

from dataclasses import dataclass

from tests.machine import Machine

# Distributions and the project itself name it differently.
ALERTMANAGERS = ("prometheus-alertmanager", "alertmanager")
PACKAGES = ("prometheus", "prometheus-alertmanager")
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
    prometheus, promtool = machine.first("prometheus"), machine.first("promtool")
    alertmanager = machine.first(*ALERTMANAGERS)
    if prometheus is None or promtool is None or alertmanager is None:
        return None
    return Programs(prometheus=prometheus, promtool=promtool, alertmanager=alertmanager)


def find_or_install(machine: Machine) -> Programs | None:
    """Return where they are, installed if need be and if we may."""
    found = find(machine)
    if found is None:
        machine.install(*PACKAGES)
        found = find(machine)
    return found
