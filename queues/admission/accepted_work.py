"""What a queue that no longer accepts still admits: the pods of work that it had accepted.

Work is accepted when its topmost owner that we watch was admitted before the queue stopped accepting. An
owner that has the annotation `sluice.dev/admission` (`admitted`) was, whatever the clocks say; for others the
time of creation counts. An equal second counts as before: the API server's times have no finer unit, and to
refuse a pod of accepted work breaks a job, while to admit the work of one more second does not.

| the pod, or what a controller makes          | admitted                                   |
|----------------------------------------------|--------------------------------------------|
| of an owner made before, still live          | yes                                        |
| of an owner that we admitted ourselves       | yes: we admit no new work to such a queue  |
| of another owner made later                  | no: it is new work                         |
| of an owner of another queue, or of none     | no                                         |
| of an owner that is finished                 | no: what it makes now was not accepted     |
| that a user gave such an owner               | no: only controllers create what has one   |
| any, once the queue is Closed                | no: no live work was left to make it       |
"""

from __future__ import annotations

from datetime import datetime

import msgspec


class WorkOwner(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The owner that counts: the topmost by `controller: true` references and UIDs, or the pod's PodGroup."""

    kind: str
    name: str
    queue: str
    created: datetime
    live: bool = True
    admitted: bool = False


def is_accepted_work(
    owner: WorkOwner | None, *, queue: str, refusing_since: datetime | None, closed: bool = False
) -> bool:
    """Whether this is work that its queue had accepted before it stopped accepting.

    `refusing_since`: when `Accepting` turned False; None where that has not been written yet, so that each
    owner that is stored came before. `closed`: the queue has become Closed since.
    """
    if owner is None or closed or owner.queue != queue or not owner.live:
        return False
    return owner.admitted or refusing_since is None or owner.created <= refusing_since
