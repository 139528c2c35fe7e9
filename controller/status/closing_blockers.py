"""What keeps a Closing queue from being Closed: a live member, as far as the cache knows one."""

from __future__ import annotations

from cluster.cache.podgroups import is_live
from cluster.cache.store import Store
from cluster.cache.workloads import Workload
from queues.states import State
from queues.verdict import Verdict


def closing_blocker(store: Store, verdict: Verdict) -> str:
    """For condition Accepting; empty where the queue accepts, or is Closed."""
    if verdict.refusal is None or verdict.state is State.CLOSED:
        return ""
    for queue in sorted(store.snapshot.tree.subtree(verdict.queue)):
        name = _keeper(store, queue)
        if name:
            others = " and others" if store.live_members_of(queue) > 1 else ""
            return f"kept from Closed by {name}{others} of queue {queue}"
    return "what was admitted before may still come"


def _keeper(store: Store, queue: str) -> str:
    """A live member, the first that is found: rather what its user made than what that made."""
    works = (one for one in store.workloads.live_in(queue) if store.selects(queue, one.namespace))
    work = next((one for one in works if not _is_part(store, one)), None)
    if work is not None:
        return _readable(store, work.uid, str(work))
    groups = (one for one in store.podgroups.in_queue(queue) if store.selects(queue, one.metadata.namespace))
    group = next((one for one in groups if is_live(one)), None)
    if group is not None:
        name = f"podgroup {group.metadata.namespace}/{group.metadata.name}"
        return _readable(store, group.metadata.uid, name)
    pods = (one for one in store.members.in_queue(queue) if store.selects(queue, one.namespace))
    pod = next((one for one in pods if one.live), None)
    return _readable(store, pod.uid, f"pod {pod.namespace}/{pod.name}") if pod else ""


def _readable(store: Store, uid: str, name: str) -> str:
    """The name, and what of the object cannot be read: that may be why it keeps the queue."""
    fault = store.unreadable.fault_of(uid)
    return f"{name} (it cannot be read in full: {fault})" if fault else name


def _is_part(store: Store, work: Workload) -> bool:
    """Whether another workload made it, and is the one to name."""
    top = store.workloads.top_of(work.uid, namespace=work.namespace)
    return top is not None and top.uid != work.uid
