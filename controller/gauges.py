"""Sets the gauges that follow from the store: pods, queues by state, stops and drains, objects that cannot be
read in full, and scheduling policies; `quota_gauges` has those of quotas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime

from cluster.cache.store import Store
from cluster.metrics import Metrics
from cluster.objects import QueueObject
from controller.context import ControllerContext
from controller.parts import Part
from controller.quota_gauges import set_quota_gauges
from controller.unacknowledged_stops import UnacknowledgedStops
from queues.causes import CauseKind
from queues.drain.progress import DRAINED, DrainedReason
from queues.policies.policy_set import PolicySet

#: Queues that have a series of their own in one gauge: users choose how many queues there are.
QUEUES = 200
#: The label of all others.
OTHER = "_other"
#: The reasons of condition `Drained` while it is False.
UNDER_WAY = tuple(reason for reason in DrainedReason if reason is not DrainedReason.DRAINED)


class Gauges(Part):
    """Owner: the controller's thread, of each replica."""

    name = "metrics"

    def __init__(self, context: ControllerContext, *, windows_overdue: Callable[[], int]) -> None:
        """`windows_overdue`: how many windows should have been begun or ended by now, and were not."""
        self._context = context
        self._windows_overdue = windows_overdue
        self._unacknowledged_stops = UnacknowledgedStops()

    def resync(self) -> None:
        store, metrics = self._context.store, self._context.metrics
        set_gauges(store, metrics, schedulers_ask=self._context.schedulers_ask)
        metrics.windows_overdue.set(self._windows_overdue())
        metrics.oldest_unacknowledged_stop.set(self._unacknowledged_stops.oldest(store))


def set_gauges(store: Store, metrics: Metrics, *, schedulers_ask: bool = True) -> None:
    """Set each gauge to what the store has now. A queue state that no queue is in any more has no series.

    `schedulers_ask`: whether schedulers call the extender. Else no member lacks its marker.
    """
    members = store.members
    waiting = (member for queue in store.snapshot.tree for member in members.waiting_in(queue))
    metrics.members.set(len(members))
    metrics.unguarded.set(sum(not member.filtered for member in waiting) if schedulers_ask else 0)
    metrics.orphans.set(
        sum(len(members.in_queue(queue)) for queue in members.queues() if _is_absent(store, queue))
    )
    set_quota_gauges(store, metrics)
    metrics.unmanaged.clear()
    for queue, unmanaged in largest(store.live_members.unmanaged_pods()).items():
        metrics.unmanaged.labels(queue).set(unmanaged)
    for kind, number in store.unreadable.counts().items():
        metrics.unreadable.labels(kind).set(number)
    metrics.queues.clear()
    for state, number in Counter(obj.status.state for obj in list(store.queues.values())).items():
        metrics.queues.labels(state).set(number)
    draining = Counter(map(_drained_reason, list(store.queues.values())))
    for reason in UNDER_WAY:
        metrics.draining_queues.labels(reason.value).set(draining[reason])


def largest(by_queue: Mapping[str, int], *, limit: int = QUEUES) -> dict[str, int]:
    """The `limit` queues with most, and the sum of the rest as `OTHER`."""
    ordered = sorted(by_queue, key=lambda queue: (-by_queue[queue], queue))
    rest = sum(by_queue[queue] for queue in ordered[limit:])
    return {queue: by_queue[queue] for queue in ordered[:limit]} | ({OTHER: rest} if rest else {})


def _drained_reason(obj: QueueObject) -> str:
    """The reason of its condition `Drained`; "" without the condition."""
    condition = obj.status.condition(DRAINED)
    return condition.reason if condition is not None else ""


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
