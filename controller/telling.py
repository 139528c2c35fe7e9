"""Why a pod waits, on the pod: its PodScheduled condition and an event name the queue, the cause
and the way out.

kube-scheduler says so itself for the pods that filter refused. A gated pod never gets that far, and
the API server's text for it is the same whatever the gate; so the condition's message is replaced.
When the gate is lifted kube-scheduler writes the condition anew, so nothing is left to be undone.

While pods of a queue are on their way out, those that replace them are told a little later: evictions come
first, and each telling costs the API server as much as one.

The workload that the user made, the topmost owner, is told by an event too, once a stop: who looks at a
Deployment that has no pods running finds the reason there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from cluster.client import STRATEGIC
from cluster.members import Member
from controller.parts import Parts, pod_path, pod_subject, workload_subject
from queues.board import Ruling
from queues.texts import stop_text
from queues.verdict import Cause, Why

EVENT_REASONS = {
    Why.SUSPENDED: "QueueSuspended",
    Why.STOPPED: "QueueStopped",
    Why.BROKEN: "QueueChainBroken",
    Why.NOT_FOUND: "QueueNotFound",
    Why.NO_PODGROUP: "PodGroupNotFound",
    Why.CLOSED: "QueueClosed",
}


#: Workloads whose being told is remembered; beyond, all are told once more.
REMEMBERED = 10_000
#: How old a pod gets before it is told in the middle of a drain.
LATER = timedelta(seconds=10)


class Telling:
    """Owner: the controller's thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._told: dict[str, tuple[int, str]] = {}
        #: Of which stop (a ruling's revision) a workload was told, by UID.
        self._told_of: dict[str, str] = {}

    def tell(self, queue: str, members: Iterable[Member], *, draining: bool = False) -> bool:
        """Have each gated one of these members say why.

        `draining`: pods of the queue are on their way out. Returns whether some members are to be told later.
        """
        ruling = self._parts.store.board.ruling(queue) if queue else None
        since = self._parts.store.clock.now() - LATER if draining else None
        later = False
        for member in members:
            if member.leaving or not member.waiting:
                continue
            if ruling is not None and ruling.stop is not None:
                self._tell_owner(member, ruling, ruling.stop)
            if not member.gated:
                continue
            if since is not None and member.created > since:
                later = True
            elif ruling is None:
                self._say(member, Cause(why=Why.NO_PODGROUP, queue="", by=member.group))
            elif ruling.stop is not None:
                self._say(member, ruling.stop, text=ruling.text)
        return later

    def _tell_owner(self, member: Member, ruling: Ruling, stop: Cause) -> None:
        work = self._parts.store.workloads.top_of(member.owner_uid, namespace=member.namespace)
        if work is None or self._told_of.get(work.uid) == ruling.revision:
            return
        if len(self._told_of) >= REMEMBERED:
            self._told_of.clear()
        self._told_of[work.uid] = ruling.revision
        self._parts.recorder.record(
            workload_subject(work),
            reason=EVENT_REASONS[stop.why],
            message=f"its pods wait: {ruling.text}",
            budget=f"workloads/{ruling.queue}",
        )

    def forget(self, uid: str) -> None:
        self._told.pop(uid, None)

    def _say(self, member: Member, cause: Cause, *, text: str = "") -> None:
        text = text or stop_text(cause)
        if member.condition == text or self._told.get(member.uid) == (member.version, text):
            return
        self._told[member.uid] = (member.version, text)
        body = {
            "metadata": {"uid": member.uid},
            "status": {"conditions": [{"type": "PodScheduled", "message": text}]},
        }
        path = f"{pod_path(member)}/status"
        submitted = self._parts.writers.submit(
            ("explain", member.uid),
            lambda: self._parts.client.patch(path, body, content_type=STRATEGIC),
            rank=(7, member.created),
            done=lambda ok: None if ok else self.forget(member.uid),
        )
        if not submitted:
            self.forget(member.uid)
            return
        self._parts.recorder.record(
            pod_subject(member),
            reason=EVENT_REASONS[cause.why],
            message=text,
            budget=member.queue or "-",
        )
