"""PodGroups as the rules take them: queue, phase, whether one is live, and what it asks for as a gang.

A PodGroup is live unless it is Completed or all its pods are gone. The condition `Populated`, which the
controller writes, tells "all pods gone" from "no pods yet".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from queues.queue import DEFAULT
from queues.quota.gangs import Gang, gang_of
from queues.status.podgroup_phases import POPULATED, Phase
from queues.world.objects import PodGroup


class PodGroupKey(NamedTuple):
    """Namespace and name of a PodGroup as pods name it. The name is user input and may be invalid."""

    namespace: str
    name: str


def queue_of(podgroup: PodGroup) -> str:
    return podgroup.spec.queue or DEFAULT


def phase_of(podgroup: PodGroup) -> Phase:
    """Return the phase; an unknown one counts as Pending."""
    try:
        return Phase(podgroup.status.phase or Phase.PENDING)
    except ValueError:
        return Phase.PENDING


def is_live(podgroup: PodGroup) -> bool:
    populated = podgroup.status.condition(POPULATED)
    return phase_of(podgroup) is not Phase.COMPLETED and (populated is None or populated.status != "False")


def gang_of_podgroup(
    podgroup: PodGroup, *, value_of: Callable[[str], int | None] = lambda _name: None
) -> Gang:
    """What it asks for. `value_of`: that of a PriorityClass; None where there is none of that name."""
    meta, spec = podgroup.metadata, podgroup.spec
    return gang_of(
        meta.uid,
        queue_of(podgroup),
        meta.created,
        min_member=spec.min_member,
        min_task_member=spec.min_task_member,
        min_resources=spec.min_resources,
        priority=value_of(spec.priority_class_name) if spec.priority_class_name else None,
    )
