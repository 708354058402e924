"""Without the extra `lab`, its commands say in one line what to install."""

import subprocess
import sys

import pytest

RUN = """
import sys

sys.modules["greenlet"] = None
from headway.cli import main

sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ("demo", "simulate"))
def test_a_command_of_the_lab_names_the_missing_package_and_how_to_install_it(command: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", RUN, command], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.strip().endswith(
        "this command needs the package greenlet; install it with: pip install 'headway[lab]'"
    )
    assert run.stderr.count("\n") == 1


def test_the_other_commands_do_not_need_the_lab() -> None:
    run = subprocess.run(
        [sys.executable, "-c", RUN, "status", "--help"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0
