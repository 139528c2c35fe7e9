"""Why one more pod has no room."""

from __future__ import annotations

from enum import Enum, unique

import msgspec

from queues.apimachinery.quantities import Amount


@unique
class LackKind(Enum):
    """Which rule holds a pod back."""

    #: Each is there once. An Enum's own hash is computed in Python, and each look at a pod asks for some.
    __hash__ = object.__hash__

    CAPABILITY = "capability"
    #: There is room in the capability, and it is set aside for what others are guaranteed.
    GUARANTEES = "guarantees"
    #: All that nodes have, times the factor of the plugin `overcommit`, is used.
    OVERCOMMIT = "overcommit"
    #: A pod that has waited longest has a claim on it.
    CLAIM = "claim"
    #: Its gang got too few nodes before, and another one that did is being tried: they go one at a time.
    TURN = "turn"
    #: It starts together with other pods of its PodGroup, and these cannot all start yet, or never.
    GANG = "gang"
    #: A scheduling gate of somebody else keeps it: it would hold room that it could not use.
    GATE = "gate"
    #: Others are being evicted to make room for it, or for one like it.
    GIVEN_BACK = "given-back"
    #: The capability names devices of a class, and what the pod claims cannot be counted.
    DEVICES = "devices"
    #: The same, and a claim of the pod does not exist, or was not made yet.
    CLAIM_ABSENT = "claim-absent"
    #: The same, and no claims are known: they have not been read, or this cluster has none.
    CLAIMS_UNREAD = "claims-unread"
    #: The server cannot write its book of releases: it releases nothing.
    BOOK = "book"
    #: The queue does not exist, or its chain is broken: its limits are not known.
    NO_QUEUE = "no-queue"


#: What the queue and the order of its pods have nothing to do with: others need not wait for it.
_HOLDS_UP_NOBODY = frozenset(
    {
        *(LackKind.TURN, LackKind.GANG, LackKind.GATE),
        *(LackKind.DEVICES, LackKind.CLAIM_ABSENT, LackKind.CLAIMS_UNREAD),
    }
)


class Lack(msgspec.Struct, frozen=True, gc=False):
    """`missing` of `resource` in `queue`: the pod's own, or the nearest of its ancestors that has no room.

    `never`: it would not fit into an empty queue either. `resource` is "" where `kind` is `NO_QUEUE`, and
    `usage.TURN` in the scope of the turn where it is `TURN` (`gang_turns`).
    `why`: where it is `GANG` or `GATE`, in words, with what lets it go. `together`: so many pods start
    together.
    `kept`: who could go for it, and which rules keep them (`queues.quota.kept_victims`); "" where that is not
    known, or nobody could.
    `by_claims`: what is missing depends on more than on what is used, since others may share its claims.
    """

    queue: str
    resource: str = ""
    missing: Amount = 0
    never: bool = False
    kind: LackKind = LackKind.CAPABILITY
    by_claims: bool = False
    why: str = ""
    together: int = 1
    kept: str = ""

    @property
    def holds_up_others(self) -> bool:
        """Whether the pods behind it wait for it in a queue with `dequeueStrategy: fifo`. Not if it can never
        go, or waits for something else than room.
        """
        return not self.never and self.kind not in _HOLDS_UP_NOBODY
