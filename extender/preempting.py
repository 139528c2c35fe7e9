"""The preempt verb: a pod gets the victims that kube-scheduler chose, or none.

A pod whose queue does not schedule, or does not select its namespace, gets none. Without this verb it would
evict others for nothing: kube-scheduler does not send nodes without room to filter.
"""

from __future__ import annotations

from cluster.cache.store import Store
from extender.wire import PreemptArgs, PreemptResult


def preempt(args: PreemptArgs, *, store: Store) -> PreemptResult:
    """The answer to one preempt call; before the first sync no pod is evicted."""
    if not store.synced:
        return PreemptResult({})
    membership = store.pod_membership(args.Pod)
    if membership is None:
        return PreemptResult(args.victims())
    if membership.queue is None:
        return PreemptResult({})
    namespace = args.Pod.metadata.namespace
    if not store.decision_for(membership.queue, namespace=namespace).schedules:
        return PreemptResult({})
    return PreemptResult(args.victims())
