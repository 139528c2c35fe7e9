"""Pods that a lost replica may have let through: their scheduler is asked to try again.

kube-scheduler has one attempt of a pod at a time. So once it has tried again, whatever attempt was under way
when the replica was lost has ended: the pod is bound, which its next state shows, or its bind has failed.

It writes a pod's condition only where that changes, and tries a refused pod again only where the pod does.
So the condition's text is changed first (`texts.recalled`), then an annotation; the text that comes in the
place of ours is the scheduler's, of an attempt that has ended since (`Store`, `Passes.attempt_over`).
Where no scheduler answers, the API server's time for a request has to pass.

Invariant: a pod is asked for at most once in `AGAIN_SECONDS`, and only while its queue does not schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from cluster.client import STRATEGIC
from cluster.members import Member
from controller.parts import Parts, pod_path
from queues import names
from queues.texts import recalled

AGAIN_SECONDS = 5.0


class Recalling:
    """Owner: the controller's thread; the writes run in the writers' threads."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        #: When each pod was asked for, by UID, in monotonic seconds.
        self._asked: dict[str, float] = {}

    def recall(self, queues: Container[str]) -> None:
        """Ask again for the pods of these queues that are assumed to have been let through."""
        now = self._parts.store.clock.monotonic()
        self._asked = {uid: at for uid, at in self._asked.items() if at > now - AGAIN_SECONDS}
        for namespace, name in self._parts.store.passes.assumed(queues):
            member = self._parts.store.members.get(namespace, name)
            if member is not None and member.bindable and member.uid not in self._asked:
                self._asked[member.uid] = now
                self._parts.writers.submit(("recall", member.uid), self._asking(member), rank=(1,))

    def _asking(self, member: Member) -> Callable[[], None]:
        def ask() -> None:
            ruling = self._parts.store.board.ruling(member.queue)
            if ruling.schedules:
                return
            path, meta = pod_path(member), {"uid": member.uid}
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": recalled(ruling.text),
            }
            body = {"metadata": meta, "status": {"conditions": [condition]}}
            self._parts.client.patch(f"{path}/status", body, content_type=STRATEGIC)
            annotations = {names.WOKEN: f"{ruling.revision}-{self._parts.store.clock.monotonic():.3f}"}
            self._parts.client.patch(path, {"metadata": {**meta, "annotations": annotations}})

        return ask
