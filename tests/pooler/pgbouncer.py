"""Find a pgbouncer for the tests of the pooler, or install one.

Without an installed one, root installs the distribution's package; other users get a hint.
"""

from tests.machine import Machine

NAME = "pgbouncer"
NONE = (
    "no pgbouncer was found, and none could be installed: the tests of the pooler are skipped."
    f" To run them: apt-get install {NAME}"
)


def find(machine: Machine) -> str | None:
    """Return the path of a pgbouncer that starts, if there is any."""
    return machine.find(NAME)


def find_or_install(machine: Machine) -> str | None:
    """Return the path of a pgbouncer, installed if need be and if we may."""
    return machine.find_or_install(find, NAME)
