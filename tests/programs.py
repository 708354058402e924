"""Finds or installs the programs that only some tests need; `make test` runs it before pytest.

Tests themselves only look, and never install.
"""

import sys

from tests.browser import chromium
from tests.machine import Machine
from tests.monitoring import prometheus
from tests.pooler import pgbouncer

FINDERS = (chromium, pgbouncer, prometheus)


def main(machine: Machine) -> int:
    """Find or install each, and say so where there is none; with CI set that is a failure."""
    missing = [each.NONE for each in FINDERS if each.find_or_install(machine) is None]
    for line in missing:
        machine.say(line)
    return 1 if missing and machine.is_ci else 0


if __name__ == "__main__":
    sys.exit(main(Machine()))
