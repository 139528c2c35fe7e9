"""What the status of a queue says of its quota, counted from the members of it and of the queues below it.

It is what the watch shows: a release whose patch the watch has not shown yet is not in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from cluster.cache.store import Store
from queues.apimachinery.quantities import Amount
from queues.quota.devices import add_claims, add_classes, is_of_claims, shared_counts
from queues.quota.report import quota_report
from queues.quota.usage import PODS


class Use(NamedTuple):
    """What the pods of some queues take of quotas, `PODS` among it, and how many of them wait for room.

    Of one queue, the claims that pods may share are resources of their own (`queues.quota.devices`).
    """

    used: dict[str, Amount]
    waiting: int


def own_use(queue: str, store: Store) -> Use:
    """Pods of a queue that does not schedule wait for that."""
    counts = store.members.counts(queue)
    # Copied in one step: the pod reflector's thread writes meanwhile.
    used = {**counts.used.copy(), PODS: counts.using}
    decision = store.snapshot.decision(queue)
    if decision.limits_devices:
        add_classes(used, tuple(used.items()), store.device_claims)
        add_claims(used, counts.claims.copy().items(), store.device_claims)
    return Use(used, counts.held if decision.schedules else 0)


def use_below(queue: str, store: Store) -> Use:
    """That of the queue and of all below it. Takes as long as there are queues below it."""
    used: dict[str, Amount] = {}
    waiting = 0
    for name in store.snapshot.tree.subtree(queue):
        own = own_use(name, store)
        waiting += own.waiting
        for resource, amount in own.used.items():
            used[resource] = used.get(resource, 0) + amount
    count = shared_counts(store.device_claims)
    for claim in [resource for resource in used if is_of_claims(resource)]:
        del used[claim]
        for resource, amount in count(claim).amounts:  # once, however many share it
            used[resource] = used.get(resource, 0) + amount
    return Use(used, waiting)


def quota_fields(queue: str, store: Store, use: Use) -> dict[str, Any]:
    """`status.quota` in wire form, of a queue with a quota. `use`: its own and that of all below it."""
    chain = store.snapshot.tree.chain(queue).queues
    report = quota_report(chain, used=use.used, waiting=use.waiting)
    return msgspec.to_builtins(report)  # type: ignore[no-any-return]
