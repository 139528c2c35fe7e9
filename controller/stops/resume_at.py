"""`resumeAt`, once it is past: written into the spec as what it means, once.

The verdict treats a stop whose time is past as undone from that very moment, so nothing waits for
this write; it only makes the spec say what is true. A writer who restores the old text (a GitOps
tool, say) changes nothing of the verdict either, and is told so by an event instead of being
fought: the annotation `sluice.dev/resumed` remembers for which time the write was made.
"""

from __future__ import annotations

from cluster.cache.queues import queue_from_object
from cluster.objects import QueueObject
from controller.context import (
    QUEUES,
    ControllerContext,
    queue_subject,
)
from queues import labels as names
from queues.states import Desired, StopPolicy

AUTHOR = "sluice: resumeAt"


def resume_if_due(obj: QueueObject, *, context: ControllerContext) -> None:
    """Have the resumption written that a queue's `resumeAt` asked for, if its time has come."""
    queue = queue_from_object(obj)
    if (
        queue.resume_time is None
        or not queue.is_suspended_or_held
        or not queue.is_resumed(context.store.clock.now())
    ):
        return
    moment = queue.resume_time.isoformat()
    if obj.metadata.annotation(names.RESUMED) == moment:
        context.recorder.record(
            queue_subject(obj),
            reason="ResumeAtPast",
            message=f"spec.resumeAt {moment} is past, so the stop it came with is undone although it was "
            "written again; remove spec.resumeAt to stop the queue",
            warning=True,
        )
        return
    body = {
        "metadata": {
            "resourceVersion": obj.metadata.resource_version,
            "annotations": {names.RESUMED: moment, names.ON_BEHALF_OF: AUTHOR},
        },
        "spec": {
            "state": (Desired.OPEN if queue.desired is Desired.SUSPENDED else queue.desired).value,
            "stopPolicy": StopPolicy.NONE.value,
            "resumeAt": None,
            "reason": None,
        },
    }

    def receive(written: bool | None) -> None:
        if written:
            context.recorder.record(
                queue_subject(obj),
                reason="ResumedOnTime",
                message=f"resumed, as spec.resumeAt {moment} asked",
            )

    def send() -> bool:
        context.client.patch(f"{QUEUES}/{queue.name}", body)
        return True

    context.submit(
        context.writers, ("resume", obj.metadata.uid), send, receive, rank=(0,), subject=queue_subject(obj)
    )
