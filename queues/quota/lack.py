"""Why one more pod has no room."""

from __future__ import annotations

from enum import Enum, unique

import msgspec

from queues.apimachinery.quantities import Amount


@unique
class LackKind(Enum):
    """Which rule holds a pod back."""

    CAPABILITY = "capability"
    #: There is room in the capability, and it is set aside for what others are guaranteed.
    GUARANTEES = "guarantees"
    #: All that nodes have, times the factor of the plugin `overcommit`, is used.
    OVERCOMMIT = "overcommit"
    #: A pod that has waited longest has a claim on it.
    CLAIM = "claim"
    #: It was released in vain before, and another one that was is being placed: they go one at a time.
    TURN = "turn"
    #: It starts together with other pods of its PodGroup, and these cannot all start yet, or never.
    GANG = "gang"
    #: Others are being evicted to make room for it, or for one like it.
    GIVEN_BACK = "given-back"
    #: The capability names devices of a class, and what the pod claims cannot be counted.
    DEVICES = "devices"
    #: The same, and a claim of the pod does not exist, or was not made yet.
    CLAIM_ABSENT = "claim-absent"
    #: The same, and no claims are known: they have not been read, or this cluster has none.
    CLAIMS_UNREAD = "claims-unread"
    #: The queue does not exist, or its chain is broken: its limits are not known.
    NO_QUEUE = "no-queue"


class Lack(msgspec.Struct, frozen=True, gc=False):
    """`missing` of `resource` in `queue`: the pod's own, or the nearest of its ancestors that has no room.

    `never`: it would not fit into an empty queue either. `resource` is "" where `kind` is `NO_QUEUE`, and
    `usage.TURN` in `root` where it is `TURN`.
    `why`: where it is `GANG`, in words, with what lets it go. `together`: so many pods start together.
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
