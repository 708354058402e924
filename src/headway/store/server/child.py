"""Starts a PostgreSQL program: a script that replaces itself by it, standard library only.

Drops root, requests a signal from the kernel when the owner dies, then executes the program. A
script rather than `preexec_fn`, which may deadlock or warn once the owner has threads.
"""

import ctypes
import os
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x10000000


def become(drop: str, uid: int, gid: int, death_signal: int, owner_pid: int) -> None:
    """Prepare this process: not root, as PostgreSQL requires, and not outliving its owner."""
    if drop == "namespace":
        _enter_namespace(uid, gid)
    elif drop == "nobody":
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        # After the change of user, which would clear it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != owner_pid:
        sys.exit("the owner died before the server started")


def _enter_namespace(uid: int, gid: int) -> None:
    """Enter a user namespace as `nobody`, while the kernel still lets us use root's files."""
    owner_gid = os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "a user namespace is not allowed here")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} {owner_gid} 1", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{uid} 0 1", encoding="ascii")


if __name__ == "__main__":
    become(sys.argv[1], *map(int, sys.argv[2:6]))
    os.execv(sys.argv[6], sys.argv[6:])  # noqa: S606 - the command comes from launch.py
