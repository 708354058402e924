"""Finds a pgbouncer for the tests of the pooler, or installs one.

One that is installed serves; else root installs the distribution's package. Nobody else can, and is
told what to do.
"""

from tests.machine import Machine

NAME = "pgbouncer"
NONE = (
    "no pgbouncer was found, and none could be installed: the tests of the pooler are skipped."
    f" To run them: apt-get install {NAME}"
)


def find(machine: Machine) -> str | None:
    """Return the path of a pgbouncer that starts, if there is any."""
    return machine.first(NAME)


def find_or_install(machine: Machine) -> str | None:
    """Return the path of a pgbouncer, installed if need be and if we may."""
    found = find(machine)
    if found is None:
        machine.install(NAME)
        found = find(machine)
    return found
