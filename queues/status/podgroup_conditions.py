"""The conditions of a PodGroup, from its phase, its pods and how it stands as a gang. Pure.

| condition       | is          | reason              | when                                            |
|-----------------|-------------|---------------------|-------------------------------------------------|
| `Scheduled`     | True        | the phase           | enough of its pods are on nodes or done         |
|                 | False       | that of the stop    | its queue does not schedule                     |
|                 | False       | Released            | its minimum was released, and has no nodes yet  |
|                 | False       | the phase           | otherwise                                       |
| `Unschedulable` | True        | NotEnoughTasks      | fewer pods than its minimum exist               |
|                 | True        | NotEnoughPodsOfTask | the same of a task                              |
|                 | True        | NotEnoughResources  | no room, never any room, or too few nodes       |
|                 | not there   |                     | otherwise                                       |
| `Populated`     | True, False | HasPods, PodsGone   | it has pods; all that it had are gone           |

The reasons of `Unschedulable` are Volcano's. It is taken away and never False: Volcano's Job controller makes
an event of it on the Job whatever its status is.

Invariants
- Each text is the same for as long as its reason is: no count is in it, so that each is written once. That of
  a pause has when it ends.
- An `Unschedulable` that another component wrote stays as it is while nothing is to be said.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

import msgspec

from queues.apimachinery.timestamps import EARLIEST, parse_timestamp, rfc3339
from queues.status.conditions import DerivedCondition
from queues.status.podgroup_phases import POPULATED, SCHEDULED, Phase, PodTally

UNSCHEDULABLE = "Unschedulable"
#: The reason of `Scheduled` while its minimum is released, and not on nodes.
RELEASED = "Released"
_UNTIL = "released; what it has is given back unless enough of its pods are on nodes by "
_FAILED = "it was released, got too few nodes in its time, and"


class Lacking(Enum):
    """What a gang lacks: the reason of `Unschedulable`, and its text."""

    PODS = "NotEnoughTasks", "fewer pods than its minimum exist"
    PODS_OF_TASK = "NotEnoughPodsOfTask", "fewer pods of a task than its minimum exist"
    ROOM = "NotEnoughResources", "what it asks for has no room in the quotas: kubectl queue why says which"
    TURN = (
        "NotEnoughResources",
        "it got too few nodes before: of such gangs one is tried at a time, for 10 minutes at most, ",
    )
    GIVES_BACK = "NotEnoughResources", f"{_FAILED} gives back what it has"
    NODES = "NotEnoughResources", f"{_FAILED} waits for another try"
    NEVER = "NotEnoughResources", "it can never start: "


class GangQuotaState(msgspec.Struct, frozen=True, kw_only=True):
    """How a PodGroup stands with the quotas. `has_room`: what it asks for has room, or it asks for nothing.
    `lacking`: what keeps its minimum from being released; `detail`: the end of its text. `until`: its minimum
    was released, and is to be on nodes by then.
    """

    has_room: bool = True
    lacking: Lacking | None = None
    detail: str = ""
    until: datetime | None = None


#: Of a PodGroup whose pods go by themselves, or whose queue has no quota.
FREE = GangQuotaState()


def scheduled_condition(
    phase: Phase, standing: GangQuotaState, *, stop: tuple[str, str] | None
) -> DerivedCondition:
    """`stop`: reason and text of what stops its queue."""
    if phase in {Phase.RUNNING, Phase.COMPLETED}:
        return DerivedCondition(SCHEDULED, True, phase.value, "enough of its pods are on nodes or done")
    if stop is not None:
        return DerivedCondition(SCHEDULED, False, *stop)
    if standing.until is not None:
        return DerivedCondition(SCHEDULED, False, RELEASED, f"{_UNTIL}{rfc3339(standing.until)}")
    return DerivedCondition(SCHEDULED, False, phase.value, "fewer of its pods than minMember are on nodes")


def released_until(message: str) -> datetime | None:
    """By when its pods are to be on nodes, as the condition `Scheduled` says it; None if it does not."""
    if not message.startswith(_UNTIL):
        return None
    until = parse_timestamp(message.removeprefix(_UNTIL))
    return None if until == EARLIEST else until


def unschedulable_condition(phase: Phase, standing: GangQuotaState) -> DerivedCondition | None:
    """None: nothing is to be said."""
    if standing.lacking is None or phase in {Phase.RUNNING, Phase.COMPLETED}:
        return None
    reason, text = standing.lacking.value
    return DerivedCondition(UNSCHEDULABLE, True, reason, f"{text}{standing.detail}")


def is_unschedulable_of_ours(message: str) -> bool:
    """Whether it is a text of `unschedulable_condition`."""
    return any(message.startswith(lacking.value[1]) for lacking in Lacking)


def populated_condition(pods: PodTally) -> DerivedCondition:
    if pods.total:
        return DerivedCondition(POPULATED, True, "HasPods", "it has pods")
    return DerivedCondition(POPULATED, False, "PodsGone", "all pods that it had are gone")
