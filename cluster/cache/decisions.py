"""What the queues decide for a namespace, and whether a pod may start (`queues.start_decision`).

This gathers the values: what is stored of the pod, its queue, its namespace and its scheduling policy.

Invariants
- Readers take no lock and do no I/O: the snapshot and the labels of a namespace are single look-ups.
- Without a selector on its chain a queue decides the same for each namespace: no labels are read.
- Without scheduling policies none is looked up.
- Whether a quota has room for a pod is not decided here: the leader alone does, and writes it on the pod
  (`controller.quota`). A pod without a gate that it has not written on waits, in a queue with a quota.
- The text of a queue is the one in its status, where that is for the same specs. So replicas of different
  versions give the same text; with each change of the text kube-scheduler would try the pod again.
"""

from __future__ import annotations

from cluster.cache.members import Member
from cluster.cache.namespaces import Namespaces
from cluster.cache.pod_policies import PodPolicies
from cluster.cache.queues import NamespaceDecisions, QueueCache
from cluster.objects import Pod
from queues.causes import MissingAction, NoRoom
from queues.snapshot import QueueDecision
from queues.start_decision import StartDecision, start_decision
from queues.world.members import is_podgroup_made, is_released


class Decisions:
    """Owner: the store. Threads: any."""

    def __init__(self, *, queues: QueueCache, namespaces: Namespaces, policies: PodPolicies) -> None:
        self._queues = queues
        self._namespaces = namespaces
        self._policies = policies
        self._by_namespace = NamespaceDecisions()

    def of_queue(self, queue: str, *, namespace: str) -> QueueDecision:
        """Return what a queue decides for the members of a namespace.

        A queue neither accepts nor schedules members of a namespace that it does not select. Without a
        selector on its chain this is the queue's own decision.
        """
        decision = self._queues.snapshot.decision(queue)
        if not decision.restricted:
            return decision
        labels = self._namespaces.labels_of(namespace)
        return self._by_namespace.decision(decision, namespace=namespace, labels=labels)

    def selects(self, queue: str, namespace: str) -> bool:
        """Return whether the queue selects the namespace."""
        return self.of_queue(queue, namespace=namespace).selected

    def of_member(self, member: Member, queue: str = "", *, released: bool | None = None) -> StartDecision:
        """Return whether a stored member may start. `queue`: its queue, where that is not stored yet.

        `released`: whether its scheduler, which asks, has seen it released; it has no gate then. None: what
        is stored counts, and what a gate waits for is not asked.
        """
        missing = self._policies.missing_for_member(member, queue or member.queue)
        if released is None:
            released = not member.unreleased
        return self.of_place(
            queue or member.queue or None,
            namespace=member.namespace,
            podgroup=member.podgroup,
            made_by_leader=is_podgroup_made(member),
            missing=missing,
            released=released or member.released,
        )

    def of_pod(self, pod: Pod, queue: str) -> StartDecision:
        """Return whether a pod of the queue that is not stored may start, by what its caller says of it."""
        missing = self._policies.missing_for_pod(pod, queue)
        return self.of_place(
            queue,
            namespace=pod.metadata.namespace,
            missing=missing,
            released=is_released(pod.metadata),
        )

    def of_place(
        self,
        queue: str | None,
        *,
        namespace: str,
        podgroup: str = "",
        made_by_leader: bool = False,
        missing: MissingAction | None = None,
        released: bool = True,
    ) -> StartDecision:
        """Return whether any pod of this queue and namespace may start.

        `queue`: None while the PodGroup `podgroup` does not exist. `made_by_leader`: the leader creates it.
        `missing`: what the pod's policy lacks.
        `released`: whether a quota has room for it, or is not asked here.
        """
        decision = self.of_queue(queue, namespace=namespace) if queue is not None else None
        is_held = decision is not None and decision.has_quota and not released
        lack = NoRoom(queue=decision.queue, contact=decision.contact) if decision and is_held else None
        return self.by_queue(
            decision, podgroup=podgroup, made_by_leader=made_by_leader, missing=missing, lack=lack
        )

    def by_queue(
        self,
        decision: QueueDecision | None,
        *,
        podgroup: str = "",
        made_by_leader: bool = False,
        missing: MissingAction | None = None,
        lack: NoRoom | None = None,
    ) -> StartDecision:
        """The same where the decision of the queue for the namespace is known. The one place that asks.

        `lack`: why its quota has no room for it, as the leader knows.
        """
        text = "" if decision is None or decision.schedules else self._queues.refusal_text(decision)
        return start_decision(
            decision,
            podgroup=podgroup,
            made_by_leader=made_by_leader,
            missing=missing,
            lack=lack,
            text=text,
        )
