"""What processes hold in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

KIB = 1024


def held(pids: Iterable[int]) -> float:
    """MiB; pages that several of them share count once (Pss)."""
    return sum(_field(pid, "smaps_rollup", "Pss") for pid in pids) / KIB


def resident(pids: Iterable[int]) -> float:
    """MiB; pages that several of them share count for each (VmRSS)."""
    return sum(_field(pid, "status", "VmRSS") for pid in pids) / KIB


def highest(pids: Iterable[int]) -> float:
    """MiB: the most that any one of them has held so far (VmHWM)."""
    return max(_field(pid, "status", "VmHWM") for pid in pids) / KIB


def _field(pid: int, file: str, name: str) -> int:
    try:
        text = Path(f"/proc/{pid}/{file}").read_text()
    except OSError:  # it has just ended
        return 0
    found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) if found else 0
