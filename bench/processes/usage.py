"""What processes used: CPU time and memory, from /proc. The standard library alone."""

from __future__ import annotations

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat, counted from the one after the command's name.
PARENT, USER_TICKS, SYSTEM_TICKS = 1, 11, 12


def tree(pids: list[int]) -> list[int]:
    """The processes and all their descendants."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        fields = stat_fields(int(folder.name))
        if fields:
            children.setdefault(int(fields[PARENT]), []).append(int(folder.name))
    found: list[int] = []
    waiting = list(pids)
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return sorted(set(found))


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of living processes since they started."""
    fields = [fields for pid in pids if (fields := stat_fields(pid))]
    return sum(int(values[USER_TICKS]) + int(values[SYSTEM_TICKS]) for values in fields) / TICKS_PER_S


def resident_bytes(pids: list[int]) -> int:
    """Of the processes together; a page that several share counts for each."""
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * PAGE_BYTES
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def stat_fields(pid: int) -> list[str]:
    """Of a process, from its state on; none if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    # the name is in parentheses and may contain anything
    return text.rpartition(")")[2].split()
