"""The filter verb: a pod may go to all nodes that were sent, or to none.

Invariants
- A member that may not start (`queues.start_decision`) fails on every node, as unresolvable, with the text of
  that decision: constant for its queue and cause.
- A pass is recorded before the snapshot that decides is read: before `store.decisions` is asked. So a stop
  that is published and then finds no open pass knows that no answer from the earlier snapshot is still under
  way.
- Not synced is an explicit error: kube-scheduler keeps the pod and tries again.
- For a pod that is known, what is known counts, whatever the call says of it; a call with another UID is not
  from the pod's scheduler. At most `MAX_UNKNOWN_PODS` pods that are not known yet have a pass at a time, and
  each such pass is dropped once the store has every pod that existed when it was recorded
  (`SettlingBinds.drop_settled`).
- No call moves the pass of a pod to another queue, or to another pod of the same name, or drops it for one.
  What a call says of an unknown pod's policy drops no pass either: another caller may have got it.
- An answer has at most `ANSWER_BYTES` beside the names, which the size of the call limits.

======================================  =========================================
the pod                                 the answer
======================================  =========================================
is in no queue                          every name that was sent
is a member that may start              every name, and a pass is open
is a member that may not start          no name; the decision's text for each
has another UID than the pod that we    an error: our watch, or the caller, is
know, or let pass, by that name         behind
is one of too many that we do not know  an error
======================================  =========================================
"""

from __future__ import annotations

from cluster.cache.store import Store
from cluster.exceptions import Unreadable
from cluster.objects import Pod
from extender.wire import FilterArgs, FilterResult
from queues.world.members import is_released
from queues.world.trimming import NAME

#: A stop's text is repeated for each node: more than 40,000 nodes with the longest there is.
ANSWER_BYTES = 24 * 1024 * 1024

TOO_MANY = "too many pods that sluice does not know yet are being scheduled; try again"
ANOTHER = "sluice knows another pod by this name; try again once its watch has caught up"
NOT_SYNCED = "sluice has not read the cluster yet; it answers as soon as it has"


def filter_nodes(args: FilterArgs, *, store: Store) -> FilterResult:
    """The answer to one filter call. Raises `Unreadable` for more nodes than can be answered."""
    if not store.synced:
        return FilterResult(Error=NOT_SYNCED)
    try:
        text = refusal(args.Pod, store=store)
    except _Unknown as exc:
        return FilterResult(Error=str(exc))
    names = args.NodeNames or []
    if text is None:
        return FilterResult(NodeNames=names)
    if len(names) * len(text.encode()) > ANSWER_BYTES:
        raise Unreadable(f"NodeNames: {len(names)} are more than can be answered")
    return FilterResult(FailedAndUnresolvableNodes=dict.fromkeys(names, text))


class _Unknown(Exception):
    """The pod is not known, and the call cannot be trusted; kube-scheduler is to try again."""


def refusal(pod: Pod, *, store: Store) -> str | None:
    """Why the pod may go to no node now; None lets it pass, with a recorded pass if it is a member."""
    member = store.members.get(pod.metadata.namespace, pod.metadata.name)
    if member is None:
        return _refusal_of_unknown(pod, store=store)
    if member.uid != pod.metadata.uid:
        raise _Unknown(ANOTHER)
    queue = member.queue
    if not queue:  # it waited for its PodGroup, or does so still
        membership = store.memberships.of_pod(pod)
        if membership is None:
            return None
        if membership.queue is None:
            return store.decisions.of_member(member).text
        queue = membership.queue
    queue = queue[:NAME]
    passes = store.bind_passes
    passes.record_filter_pass(namespace=member.namespace, name=member.name, queue=queue, uid=member.uid)
    # kube-scheduler may have seen before us that it was released; and it asks about no pod with a gate.
    start = store.decisions.of_member(member, queue, released=is_released(pod.metadata))
    if start.may_start:
        return None
    passes.record_filter_refusal(member.namespace, member.name)
    return start.text


def _refusal_of_unknown(pod: Pod, *, store: Store) -> str | None:
    """The same for a pod that is not known, as the call describes it. Raises `_Unknown`."""
    meta, passes = pod.metadata, store.bind_passes
    membership = store.memberships.of_pod(pod)
    if membership is None:
        return None
    if membership.queue is None:
        return store.decisions.of_place(None, namespace=meta.namespace, podgroup=membership.podgroup).text
    if passes.is_full(len(store.members)):
        raise _Unknown(TOO_MANY)
    queue = membership.queue[:NAME]  # a call may be made up, and the name is kept for a while
    missing = store.pod_policies.missing_for_pod(pod, queue)
    if missing is None and not passes.record_unknown_filter_pass(
        namespace=meta.namespace, name=meta.name, queue=queue, uid=meta.uid
    ):
        raise _Unknown(ANOTHER)
    start = store.decisions.of_place(
        queue, namespace=meta.namespace, missing=missing, released=is_released(meta)
    )
    if start.may_start:
        return None
    if missing is None:
        passes.record_filter_refusal(meta.namespace, meta.name)
    return start.text
