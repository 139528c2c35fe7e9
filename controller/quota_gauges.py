"""Sets the gauges of quotas: what queues use, their capabilities, and how many pods wait for room.

Invariants
- Users choose how many queues there are, and what resources they name: at most `RESOURCES` resources of a
  queue have series, those of each cluster first, and at most `SERIES` series of each gauge are there. Of too
  many queues those near `root` come first. How many series were left out is a gauge itself.
- A queue without a quota has no series, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cluster.cache.store import Store
from cluster.metrics import Metrics
from controller.status.quota_status import own_use
from queues.apimachinery.quantities import Amount
from queues.quota.devices import shared_counts
from queues.quota.ledger import ALL_PODS, AmountReason, Ledger
from queues.quota.report import sorted_resources
from queues.quota.usage import PODS, Usage

#: Resources of a queue that have series.
RESOURCES = 10
#: Series of one gauge.
SERIES = 2000


def set_quota_gauges(store: Store, metrics: Metrics) -> None:
    """Set each gauge to what the store has now. A queue whose quota is gone has no series any more."""
    snapshot = store.snapshot
    for gauge in (metrics.quota_used, metrics.quota_capability, metrics.quota_waiting):
        gauge.clear()
    queues = [name for name in snapshot.tree if snapshot.decision(name).has_quota]
    used, waiting = _counted(queues, store)
    series = left_out = 0
    for name in sorted(queues, key=lambda queue: (snapshot.tree.depth(queue), queue)):
        capability = dict(snapshot.tree.queues[name].capability or ())
        resources = list(_resources(capability, used.used(name)))
        room = min(len(resources), RESOURCES, SERIES - series)
        for resource in resources[:room]:
            metrics.quota_used.labels(name, resource).set(float(used.used(name).get(resource, 0)))
            if resource in capability:
                metrics.quota_capability.labels(name, resource).set(float(capability[resource]))
        if room:
            metrics.quota_waiting.labels(name).set(float(waiting.used(name).get(PODS, 0)))
        series += room
        left_out += len(resources) - room
    metrics.quota_left_out.set(left_out)


def _counted(queues: list[str], store: Store) -> tuple[Usage, Usage]:
    """What is used, and how many pods wait, of each queue with all below it."""
    tree = store.snapshot.tree
    used, waiting = Ledger(tree, claims=shared_counts(store.device_claims)), Ledger(tree)
    for name in (*queues, *tree.former):
        use = own_use(name, store)
        used.set_all(name, AmountReason.USED, {ALL_PODS: use.used.items()})
        waiting.set_all(name, AmountReason.USED, {ALL_PODS: ((PODS, use.waiting),)})
    return used.usage, waiting.usage


def _resources(capability: Mapping[str, Amount], used: Mapping[str, Amount]) -> Iterator[str]:
    """Those that its own capability names, then others that are used."""
    yield from sorted_resources(capability)
    yield from sorted_resources(name for name, amount in used.items() if amount and name not in capability)
