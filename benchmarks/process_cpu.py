"""Waiting until processes rest: what one measurement set going must not be paid by the next."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

WINDOW = 0.4
#: Of one core, of all the processes together.
AT_REST = 0.15
LONGEST = 20.0
_TICKS = os.sysconf("SC_CLK_TCK")


def until_quiet(pids: Iterable[int], *, windows: int = 1) -> bool:
    """Returns once these take next to nothing for so many windows, or after `LONGEST`; whether they do."""
    watched = list(pids)
    end = time.monotonic() + LONGEST
    used, rested = cpu_seconds(watched), 0
    while time.monotonic() < end:
        time.sleep(WINDOW)
        now = cpu_seconds(watched)
        rested = rested + 1 if now - used < AT_REST * WINDOW else 0
        if rested >= windows:
            return True
        used = now
    return False


def cpu_seconds(pids: Iterable[int], *, reaped: bool = False) -> float:
    """What they have used so far, user and system; with `reaped`, also the children they have waited for."""
    return sum(_used(pid, fields=4 if reaped else 2) for pid in pids)


def _used(pid: int, *, fields: int) -> float:
    """utime and stime, then cutime and cstime (proc(5))."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    values = stat[stat.rindex(")") + 2 :].split()
    return sum(int(value) for value in values[11 : 11 + fields]) / _TICKS
