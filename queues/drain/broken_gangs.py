"""Gangs of which a drain leaves less than the minimum: with `drain.brokenGangs: Evict` they go whole. Pure.

A part of a gang stays where `drain.keep` or `drain.barePods` says so, or where a deadline with
`afterDeadline: Keep` comes while its pods go. What is missing of the gang cannot come while the queue is
drained: its pods would wait for the queue. So a part that is less than the minimum runs on for nothing. This
is a field and no rule, since who keeps pods by label, or bare ones, may mean just these.

| a pod of the gang                           | counts as staying                                       |
|---------------------------------------------|---------------------------------------------------------|
| stays by rule (`queues.drain.model`)        | yes                                                     |
| runs in a queue that this drain does not    | yes, until it leaves: no drain evicts pods of other     |
| cover                                       | queues                                                  |
| has succeeded                               | yes, as where a quota counts the minimum                |
| runs, and is to go                          | no; past a deadline with `afterDeadline: Keep` yes, for |
|                                             | then it stays                                           |
| was asked to go, or is being deleted        | no                                                      |
| waits, or has no node                       | no: it starts no sooner than the queue schedules        |

If fewer stay than the minimum of the PodGroup (`queues.quota.gangs`: `minMember`, and `minTaskMember`), the
gang is broken. Then its pods that stay by KeepSelector or BarePod, or past that deadline, go with it.

Invariants
- DaemonSet and SystemCritical hold in any case.
- Pods of queues that the drain does not cover are counted, and never evicted.
- How they go is what holds for all: the eviction API with its budgets, or what `afterDeadline` says.
- The answer follows from what runs now: a new leader finds the same. A gang that was less than its minimum
  before the drain is broken, too.
- A PodGroup that does not exist, or whose pods go by themselves, has no minimum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from datetime import datetime

import msgspec

from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import DrainSpec, KeepRule, RunningPod, gang_key, keep_rule
from queues.text import printable

#: The rules of `spec.drain` itself, by the field beside this one.
OVERRULED = frozenset({KeepRule.LABEL, KeepRule.BARE})


class GangMinimum(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods a gang needs. `tasks`: so many of each task. `beside`: the task of each pod that runs in
    a queue that the drain does not cover, or has succeeded.
    """

    least: int
    tasks: tuple[tuple[str, int], ...] = ()
    beside: tuple[str, ...] = ()

    def holds_with(self, tasks: Iterable[str]) -> bool:
        """Whether it is at its minimum if the pods of these tasks stay."""
        there = Counter([*tasks, *self.beside])
        return there.total() >= self.least and all(there[task] >= least for task, least in self.tasks)


def counts_beside(phase: str, *, on_node: bool, leaving: bool) -> bool:
    """Whether a pod that the drain does not cover is there for the minimum of its gang."""
    if phase in {"Succeeded", "Failed"}:
        return phase == "Succeeded"
    return on_node and not leaving


def broken_gangs(
    pods: Iterable[RunningPod], spec: DrainSpec, minimums: Mapping[BudgetKey, GangMinimum], *, now: datetime
) -> dict[BudgetKey, str]:
    """The gangs that go whole, by namespace and name, each with why. `pods`: those of the drain."""
    if not spec.evict_broken_gangs:
        return {}
    all_stay = spec.overdue(now) and not spec.delete_after_deadline
    staying: dict[BudgetKey, list[str]] = {key: [] for key in minimums}
    for pod in pods:
        tasks = staying.get(gang_key(pod))
        if tasks is not None and _stays(pod, spec, all_stay=all_stay):
            tasks.append(pod.task)
    return {
        key: _TEXT.format(namespace=key[0], name=printable(key[1]), least=minimums[key].least)
        for key, tasks in staying.items()
        if not minimums[key].holds_with(tasks)
    }


def stays(pod: RunningPod, spec: DrainSpec, broken: Container[BudgetKey]) -> KeepRule | None:
    """The rule by which the pod stays, also if these gangs go whole."""
    rule = keep_rule(pod, spec)
    return None if rule in OVERRULED and gang_key(pod) in broken else rule


def _stays(pod: RunningPod, spec: DrainSpec, *, all_stay: bool) -> bool:
    """Of a pod that is to go and leaves, or waits for its owner to be known, nothing is counted."""
    if keep_rule(pod, spec) is not None:
        return pod.termination is None
    return all_stay and not pod.leaving


_TEXT = (
    "with podgroup {namespace}/{name}, of which less than its minimum of {least} pods would stay "
    "(drain.brokenGangs: Evict)"
)
