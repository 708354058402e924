"""Our command as a child process handles an interrupt from its start."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from headway.runners.child_command import keeping_interrupts, own_command

PATIENCE_S = 120


@pytest.fixture
def sigint_ignored() -> Iterator[None]:
    """Ignore interrupts, as a shell does for a background process."""
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.mark.usefixtures("sigint_ignored")
def test_an_interrupt_during_startup_is_not_lost() -> None:
    with keeping_interrupts():
        child = subprocess.Popen(
            own_command("plan", "--products", "100", ends_by=signal.SIGINT),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(PATIENCE_S) != 0, "it ignored the interrupt"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
