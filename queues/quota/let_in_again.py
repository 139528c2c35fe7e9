"""Which pods are left alone for a while: those of workloads that gave back, once they are let in again.

A leader remembers which workloads gave back, and which pods it let in since. What it did not see itself, it
reads off the pods:

| the pod                                                 | may be one that was let in again                |
|---------------------------------------------------------|-------------------------------------------------|
| no workload would make it again                         | no                                              |
| came with its workload: `WITH_WORKLOAD` seconds at most | no: nothing of that workload was evicted before |
| after it was made                                       |                                                 |
| came later; or when its workload was made is not known  | yes                                             |

| what may be let in again                   | is left alone                               |
|--------------------------------------------|---------------------------------------------|
| on a node, before the term or soon after   | until it is there for `SAFE_SECONDS`        |
| it began (`LATE_SECONDS`)                  |                                             |
| on none                                    | for the first `SAFE_SECONDS` of the term    |
| let in by this leader, and made before its | for `SAFE_SECONDS` from then on             |
| term, or soon after it began               |                                             |

Users write none of this: the API server writes when an object was made, and when a pod was bound.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

#: So long a pod is left alone that was let in again after its workload gave back.
SAFE_SECONDS = 60.0
#: Within so long a workload makes its first pods.
WITH_WORKLOAD = 5.0
#: So late the watch may show an eviction, and a pod may come for one that was evicted.
LATE_SECONDS = 30.0


class ReadPod(msgspec.Struct, frozen=True, kw_only=True):
    """What a new leader reads off a pod. `bound`: when it got its node. `workload`: when what would make it
    again was made; None where that is not known.
    """

    created: datetime
    bound: datetime | None = None
    is_placed: bool = False
    is_made_again: bool = True
    workload: datetime | None = None

    @property
    def may_be_another(self) -> bool:
        """Whether it may have come for one that was evicted."""
        if not self.is_made_again:
            return False
        return self.workload is None or self.created > self.workload + timedelta(seconds=WITH_WORKLOAD)

    def is_safe_in(self, term: datetime, *, now: datetime) -> bool:
        """Whether a leader since `term` leaves it alone, if it has not let it in itself."""
        safe, late = timedelta(seconds=SAFE_SECONDS), timedelta(seconds=LATE_SECONDS)
        if not self.may_be_another:
            return False
        if not self.is_placed:
            return now < term + safe
        return self.bound is not None and self.bound < term + late and now < self.bound + safe

    def is_of_former(self, term: datetime) -> bool:
        """Whether it may have come for one that a former leader evicted."""
        return self.may_be_another and self.created < term + timedelta(seconds=LATE_SECONDS)
