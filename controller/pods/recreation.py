"""Deletes pods that are parked by filter, where `spec.parked` of their queue is Recreate, so that their
controllers create them again: with our gate.

kube-scheduler retries each pod that an extender refuses whenever any pod is bound or deleted, and looks at
each pod that waits without a gate at every change of any pod. A gated pod costs it next to nothing. The API
server lets nobody add a gate to a pod (docs/decisions/parked-by-filter.md).

A pod is deleted only if

- its queue is suspended or held, that stop is acknowledged, and the queue accepts pods: the new pod is gated
  by every replica, and refused by none;
- filter has refused it, and it is bound nowhere. The version of the pod that says so is a precondition of the
  deletion;
- it was created before the second in which the stop was acknowledged. So what is created again is not deleted
  again, even if it should come without the gate;
- its controller is a ReplicaSet or StatefulSet that is known here and wants replicas. A Job counts a deleted
  pod as failed; nobody creates a bare pod again; what other controllers do is not known;
- it names no PodGroup, whose controller may count it, and has no finalizer, by which somebody waits for it.

Disruption budgets do not matter: the eviction API does not ask them for a pending pod either.

Invariants
- At most `RECREATIONS` pods are deleted in a second, the oldest first; queues take turns.
- The decision and the leadership are read again just before each deletion.
- What is left is read from the pods, so a crash loses nothing and repeats nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from itertools import zip_longest

from cluster.cache.members import Member
from cluster.cache.workloads import Workload
from cluster.exceptions import Conflict, NotFound
from cluster.objects import Condition
from controller.context import ControllerContext, pod_path, pod_subject, queue_subject, workload_subject
from controller.pods.ungating import refused_by_us
from queues.apimachinery.timestamps import parse_timestamp
from queues.snapshot import QueueDecision
from queues.status.conditions import ACTIVE
from queues.verdict import CauseKind

#: Pods that are deleted in a second, and the seconds between two steps.
RECREATIONS, STEP_SECONDS = 50, 1.0
EVENT_REASON = "ParkedPodsRecreated"
#: The kinds of `apps` that create a pod again for each that is deleted, and count none as failed.
_KINDS = frozenset({"replicasets", "statefulsets"})
_STOPS = frozenset({CauseKind.SUSPENDED, CauseKind.STOPPED})


def recreates(decision: QueueDecision) -> bool:
    """Whether parked pods of the queue are to be created again, and would be gated then."""
    stop = decision.stop
    return decision.recreates_parked and decision.accepts and stop is not None and stop.kind in _STOPS


def may_be_recreated(member: Member, owner: Workload | None) -> bool:
    """Whether the pod is parked by filter and its controller creates it again. `owner`: its controller."""
    return (
        refused_by_us(member)
        and not member.leaving
        and not member.group
        and not member.finalizers
        and owner is not None
        and owner.live
        and owner.kind.key in _KINDS
        and owner.namespace == member.namespace
    )


def stopped_since(active: Condition | None, *, generation: int) -> datetime | None:
    """When the stop was acknowledged, to the second, as the queue's condition says; None if it does not."""
    if active is None or active.status != "False" or active.observed_generation != generation:
        return None
    return parse_timestamp(active.last_transition_time) if active.last_transition_time else None


