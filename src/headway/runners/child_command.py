"""The `headway` command as a child process: it ends with its parent, however that ends.

On Linux the kernel ensures it: the child requests a signal before it becomes the command. The
signal is sent when the *thread* that started it ends.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# The parent may have changed how interrupts are handled; the command resets that.
START = (
    "import ctypes, os, signal, sys\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})\n"
    "if sys.platform == 'linux':\n"
    "    ctypes.CDLL(None).prctl(1, int(sys.argv[2]), 0, 0, 0)\n"
    "if os.getppid() != int(sys.argv[1]):\n"
    "    sys.exit('its parent process has ended')\n"
    "del sys.argv[1:3]\n"
    "from headway.cli import main\n"
    "sys.exit(main())\n"
)


def own_command(*words: str, ends_by: signal.Signals) -> list[str]:
    """Return what to start for `headway` with these words."""
    return [sys.executable, "-c", START, str(os.getpid()), str(int(ends_by)), *words]


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Let a child that is started here keep an interrupt until it can take one.

    It inherits the mask of this thread. Without that, one that comes while it starts is lost where
    interrupts were ignored before.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
