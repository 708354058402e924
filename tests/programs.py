"""Find or install the programs that only some tests need; `make test` runs it before pytest.

The tests themselves never install anything.
"""

import sys

from tests.browser import chromium
from tests.clients import generators
from tests.machine import Machine
from tests.monitoring import prometheus
from tests.pooler import pgbouncer

FINDERS = (chromium, generators, pgbouncer, prometheus)


def main(machine: Machine) -> int:
    """Find or install each program, and report missing ones; with CI set that is a failure."""
    missing = [finder.NONE for finder in FINDERS if finder.find_or_install(machine) is None]
    for line in missing:
        machine.report(line)
    return 1 if missing and machine.is_ci else 0


if __name__ == "__main__":
    sys.exit(main(Machine()))
