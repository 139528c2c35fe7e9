"""move: another parent for a queue.

Promises
- The patch holds `spec.parent` alone. What stops the queue itself stays.
- Which parents may be is the server's rule (`queues.admission.queue_edits`). Where not all queues could be
  read, it is left to the server.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from kubectl_queue.edit.operation import Decision
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import Object, name_of
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.views.acknowledgement import WaitCondition, acknowledgement_wait
from queues.admission.queue_edits import ROOT_HAS_NO_PARENT, parent_refusal
from queues.queue import ROOT
from queues.states import Action
from queues.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class MoveOperation:
    """`parent`: the queue that is to be above."""

    parent: str

    def refusal(self, name: str) -> str | None:
        return ROOT_HAS_NO_PARENT if name == ROOT else None

    def decide(self, *, item: Object, queues: QueueObjects) -> Decision:
        queue = queues.tree.queues[name_of(item)]
        if (queue.parent or ROOT) == self.parent:
            return Decision(outcome=f'unchanged (it is under "{self.parent}" already)')
        wanted = replace(queue, parent=self.parent)
        refusal = parent_refusal(wanted, tree=queues.tree) if queues.complete else None
        if refusal:
            raise QueueError(f'queue "{queue.name}" cannot be moved: {refusal}')
        return Decision(outcome=f'moved under "{self.parent}"', patch={"parent": self.parent})

    def warnings(self, name: str, *, before: QueueObjects, after: QueueObjects) -> list[str]:
        """What the move does to pods the server says (`queues.admission.tree_edits`)."""
        return []

    def wait_condition(self, verdict: Verdict) -> WaitCondition:
        return acknowledgement_wait(Action.OPEN if verdict.schedules else Action.SUSPEND, verdict)
