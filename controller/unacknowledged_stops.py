"""Since when the oldest stop is known that is not acknowledged, for the metric and its alert.

Each replica judges by the statuses alone, as any reader does (`queues.status.stop_status`): so it is said
also while no leader writes statuses, or one hangs.

Invariants
- A queue counts from the look that saw its stop first until one that sees it acknowledged, or undone.
- A queue that is acknowledged anew between two looks, for other specs, counts anew.
- Nothing is asked of the API server.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.cache.store import Store
from cluster.objects import QueueObject
from queues.snapshot import QueueSnapshot
from queues.status.conditions import ACTIVE


class UnacknowledgedStops:
    """Owner: the controller's thread."""

    def __init__(self) -> None:
        #: By queue: the seconds since 1970 at which its stop was seen first.
        self._since: dict[str, float] = {}

    def oldest(self, store: Store) -> float | None:
        """Look at all queues; return since when the oldest stop is known, None without one."""
        pending = unacknowledged(store.snapshot, store.queues)
        now = store.clock.now().timestamp()
        self._since = {queue: self._since.get(queue, now) for queue in pending}
        return min(self._since.values(), default=None)


def unacknowledged(snapshot: QueueSnapshot, queues: Mapping[str, QueueObject]) -> list[str]:
    """The queues that do not schedule and whose status does not say that this is acknowledged."""
    return [
        name
        for name in snapshot.tree
        if not snapshot.decision(name).schedules
        and (obj := queues.get(name)) is not None
        and not is_acknowledged(obj, snapshot)
    ]


def is_acknowledged(obj: QueueObject, snapshot: QueueSnapshot) -> bool:
    """Whether the status says that the stop holds, for the specs of the chain as they are here."""
    active, stop = obj.status.condition(ACTIVE), obj.status.stop
    if active is None or active.status != "False" or stop is None or not stop.scope:
        return False
    chain = [(queue.name, queue.generation) for queue in snapshot.tree.chain(obj.metadata.name).queues]
    return chain == [(link.name, link.generation) for link in stop.chain or ()]
