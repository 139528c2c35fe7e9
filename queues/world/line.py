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

from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from queues.messages import other_gate_text
from queues.quota.gangs import BEYOND, NotAsked, NotAskedKind
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import limits_of, never_lack
from queues.why.gang import GangLine, in_line, may_ask_before
from queues.world.gang_pods import gang_pods
from queues.world.members import Member
from queues.world.pod_rules import PodRules, is_gated
from queues.world.podgroups import PodGroupKey
from queues.world.world import World


class WaitingLine(NamedTuple):
    """`first`: those before all others. `others`: pods and minimums of gangs. Both in no order. `reasons`:
    why pods that wait are not in line, in words, by UID; of those that may not be released at all nothing.
    `short`: those of them whose gang lacks pods for its minimum, by its PodGroup.
    """

    first: list[WaitingPod]
    others: list[WaitingPod]
    reasons: dict[str, str]
    short: dict[PodGroupKey, list[str]]


#: Why nothing of a gang is asked for that lacks pods.
_SHORT = frozenset({NotAskedKind.TOO_FEW, NotAskedKind.HELD, NotAskedKind.QUEUES})
#: Reads the pods of a gang that are in other queues: of one that asks for room before its pods exist, and of
#: those that are to be told exactly why they are not in line.
StraysOf = Callable[[PodGroupKey], Sequence[Member]]


def line_of(
    world: World,
    queue: str,
    rules: PodRules,
    *,
    strays_of: StraysOf,
    told: Container[PodGroupKey] = frozenset(),
) -> WaitingLine:
    """`world`: has all pods of the queue, and the Jobs that made those of gangs. `told`: the gangs of which
    it is said whether pods are missing or in another queue.
    """
    line = WaitingLine([], [], {}, {})
    gangs: dict[PodGroupKey, list[Member]] = {key: [] for key in _asking_before(world, queue)}
    for member in world.members.waiting_in(queue):
        if rules.awaits_other_gate(member):
            line.reasons[member.uid] = other_gate_text(member.other_gate)
        if is_gated(member) and rules.is_asked_with_gang(member):
            gangs.setdefault(PodGroupKey(member.namespace, member.podgroup), []).append(member)
        elif rules.may_be_released(member):
            (line.others if is_gated(member) else line.first).append(rules.waiting_pod(member))
    for key in sorted(gangs):
        found = _gang_line(world, key, queue, rules, strays_of, is_told=key in told)
        line.others.extend(found.entries)
        in_line_already = {uid for entry in found.entries for uid in entry.uids}
        reason = found.not_asked.reason if found.not_asked is not None else BEYOND
        for member in gangs[key]:
            is_told = member.uid in line.reasons and not _comes_first(found.not_asked)
            if member.uid not in in_line_already and not is_told:
                line.reasons[member.uid] = reason
                if found.not_asked is not None and found.not_asked.kind in _SHORT:
                    line.short.setdefault(key, []).append(member.uid)
    return line


def _comes_first(not_asked: NotAsked | None) -> bool:
    """Whether that is told of a pod that has the gate of another controller, too."""
    return not_asked is not None and (not_asked.kind.never or not_asked.kind is NotAskedKind.ABSENT)


def _asking_before(world: World, queue: str) -> Iterator[PodGroupKey]:
    for group in world.podgroups.in_queue(queue):
        key = PodGroupKey(group.metadata.namespace, group.metadata.name)
        gang = world.podgroups.gang(*key)
        if gang is not None and may_ask_before(gang, phase=group.status.phase):
            yield key


def _gang_line(
    world: World, key: PodGroupKey, queue: str, rules: PodRules, strays_of: StraysOf, *, is_told: bool
) -> GangLine:
    gang, group, tree = world.podgroups.gang(*key), world.podgroups.get(*key), world.snapshot.tree
    if gang is None or group is None:
        return GangLine((), NotAsked(kind=NotAskedKind.ABSENT))
    never = partial(never_lack, limits_of(tree.chain(gang.queue)) if gang.queue in tree else ())
    if gang.queue != queue:
        of_spec = in_line(gang, (), phase="", never=never).not_asked
        is_never = of_spec is not None and of_spec.kind.never
        return GangLine((), of_spec if is_never else NotAsked(kind=NotAskedKind.QUEUES))
    asks_before = may_ask_before(gang, phase=group.status.phase)
    members = [*world.members.in_podgroup(*key), *(strays_of(key) if asks_before or is_told else ())]
    return in_line(
        gang,
        gang_pods(gang, members, rules=rules, workloads=world.workloads),
        phase=group.status.phase,
        may_reserve=world.decisions.of_queue(queue, namespace=key.namespace).schedules,
        never=never,
    )
