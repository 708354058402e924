"""Our own command as a child: it takes an interrupt from its first moment on."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from headway.runners.child_command import keeping_interrupts, own_command

PATIENCE_S = 120


@pytest.fixture
def ignored() -> Iterator[None]:
    """Ignore interrupts, as whatever starts a server in the background may."""
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.mark.usefixtures("ignored")
def test_an_interrupt_that_comes_while_it_starts_is_not_lost() -> None:
    with keeping_interrupts():
        child = subprocess.Popen(
            own_command("plan", "--products", "100", ends_by=signal.SIGINT),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(PATIENCE_S) != 0, "it went on as if nobody had asked it to stop"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
