"""What stops a pod or refuses work: who it is, and why.

A cause is a value; `queues.messages` has its text and the way out.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from queues.quota.lack import LackKind
from queues.states import StopPolicy
from queues.tree import ChainBreak

#: The way out where something is not known yet.
TRY_AGAIN = "try again"
#: The way out where the leader creates the PodGroup that a pod waits for.
LEADER_CREATES = "Sluice creates it for the owner of this pod"


class CauseKind(StrEnum):
    """The kinds of cause; the values are the reasons of conditions and events."""

    SUSPENDED = "Suspended"
    STOPPED = "Stopped"
    CLOSED = "Closed"
    TERMINATING = "Terminating"
    BROKEN = "ChainBroken"
    NOT_FOUND = "QueueNotFound"
    NO_PODGROUP = "PodGroupNotFound"
    NOT_SELECTED = "NamespaceNotSelected"


class Cause(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why a queue does not schedule or does not accept.

    `queue` is the queue of the verdict, `by` the one on its chain that is the cause; of `NO_PODGROUP`, the
    PodGroup. `window`: the change window of `by` that stops it; "" where its spec does. `until`: when the
    stop ends by itself, with a zone; None: it does not. Of `NOT_SELECTED`: the `namespace`, what the selector
    asks for and the namespace has not (`unmet`), and the command that changes that (`way_out`). `contact`:
    whom to ask about `by` (`queues.contacts`); "" where nobody is named.
    """

    kind: CauseKind
    queue: str
    by: str
    policy: StopPolicy = StopPolicy.NONE
    window: str = ""
    reason: str = ""
    until: datetime | None = None
    broken: ChainBreak | None = None
    namespace: str = ""
    unmet: str = ""
    way_out: str = ""
    contact: str = ""


def no_podgroup(name: str, *, by_leader: bool = False) -> Cause:
    """The cause of a pod, or a workload, whose PodGroup does not exist: its queue is not known.

    `by_leader`: the leader creates it (`queues.workload_gangs`).
    """
    return Cause(kind=CauseKind.NO_PODGROUP, queue="", by=name, way_out=LEADER_CREATES if by_leader else "")


class StartReason(StrEnum):
    """Why a pod may not start now, in the order in which they count (`queues.start_decision`)."""

    NO_PODGROUP = "PodGroupNotFound"
    NOT_SELECTED = "NamespaceNotSelected"
    QUEUE = "QueueStopped"
    NO_ACTION = "ActionMissing"
    NO_ROOM = "InsufficientQuota"


class NoRoom(msgspec.Struct, frozen=True, kw_only=True):
    """The quota of a pod's queue has no room for it. `by`: the queue of the chain whose capability is full,
    or never has room for the pod (`never`); "" where only the leader knows which. `kind`: the rule; `why`,
    `together`, `kept`: as of a `Lack`. `contact`: whom to ask about that queue, as of a `Cause`.
    """

    queue: str
    by: str = ""
    never: bool = False
    kind: LackKind = LackKind.CAPABILITY
    why: str = ""
    together: int = 1
    kept: str = ""
    contact: str = ""


class MissingAction(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's scheduling policy lacks the action that would schedule it.

    `by`: the queue that names the policy; "" for the global policy, and where the job does (`by_job`).
    """

    action: str
    has_requests: bool
    queue: str
    policy: str
    by: str = ""
    by_job: bool = False
