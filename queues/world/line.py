"""What stands in line for room in one queue, as the leader has it there.

| a pod that waits                                        | is in line                         |
|---------------------------------------------------------|------------------------------------|
| has no gate of ours, and was not released               | by itself, before all others       |
| goes by itself                                          | by itself                          |
| its gang's minimum may be asked for                     | in the entry of that               |
| its gang's minimum was released                         | by itself                          |
| its gang cannot start yet, or ever; it has no PodGroup  | not at all                         |
| may not be released (`pod_rules`)                       | not at all                         |

A PodGroup that asks for room before its pods exist is in line with that (`queues.why.gang`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from queues.quota.gangs import Gang
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import limits_of, never_lack
from queues.why.gang import in_line, may_ask_before
from queues.world.gang_pods import gang_pods
from queues.world.members import Member
from queues.world.pod_rules import PodRules, is_gated
from queues.world.podgroups import PodGroupKey
from queues.world.world import World


class Line(NamedTuple):
    """`first`: those before all others. `others`: pods and minimums of gangs. In no order."""

    first: list[WaitingPod]
    others: list[WaitingPod]


#: Reads the pods of a gang that are in other queues, for one that asks for room before its pods exist.
StraysOf = Callable[[PodGroupKey], Sequence[Member]]


def line_of(world: World, queue: str, rules: PodRules, *, strays_of: StraysOf) -> Line:
    """`world`: has all pods of the queue, and the Jobs that made those of gangs."""
    first, others, gangs = list[WaitingPod](), list[WaitingPod](), set[PodGroupKey]()
    for member in world.members.waiting_in(queue):
        if is_gated(member) and rules.is_asked_with_gang(member):
            gangs.add(PodGroupKey(member.namespace, member.podgroup))
        elif rules.may_be_released(member):
            (others if is_gated(member) else first).append(rules.waiting_pod(member))
    for key in sorted(gangs.union(_asking_before(world, queue))):
        gang, group = world.podgroups.gang(*key), world.podgroups.get(*key)
        if gang is not None and group is not None and gang.queue == queue:
            others += _entries(world, key, gang, group.status.phase, rules, strays_of)
    return Line(first, others)


def _asking_before(world: World, queue: str) -> Iterator[PodGroupKey]:
    for group in world.podgroups.in_queue(queue):
        key = PodGroupKey(group.metadata.namespace, group.metadata.name)
        gang = world.podgroups.gang(*key)
        if gang is not None and may_ask_before(gang, phase=group.status.phase):
            yield key


def _entries(
    world: World, key: PodGroupKey, gang: Gang, phase: str, rules: PodRules, strays_of: StraysOf
) -> list[WaitingPod]:
    queue, tree = gang.queue, world.snapshot.tree
    asks_before = may_ask_before(gang, phase=phase)
    members = [*world.members.in_podgroup(*key), *(strays_of(key) if asks_before else ())]
    found = in_line(
        gang,
        gang_pods(gang, members, rules=rules, workloads=world.workloads),
        phase=phase,
        never=partial(never_lack, limits_of(tree.chain(queue)) if queue in tree else ()),
    )
    if any(each.uid == gang.uid and not each.pods for each in found):  # before its pods exist
        may_reserve = world.decisions.of_queue(queue, namespace=key.namespace).schedules
        return list(found) if may_reserve else []
    return list(found)
