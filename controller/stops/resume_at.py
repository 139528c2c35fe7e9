"""Writes the end of a stop into the spec once its `resumeAt` is past.

The verdict treats such a stop as undone from that moment on, so nothing waits for this write. It only makes
the spec say what is true.

| the queue                                                   | what the controller does                    |
|-------------------------------------------------------------|---------------------------------------------|
| has no `resumeAt`, or one in the future                     | nothing                                     |
| is neither suspended nor held                               | nothing                                     |
| is suspended or held, and `resumeAt` is past                | writes `Open` for `Suspended`, policy       |
|                                                             | `None`, no `resumeAt` and no `reason`       |
| the same, and annotation `sluice.dev/resumed` has that time | records the event ResumeAtPast              |

The last row: the end was written before, and a client (a GitOps tool, say) has written the old text again.
That changes nothing of the verdict, so the controller says so and does not write it a second time.

A write that met a conflict (the status was written meanwhile) is soon made again, for the newer queue.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import Any

from cluster.cache.changes import QueueChange
from cluster.cache.queues import queue_from_object
from cluster.objects import QueueObject
from cluster.write_ranks import WriteRank
from controller.context import (
    QUEUES,
    ControllerContext,
    queue_subject,
)
from queues import well_known
from queues.queue import Queue
from queues.states import Desired, StopPolicy

AUTHOR = "sluice: resumeAt"
#: How soon a write that met a conflict is made again: by then the watch has most often the other one.
RETRY_SECONDS = 0.5


class ResumeStep(Enum):
    """What is to be done about a queue's `resumeAt`."""

    NOTHING = auto()
    WRITE = auto()
    #: It was written before, and the stop was written again with the same time.
    WARN = auto()


def resume_step(queue: Queue, *, resumed_for: str, now: datetime) -> ResumeStep:
    """The table of the module. `resumed_for`: the time of which annotation `sluice.dev/resumed` tells."""
    if queue.resume_time is None or not queue.is_suspended_or_held or not queue.is_resumed(now):
        return ResumeStep.NOTHING
    return ResumeStep.WARN if resumed_for == _written_time(queue) else ResumeStep.WRITE


def resume_patch(queue: Queue, *, resource_version: str) -> dict[str, Any]:
    """The end of the stop, for the Queue of this resource version only."""
    desired = Desired.OPEN if queue.desired is Desired.SUSPENDED else queue.desired
    return {
        "metadata": {
            "resourceVersion": resource_version,
            "annotations": {well_known.RESUMED: _written_time(queue), well_known.ON_BEHALF_OF: AUTHOR},
        },
        "spec": {
            "state": desired.value,
            "stopPolicy": StopPolicy.NONE.value,
            "resumeAt": None,
            "reason": None,
        },
    }


def resume_if_due(obj: QueueObject, *, context: ControllerContext) -> None:
    """Submit the write that ends the stop, if the time has come."""
    if obj.spec.resume_at is None:
        return
    queue = queue_from_object(obj)
    step = resume_step(
        queue, resumed_for=obj.metadata.annotation(well_known.RESUMED), now=context.store.clock.now()
    )
    if step is ResumeStep.WRITE:
        body = resume_patch(queue, resource_version=obj.metadata.resource_version)
        context.submit(
            context.writers,
            ("resume_queue", obj.metadata.uid),
            partial(_send, context, queue.name, body),
            partial(_record_resumed, context, obj, _written_time(queue)),
            rank=WriteRank.STOP,
            subject=queue_subject(obj),
        )
    elif step is ResumeStep.WARN:
        context.recorder.record(
            queue_subject(obj),
            reason="ResumeAtPast",
            message=f"spec.resumeAt {_written_time(queue)} is past, so the stop it came with is undone "
            "although it was written again; remove spec.resumeAt to stop the queue",
            warning=True,
        )


def _send(context: ControllerContext, queue: str, body: dict[str, Any]) -> bool:
    context.client.patch(f"{QUEUES}/{queue}", body)
    return True


def _record_resumed(context: ControllerContext, obj: QueueObject, time: str, written: bool | None) -> None:
    if written:
        context.recorder.record(
            queue_subject(obj), reason="ResumedOnTime", message=f"resumed, as spec.resumeAt {time} asked"
        )
    else:
        context.work_queue.add_after(obj.metadata.name, QueueChange.STATUS, seconds=RETRY_SECONDS)


def _written_time(queue: Queue) -> str:
    return queue.resume_time.isoformat() if queue.resume_time is not None else ""
