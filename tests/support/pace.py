"""How slow this machine is at the moment, for tests that count a process's CPU time."""

from __future__ import annotations

import time

#: CPU seconds that `_work` takes on a machine on which the limits of such tests were chosen.
USUAL = 0.02


def slowness() -> float:
    """How many times more CPU time the same work takes here than usually; 1 at least."""
    best = float("inf")
    for _ in range(3):
        began = time.thread_time()
        _work()
        best = min(best, time.thread_time() - began)
    return max(1.0, best / USUAL)


def _work() -> int:
    total = 0
    for number in range(300_000):
        total += number
    return total
