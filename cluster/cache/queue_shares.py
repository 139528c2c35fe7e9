"""What each queue uses and may keep, at one moment: computed for the queues that a request asks for.

| of a share | counts                                                                                     |
|------------|--------------------------------------------------------------------------------------------|
| allocated  | the members on nodes of the queue and of those below it that are neither finished nor      |
|            | being deleted, without the victims that other pods were given (`cluster.inflight.victims`) |
| the rest   | the spec of the queue itself                                                               |

A share is computed once. It takes as long as there are queues below it, and nothing else is computed.
"""

from __future__ import annotations

from cluster.cache.members import Members
from cluster.cache.queues import NO_LENDING, QueueCache
from cluster.inflight.victims import Taken
from queues.apimachinery.quantities import Amount
from queues.policies.victims import QueueShare


class QueueShares:
    """The shares for one request, on its thread. `taken`: by queue, what others were given."""

    def __init__(self, *, queues: QueueCache, members: Members, taken: Taken) -> None:
        self._tree = queues.snapshot.tree
        self._lending = queues.lending
        self._members = members
        self._taken = taken
        self._shares: dict[str, QueueShare | None] = {}

    def get(self, name: str, /) -> QueueShare | None:
        """The share of a queue; None for one that does not exist."""
        if name not in self._shares:
            self._shares[name] = self._share(name) if name in self._tree else None
        return self._shares[name]

    def _share(self, name: str) -> QueueShare:
        lending = self._lending.get(name, NO_LENDING)
        return QueueShare(
            name=name,
            ancestors=tuple(queue.name for queue in self._tree.chain(name).queues[1:]),
            allocated=self._allocated(name),
            deserved=lending.deserved,
            guarantee=lending.guarantee,
            reclaimable=lending.reclaimable,
            priority=lending.priority,
        )

    def _allocated(self, name: str) -> dict[str, Amount]:
        total: dict[str, Amount] = {}
        for queue in self._tree.subtree(name):
            counts = self._members.counts(queue)
            # Copied in one step each: the pod reflector's thread writes meanwhile.
            for amounts, sign in ((counts.allocated.copy(), 1), (counts.releasing.copy(), -1)):
                for resource, amount in amounts.items():
                    total[resource] = total.get(resource, 0) + sign * amount
            for resource, amount in self._taken.get(queue, {}).items():
                total[resource] = total.get(resource, 0) - amount
        return total