class ParkedPodRecreation:
    """Owner: the controller's thread; the deletions run in the threads of the drains' writers."""

    def __init__(self, context: ControllerContext, *, is_acknowledged: Callable[[str], bool]) -> None:
        """`is_acknowledged`: whether the stop of a queue is, for the specs that there are now."""
        self._context = context
        self._store = context.store
        self._is_acknowledged = is_acknowledged
        #: The queues that may have such pods.
        self._queues: set[str] = set()
        #: The pods whose deletion is under way, by UID.
        self._under_way: set[str] = set()
        #: When the next step is due, in monotonic seconds.
        self.due = math.inf

    def consider(self, queue: str, members: Iterable[Member]) -> None:
        """Take note of a queue whose members have changed."""
        if recreates(self._store.snapshot.decision(queue)) and any(map(self._may_be_recreated, members)):
            self._queues.add(queue)
            self.due = min(self.due, self._store.clock.monotonic())

    def step(self) -> None:
        """Delete the next pods, if that is due."""
        now = self._store.clock.monotonic()
        if now < self.due:
            return
        self.due = now + STEP_SECONDS
        parked = {queue: self._parked_in(queue) for queue in sorted(self._queues)}
        self._queues = {queue for queue, members in parked.items() if members is None or members}
        free = RECREATIONS - len(self._under_way)
        for member in _in_turns(members for members in parked.values() if members):
            if free <= 0:
                break
            free -= self._delete(member)
        if not self._queues:
            self.due = math.inf

    def forget(self) -> None:
        """Forget everything: another replica leads."""
        self._queues.clear()
        self.due = math.inf

    def _parked_in(self, queue: str) -> list[Member] | None:
        """The pods that are left to be deleted, the oldest first; None if that is to be asked again later."""
        snapshot, obj = self._store.snapshot, self._store.queues.get(queue)
        if obj is None or not recreates(snapshot.decision(queue)):
            return []
        since = stopped_since(obj.status.condition(ACTIVE), generation=obj.metadata.generation)
        if since is None or not self._is_acknowledged(queue):
            return None
        parked = [
            member
            for member in self._store.members.waiting_in(queue)
            if member.created < since and self._may_be_recreated(member)
        ]
        return sorted(parked, key=lambda member: member.created)

    def _may_be_recreated(self, member: Member) -> bool:
        if not member.owner_uid or not recreates(self._decision(member)):
            return False
        return may_be_recreated(member, self._store.workloads.by_uid(member.owner_uid))

    def _decision(self, member: Member) -> QueueDecision:
        return self._store.decision_for(member.queue, namespace=member.namespace)

    def _delete(self, member: Member) -> bool:
        """Returns False where that is under way already, or backs off."""
        if member.uid in self._under_way:
            return False
        revision = self._decision(member).revision
        submitted = self._context.submit(
            self._context.drain_writers,
            ("recreate", member.uid),
            partial(self._send, member, revision),
            partial(self._receive, member),
            rank=(2,),
            queue=member.queue,
            subject=pod_subject(member),
            batched=True,
            lane=("recreate", member.namespace),
        )
        if submitted:
            self._under_way.add(member.uid)
        return submitted

    def _send(self, member: Member, revision: str) -> bool:
        """In a writer's thread. Returns whether the pod was deleted."""
        decision = self._decision(member)
        if not self._context.leading() or not recreates(decision) or decision.revision != revision:
            return False
        preconditions = {"uid": member.uid, "resourceVersion": str(member.version)}
        try:
            self._context.client.delete(pod_path(member), {"preconditions": preconditions})
        except (NotFound, Conflict):  # it is gone, or has changed: it is looked at again
            return False
        return True

    def _receive(self, member: Member, deleted: bool | None) -> None:
        self._under_way.discard(member.uid)
        if not deleted:
            return
        decision = self._decision(member)
        text = f"pods that waited without the gate are deleted, and created again with it: {decision.text}"
        record, key = self._context.recorder.record, f"workloads/{member.queue}"
        work = self._store.workloads.top_of(member.owner_uid, namespace=member.namespace)
        if work is not None:
            record(workload_subject(work), reason=EVENT_REASON, message=text, rate_limit_key=key)
        obj = self._store.queues.get(member.queue)
        if obj is not None:
            record(queue_subject(obj), reason=EVENT_REASON, message=text)


def _in_turns(queues: Iterable[list[Member]]) -> Iterator[Member]:
    """The first of each queue, then the second of each, and so on."""
    return (member for turn in zip_longest(*queues) for member in turn if member is not None)
