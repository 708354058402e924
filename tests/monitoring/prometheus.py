"""Find Prometheus and its Alertmanager for the monitoring tests, or install them.

Without installed ones, root installs the distribution's packages; other users get a hint.
"""

from dataclasses import dataclass

from tests.machine import Machine

# Distributions and the project itself name it differently.
ALERTMANAGERS = ("prometheus-alertmanager", "alertmanager")
PACKAGES = ("prometheus", "prometheus-alertmanager")
NONE = (
    "no Prometheus with promtool and Alertmanager was found, and none could be installed: the tests"
    f" of monitoring with them are skipped. To run them: apt-get install {' '.join(PACKAGES)}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Paths of the programs."""

    prometheus: str
    promtool: str
    alertmanager: str


def find(machine: Machine) -> Programs | None:
    """Return the paths of the programs if all of them start."""
    prometheus, promtool = machine.find("prometheus"), machine.find("promtool")
    alertmanager = machine.find(*ALERTMANAGERS)
    if prometheus is None or promtool is None or alertmanager is None:
        return None
    return Programs(prometheus=prometheus, promtool=promtool, alertmanager=alertmanager)


def find_or_install(machine: Machine) -> Programs | None:
    """Return the paths of the programs; as root, install missing ones."""
    return machine.find_or_install(find, *PACKAGES)
