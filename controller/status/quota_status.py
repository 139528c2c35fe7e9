"""What the status of a queue says of its quota, counted from the members of it and of the queues below it.

It is what the watch shows: a release whose patch the watch has not shown yet is not in it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.cache.store import Store
from queues.apimachinery.quantities import Amount
from queues.quota.report import quota_report
from queues.quota.usage import PODS


def quota_fields(queue: str, store: Store) -> dict[str, Any]:
    """`status.quota` in wire form, of a queue with a quota. Takes as long as there are queues below it."""
    snapshot = store.snapshot
    used: dict[str, Amount] = {PODS: 0}
    waiting = 0
    for name in snapshot.tree.subtree(queue):
        counts = store.members.counts(name)
        used[PODS] += counts.using
        # Copied in one step: the pod reflector's thread writes meanwhile.
        for resource, amount in counts.used.copy().items():
            used[resource] = used.get(resource, 0) + amount
        if snapshot.decision(name).schedules:  # else they wait for the stop
            waiting += counts.held
    report = quota_report(snapshot.tree.chain(queue).queues, used=used, waiting=waiting)
    return msgspec.to_builtins(report)  # type: ignore[no-any-return]
