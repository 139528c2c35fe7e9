"""Whom a pod may push aside: those that kube-scheduler chose, or nobody.

A pod whose queue does not schedule, or does not select its namespace, gets no victims. Without this it would
evict others for nothing, since nodes without room never reach filter.
"""

from __future__ import annotations

from cluster.cache.store import Store
from extender.wire import PreemptArgs, PreemptResult


def preempt(args: PreemptArgs, *, store: Store) -> PreemptResult:
    """The answer to one preempt call; before the first sync nobody is evicted."""
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
