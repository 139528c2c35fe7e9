"""Writes the close of a queue that Volcano had closed into its spec (`queues.volcano_close`).

Nothing waits for this write: all replicas read such a queue as Closed from their start. No status of ours is
written before, since by a status of ours the queue is read as Open.

Invariants
- Written by the leader, over the object that it was derived from: an edit in between refuses it, and then
  that edit counts.
- The write ends what it follows from, so it is made once, whoever leads and whatever crashes.
- While it is refused (Volcano's webhook refuses each edit of a Closing queue) the queue stays Closed, an
  event says what refuses it, and the write is tried again.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cluster.cache.changes import QueueChange
from cluster.cache.queues import is_closed_by_volcano
from cluster.objects import QueueObject
from cluster.write_ranks import WriteRank
from controller.context import QUEUES, ControllerContext, queue_subject
from queues import well_known
from queues.states import Desired

AUTHOR = "sluice: closed by Volcano"
REASON = "Volcano had closed it before Sluice came"
#: How soon the queue is looked at again after a write that met a conflict, or was refused.
RETRY_SECONDS = 0.5


def adopting_patch(obj: QueueObject) -> dict[str, Any]:
    """The close as a spec has it, for the Queue of this resource version only."""
    return {
        "metadata": {
            "resourceVersion": obj.metadata.resource_version,
            "annotations": {well_known.ON_BEHALF_OF: AUTHOR},
        },
        "spec": {"state": Desired.CLOSED.value, "reason": obj.spec.reason or REASON},
    }


def adopt_close(obj: QueueObject, *, context: ControllerContext) -> bool:
    """Submit the write where Volcano had closed the queue. Return whether it had: then its status is not
    written yet.
    """
    if not is_closed_by_volcano(obj):
        return False
    body, path = adopting_patch(obj), f"{QUEUES}/{obj.metadata.name}"

    def send() -> bool:
        context.client.patch(path, body)
        return True

    context.submit(
        context.writers,
        ("adopt_close", obj.metadata.uid),
        send,
        partial(_record_adopted, context, obj),
        rank=WriteRank.STOP,
        queue=obj.metadata.name,
        subject=queue_subject(obj),
    )
    return True


def _record_adopted(context: ControllerContext, obj: QueueObject, written: bool | None) -> None:
    queue = obj.metadata.name
    if not written:
        context.work_queue.add_after(queue, QueueChange.STATUS, seconds=RETRY_SECONDS)
        return
    context.recorder.record(
        queue_subject(obj),
        reason="CloseAdopted",
        message=f"Volcano had closed this queue ({obj.status.state}), so spec.state is Closed now; "
        f"to open it: kubectl queue open {queue}",
    )
