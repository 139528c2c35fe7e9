"""The phase of a PodGroup, from its pods and its queue. Pure.

The first that holds counts:

==========================================================================  =========
none of its pods is left to run, at least `minMember` of them are done       Completed
at least `minMember` of its pods run or are done                             Running
some run, but fewer                                                          Unknown
its queue schedules, and what it asks for has room in the quotas            Inqueue
otherwise                                                                    Pending
==========================================================================  =========

A group without `minResources`, or without a quota, asks for nothing: it is Inqueue as soon as its queue
schedules. Who makes pods for a group waits for that: Volcano's Job controller makes none before.

A group whose queue is stopped goes back from Inqueue to Pending: what it had reserved is free for others.
What it says itself has no effect: a user who writes `phase: Inqueue` gets nothing by it.
Completed stays while the group has no pods, or only pods that have ended.

Source of the phases: Volcano's `scheduling.volcano.sh/v1beta1`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

#: The condition that says whether the group has pods: False once all that it had are gone.
POPULATED = "Populated"
#: The condition that says whether enough of its pods are on nodes, and else why not.
SCHEDULED = "Scheduled"


class Phase(StrEnum):
    """`status.phase` of a PodGroup."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class PodTally(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many pods of a group wait for a node, run on one, and ended how."""

    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0

    @property
    def done(self) -> int:
        return self.succeeded + self.failed

    @property
    def total(self) -> int:
        return self.waiting + self.running + self.done


def derive_phase(
    *, pods: PodTally, least: int, schedules: bool, before: Phase, has_room: bool = True
) -> Phase:
    """The phase of a group of at least `least` pods (`minMember`) whose queue schedules, or not.

    `has_room`: what it asks for has room, or is kept for it already.
    """
    least = max(1, least)
    over = not pods.waiting and not pods.running
    if over and (pods.done >= least or before is Phase.COMPLETED):
        return Phase.COMPLETED
    if pods.running + pods.done >= least:
        return Phase.RUNNING
    if pods.running:
        return Phase.UNKNOWN
    return Phase.INQUEUE if schedules and has_room else Phase.PENDING
