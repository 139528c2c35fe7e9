"""What kube-apiserver allocates for a number of requests, and the CPU time that is spent meanwhile.

Allocations repeat within one or two hundredths on a busy machine too, where times and even CPU time do not. A
reading of the metrics allocates 2 to 5 MiB as well, and is counted: a row has thousands of requests between
two.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from benchmarks.bench import Bench
from benchmarks.bind_costs import Cost, spent

METRIC = b"\ngo_memstats_alloc_bytes_total "
KIB = 1024.0


class Spent(msgspec.Struct, frozen=True):
    """By kube-apiserver, KiB allocated for one object; by component, CPU seconds for 1,000."""

    kib: float
    cpu: Cost

    def __str__(self) -> str:
        return f"{self.kib:.1f} KiB, {sum(self.cpu.values()):.2f} ms of CPU"


def allocated(bench: Bench) -> float:
    """Bytes that kube-apiserver has allocated since it was started."""
    return read_allocated(bench.api.request("GET", "/metrics").body)


def read_allocated(metrics: bytes) -> float:
    """The same of the text of its metrics. Raises ValueError where it is not in there."""
    start = metrics.index(METRIC) + len(METRIC)
    return float(metrics[start : metrics.index(b"\n", start)])


def measured(bench: Bench, work: Callable[[], object], *, count: int) -> Spent:
    """What the work costs for each of so many objects; the control plane rests before it and after it."""
    folder = bench.cluster.layout.folder
    bench.quiet()
    bytes_before, cpu_before = allocated(bench), spent(folder)
    work()
    bench.quiet()
    bytes_after, cpu_after = allocated(bench), spent(folder)
    return Spent(
        kib=(bytes_after - bytes_before) / KIB / count,
        cpu={name: 1000 * (cpu_after[name] - cpu_before[name]) / count for name in cpu_after},
    )
