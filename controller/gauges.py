"""Sets the gauges that follow from the store: pods, queues by state, objects that cannot be read in full, and
scheduling policies; `quota_gauges` has those of quotas.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from cluster.cache.store import Store
from cluster.metrics import Metrics
from controller.quota_gauges import set_quota_gauges
from queues.causes import CauseKind
from queues.policies.policy_set import PolicySet


def set_gauges(store: Store, metrics: Metrics) -> None:
    """Set each gauge to what the store has now. A queue state that no queue is in any more has no series."""
    members = store.members
    waiting = (member for queue in store.snapshot.tree for member in members.waiting_in(queue))
    metrics.members.set(len(members))
    metrics.unguarded.set(sum(not member.filtered for member in waiting))
    metrics.orphans.set(
        sum(len(members.in_queue(queue)) for queue in members.queues() if _is_absent(store, queue))
    )
    set_quota_gauges(store, metrics)
    metrics.unmanaged.clear()
    for queue, unmanaged in store.live_members.unmanaged_pods().items():
        metrics.unmanaged.labels(queue).set(unmanaged)
    for kind, number in store.unreadable.counts().items():
        metrics.unreadable.labels(kind).set(number)
    metrics.queues.clear()
    for state, number in Counter(obj.status.state for obj in list(store.queues.values())).items():
        metrics.queues.labels(state).set(number)


def set_policy_gauges(policies: PolicySet, metrics: Metrics, *, now: datetime) -> None:
    """Set the gauges of the scheduling policies, which were read `now`."""
    broken = sum(entry.problem is not None for entry in policies.entries.values())
    metrics.policies.labels("broken").set(broken)
    metrics.policies.labels("ok").set(len(policies.entries) - broken)
    if policies.entries and not broken:
        metrics.policies_read.set(now.timestamp())


def _is_absent(store: Store, queue: str) -> bool:
    """Return whether there is no such queue; members without a queue are in queue ""."""
    stop = store.snapshot.decision(queue).stop
    return not queue or (stop is not None and stop.kind is CauseKind.NOT_FOUND)
