"""How fast a backlog is bound, and what it costs: the pods are there before the scheduler is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks.bench import Bench
from benchmarks.bind_costs import Cost, spent
from benchmarks.objects import Object
from localcluster.scheduler_config import Edit


class Bound(msgspec.Struct, frozen=True):
    """Binds a second from the first to the last by the audit log; CPU seconds per 1,000 binds by component.

    The seconds are from before the scheduler is started, its start included, until the last bind is seen.
    """

    rate: float
    cpu: Cost

    def __str__(self) -> str:
        return f"{self.rate:.0f} binds/s"


def bind(bench: Bench, bodies: Sequence[Object], *, edit: Edit) -> Bound:
    """What came of binding these pods; nothing of them is left."""
    bench.create_pods(bodies)
    bound = backlog(bench, count=len(bodies), edit=edit)
    bench.clear()
    return bound


def backlog(bench: Bench, *, count: int, edit: Edit) -> Bound:
    """The same for pods that exist already, which stay."""
    bench.quiet()
    folder = bench.cluster.layout.folder
    mark, before = bench.audit.mark(), spent(folder)
    with bench.scheduling(edit):
        times = bench.binds(mark, count=count)
        after = spent(folder)
    cpu = {name: 1000 * (after[name] - before[name]) / count for name in after}
    return Bound((len(times) - 1) / (times[-1] - times[0]), cpu)


def costs(bound: Sequence[Bound]) -> list[Cost]:
    return [each.cpu for each in bound]
