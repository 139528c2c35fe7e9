"""Where guarantees are more than a capability: `queues.quota.exceeded_guarantees` for each snapshot once.

Owner: the controller's thread.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.cache.store import Store
from queues.quota.exceeded_guarantees import exceeded_capabilities, guarantees_condition
from queues.quota.guarantees import lending_queues
from queues.snapshot import QueueSnapshot
from queues.status.conditions import DerivedCondition


class ExceededGuarantees:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshot: QueueSnapshot | None = None
        self._exceeded: Mapping[str, tuple[str, ...]] = {}

    def condition(self, queue: str) -> DerivedCondition | None:
        """Condition GuaranteesMet of the queue; None where it has none."""
        snapshot = self._store.snapshot
        if snapshot is not self._snapshot:
            lending = lending_queues(snapshot.tree, schedules=lambda name: snapshot.decision(name).schedules)
            self._exceeded = exceeded_capabilities(snapshot.tree, lending=lending)
            self._snapshot = snapshot
        return guarantees_condition(queue, self._exceeded.get(queue, ()))
