"""Processor time of processes and their children, as Linux counts it."""

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name: parent, and the four times (own and of dead children).
PARENT, TIMES = 1, slice(11, 15)


def seconds_of(pid: int) -> float:
    """Return the seconds, user and system, of a process and of all that it ever started."""
    stats = _stats()
    children: dict[int, list[int]] = {}
    for child, fields in stats.items():
        children.setdefault(int(fields[PARENT]), []).append(child)
    ticks, open_ = 0, [pid]
    while open_:
        one = open_.pop()
        ticks += sum(map(int, stats[one][TIMES])) if one in stats else 0
        open_ += children.get(one, [])
    return ticks / TICKS_PER_S


def _stats() -> dict[int, list[str]]:
    values = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # it has just ended
            values[int(folder.name)] = text.rpartition(")")[2].split()
    return values
