"""Pods that somebody may have let through, and nobody knows what came of it: they are to be tried again.

That is what a replica that is lost now may have let through, and what each replica itself let through long
ago in a queue that is stopped now: the bind may have been refused, or filter asked again, through another.

kube-scheduler has one attempt of a pod at a time. So once it has tried again, whatever attempt was under way
when the replica was lost has ended: the pod is bound, which its next state shows, or its bind has failed.

It writes a pod's condition only where that changes, and tries a refused pod again only where the pod does.
So the text of the condition is changed first (`messages.with_retry_mark`), then an annotation. The text that
replaces ours is the scheduler's, of an attempt that has ended since (`BindPasses.end_attempt`).
Where no scheduler answers, the API server's time for a request has to pass.

Invariants
- Every replica doubts what it let through itself, whoever leads.
- A pod is asked for at most once in `AGAIN_SECONDS`, and only while its queue does not schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster.api.client import STRATEGIC_MERGE_PATCH
from cluster.cache.members import Member
from cluster.inflight.binds import Key
from controller.context import ControllerContext, pod_path
from controller.pods.preemption_retry import without_room
from queues import labels as names
from queues.messages import with_retry_mark

AGAIN_SECONDS = 5.0
#: A pass this old whose bind has not come is doubted; looked for this often, too.
DOUBT_SECONDS = 3.0


class Reschedule:
    """Owner: the controller's thread; the writes run in the writers' threads."""

    def __init__(self, context: ControllerContext, *, nudge: Callable[[], object]) -> None:
        """`nudge`: makes kube-scheduler try pods that found no room, which a change of theirs does not."""
        self._context = context
        self._nudge = nudge
        #: When each pod was asked for, by UID, in monotonic seconds.
        self._asked: dict[str, float] = {}
        self._doubt_at = 0.0

    def retry_pods(self, pods: Iterable[Key]) -> None:
        """Ask again for these pods."""
        now = self._context.store.clock.monotonic()
        self._asked = {uid: at for uid, at in self._asked.items() if at > now - AGAIN_SECONDS}
        for namespace, name in pods:
            member = self._context.store.members.get(namespace, name)
            if member is not None and member.bindable and member.uid not in self._asked:
                self._asked[member.uid] = now
                self._context.store.bind_passes.record_retry(namespace, name)
                self._context.writers.submit(("recall", member.uid), self._asking(member), rank=(1,))
                if without_room(member):
                    self._nudge()

    def retry_old_passes(self) -> None:
        """Ask again for what we let through long ago in queues that do not schedule."""
        store, now = self._context.store, self._context.store.clock.monotonic()
        if now < self._doubt_at:
            return
        self._doubt_at = now + DOUBT_SECONDS
        snapshot = store.snapshot
        self.retry_pods(
            {
                one.key
                for one in store.bind_passes.open_longer_than(seconds=DOUBT_SECONDS)
                if not snapshot.decision(one.queue).schedules
            }
        )

    def _asking(self, member: Member) -> Callable[[], None]:
        def ask() -> None:
            decision = self._context.store.snapshot.decision(member.queue)
            now = self._context.store.members.by_uid(member.uid)
            if decision.schedules or now is None or not now.bindable:
                return
            path, meta = pod_path(member), {"uid": member.uid}
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": with_retry_mark(decision.text),
            }
            body = {"metadata": meta, "status": {"conditions": [condition]}}
            self._context.client.patch(f"{path}/status", body, content_type=STRATEGIC_MERGE_PATCH)
            annotations = {names.WOKEN: f"{decision.revision}-{self._context.store.clock.monotonic():.3f}"}
            self._context.client.patch(path, {"metadata": {**meta, "annotations": annotations}})

        return ask
