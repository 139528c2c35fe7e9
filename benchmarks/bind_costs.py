"""What binding costs in CPU time, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.figures import Line
from benchmarks.process_cpu import cpu_seconds
from localcluster import processes

#: Ours, and those that it gives more to do.
COUNTED = ("server", "kube-scheduler", "kube-apiserver")
Cost = Mapping[str, float]


def spent(folder: Path) -> dict[str, float]:
    """CPU seconds so far of each component that is counted, with its children; 0 where it does not run."""
    return {name: cpu_seconds(processes.pids(folder, name), reaped=True) for name in COUNTED}


def line(what: str, *, beside: str, ours: Sequence[Cost], theirs: Sequence[Cost]) -> Line:
    """All components together; each cost is of 1,000 binds."""
    return Line(
        what=f"CPU per 1,000 binds, all components, {what}",
        beside=beside,
        unit="s",
        ours=tuple(sum(each.values()) for each in ours),
        theirs=tuple(sum(each.values()) for each in theirs),
    )


def note(costs: Mapping[str, Sequence[Cost]]) -> str:
    """The share of each component, by what was measured; medians."""
    parts = (
        f"{' + '.join(f'{median(cost[name] for cost in seen):.2f}' for name in COUNTED)} s {what}"
        for what, seen in costs.items()
    )
    return (
        f"CPU is of {', '.join(COUNTED[:-1])} and {COUNTED[-1]}, with their children, from before the "
        "scheduler is started until the last bind. In this order they took per 1,000 binds: "
        f"{'; '.join(parts)}."
    )
