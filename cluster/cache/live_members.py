"""How much of a queue is live: what a close waits for, what a preview names, what the metrics show.

Live are members that have not ended: pods, PodGroups and workloads (`cluster.cache.members`, `.podgroups`,
`.workloads`). Members in namespaces that a queue does not select count for no close.

Threads: any; no lock, no I/O.
"""

from __future__ import annotations

from cluster.cache.decisions import Decisions
from cluster.cache.members import Members
from cluster.cache.memberships import Memberships
from cluster.cache.podgroups import PodGroups
from cluster.cache.queues import QueueCache
from cluster.cache.workloads import AllWorkloads
from queues.tree import Tree


class LiveMembers:
    """Owner: the store."""

    def __init__(
        self,
        *,
        queues: QueueCache,
        members: Members,
        podgroups: PodGroups,
        workloads: AllWorkloads,
        decisions: Decisions,
        memberships: Memberships,
    ) -> None:
        self._queues = queues
        self._members = members
        self._podgroups = podgroups
        self._workloads = workloads
        self._decisions = decisions
        self._memberships = memberships

    def below(self, queue: str, *, tree: Tree | None = None) -> int:
        """Return the live members of a queue and of those below it."""
        return sum(map(self.of, (tree or self._queues.snapshot.tree).subtree(queue)))

    def of(self, queue: str) -> int:
        """Return the live members of a queue alone, in the namespaces that it selects."""
        if not self._queues.snapshot.decision(queue).restricted:
            return sum(each.live([queue]) for each in (self._members, self._workloads, self._podgroups))
        kinds = (
            self._members.counts(queue).live_by_namespace,
            self._podgroups.counts(queue).live_by_namespace,
            self._workloads.live_by_namespace(queue),
        )
        return sum(self._selected(queue, live) for live in kinds)

    def pods_of(self, queue: str) -> int:
        """Return the live pods of a queue alone, in the namespaces that it selects."""
        return self._selected(queue, self._members.counts(queue).live_by_namespace)

    def pods_in(self, namespace: str) -> dict[str, int]:
        """Return the live pods of a namespace by queue."""
        counts = {queue: self._members.counts(queue).live_by_namespace for queue in self._members.queues()}
        return {queue: count[namespace] for queue, count in counts.items() if namespace in count}

    def unmanaged_pods(self) -> dict[str, int]:
        """Return the live pods in namespaces that are not managed, by queue; a queue without has no entry."""
        if self._memberships.settings.managed_namespaces is None:
            return {}
        found = {queue: self._unmanaged_pods_of(queue) for queue in self._members.queues()}
        return {queue: number for queue, number in found.items() if number}

    def _unmanaged_pods_of(self, queue: str) -> int:
        counts = list(self._members.counts(queue).live_by_namespace.items())
        return sum(number for name, number in counts if self._memberships.is_managed(name) is False)

    def pods_not_selected_of(self, queue: str) -> int:
        """Return the live pods of a queue alone, in the namespaces that it does not select."""
        if not self._queues.snapshot.decision(queue).restricted:
            return 0
        return self._members.counts(queue).live - self.pods_of(queue)

    def are_in(self, namespace: str, *, queue: str) -> bool:
        """Return whether the queue has a live object in the namespace."""
        counts = (self._members.counts(queue), self._podgroups.counts(queue))
        return any(namespace in count.live_by_namespace for count in counts) or (
            self._workloads.is_live_in(queue, namespace)
        )

    def _selected(self, queue: str, by_namespace: dict[str, int]) -> int:
        """Return how many of them are in namespaces that the queue selects."""
        return sum(
            number for name, number in list(by_namespace.items()) if self._decisions.selects(queue, name)
        )
