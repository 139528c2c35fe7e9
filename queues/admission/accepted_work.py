"""What a queue that no longer accepts still takes: the pods of work it had accepted.

A queue's work is accepted when its topmost owner that we watch was admitted before the queue
stopped accepting. Who bears our word that it was (`admitted`) was, whatever the clocks say; of others the
time of their creation tells. An equal second counts as before: the API server's times have no finer unit,
and to refuse a pod of accepted work breaks a job, while to take one more second's work does not.

| the pod, or what a controller makes          | taken                                      |
|----------------------------------------------|--------------------------------------------|
| of an owner made before, still live          | yes                                        |
| of an owner that we admitted ourselves       | yes: we admit no new work to such a queue  |
| of another owner made later                  | no: it is new work                         |
| of an owner of another queue, or of none     | no                                         |
| of an owner that is finished                 | no: what it makes now was not accepted     |
| said to be of such an owner by a user        | no: controllers alone make what is owned   |
| whatever, once the queue is Closed           | no: nothing was left to make it            |
"""

from __future__ import annotations

from datetime import datetime

import msgspec


class Owner(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The owner that decides: found by UID through `controller: true` references, or the pod's PodGroup."""

    kind: str
    name: str
    queue: str
    created: datetime
    live: bool = True
    admitted: bool = False


def is_accepted_work(
    owner: Owner | None, *, queue: str, refusing_since: datetime | None, closed: bool = False
) -> bool:
    """Whether this is work that its queue had accepted before it turned.

    `refusing_since`: when `Accepting` turned False; None where that has not been written yet,
    so that whatever owner is already stored came before. `closed`: the queue has become Closed since.
    """
    if owner is None or closed or owner.queue != queue or not owner.live:
        return False
    return owner.admitted or refusing_since is None or owner.created <= refusing_since
