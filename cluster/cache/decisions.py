"""What the queues decide for a namespace.

Invariants
- Readers take no lock and do no I/O: the snapshot and the labels of a namespace are single look-ups.
- Without a selector on its chain a queue decides the same for each namespace: no labels are read.
"""

from __future__ import annotations

from cluster.cache.namespaces import Namespaces
from cluster.cache.queues import NamespaceDecisions, QueueCache
from queues.snapshot import QueueDecision


class Decisions:
    """Owner: the store. Threads: any."""

    def __init__(self, *, queues: QueueCache, namespaces: Namespaces) -> None:
        self._queues = queues
        self._namespaces = namespaces
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
