"""What the status of a queue says of its quota, counted from the members of it and of the queues below it.

It is what the watch shows: a release whose patch the watch has not shown yet is not in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from cluster.cache.store import Store
from queues.apimachinery.quantities import Amount
from queues.quota.report import quota_report
from queues.quota.usage import PODS


class OwnUse(NamedTuple):
    """What the pods of one queue take of quotas, `PODS` among it, and how many of them wait for room."""

    used: dict[str, Amount]
    waiting: int


def own_use(queue: str, store: Store) -> OwnUse:
    """Pods of a queue that does not schedule wait for that."""
    counts = store.members.counts(queue)
    # Copied in one step: the pod reflector's thread writes meanwhile.
    used = {**counts.used.copy(), PODS: counts.using}
    return OwnUse(used, counts.held if store.snapshot.decision(queue).schedules else 0)


def quota_fields(queue: str, store: Store) -> dict[str, Any]:
    """`status.quota` in wire form, of a queue with a quota. Takes as long as there are queues below it."""
    snapshot = store.snapshot
    used: dict[str, Amount] = {}
    waiting = 0
    for name in snapshot.tree.subtree(queue):
        own = own_use(name, store)
        waiting += own.waiting
        for resource, amount in own.used.items():
            used[resource] = used.get(resource, 0) + amount
    report = quota_report(snapshot.tree.chain(queue).queues, used=used, waiting=waiting)
    return msgspec.to_builtins(report)  # type: ignore[no-any-return]
