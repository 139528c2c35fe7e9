"""What quotas go by at this moment, beside the specs of queues (`queues.quota.rules`)."""

from __future__ import annotations

from cluster.cache.store import Store
from queues.queue import StoppedGuarantee
from queues.quota.rules import Rules
from queues.snapshot import QueueSnapshot


def rules_in_force(store: Store, snapshot: QueueSnapshot) -> Rules:
    """As the snapshot and what the store has say."""
    return Rules(lending=_lending_queues(snapshot))


def _lending_queues(snapshot: QueueSnapshot) -> frozenset[str]:
    """The queues that give their guarantees to others while they do not schedule."""
    return frozenset(
        name
        for name, queue in snapshot.tree.queues.items()
        if queue.stopped_guarantee is StoppedGuarantee.LEND and not snapshot.decision(name).schedules
    )
