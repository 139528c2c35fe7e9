"""The filter verb: a pod may go to all nodes that were sent, or to none.

Invariants
- A pod whose queue does not schedule fails on every node, as unresolvable, with one constant
  text for its queue and cause.
- A pass is recorded before the snapshot is read. So a stop that is published and then finds no open pass
  knows that no answer from the earlier snapshot is still under way.
- A member whose scheduling policy has no action for it fails on every node likewise, with one text for its
  queue and policy. No policy: nothing is forbidden.
- Not synced is an explicit error: kube-scheduler keeps the pod and tries again.
- For a pod that is known, what is known counts, whatever the call says of it; a call with another UID is not
  from the pod's scheduler. At most `MAX_UNKNOWN_PODS` pods that are not known yet have a pass at a time, and
  each such pass is dropped once the store has every pod that existed when it was recorded
  (`Store.drop_settled_passes`).
- No call moves the pass of a pod to another queue, or to another pod of the same name, or drops it for one.
  What a call says of an unknown pod's policy drops no pass either: another caller may have got it.
- A queue's text is the one in its status, where that is for the same specs. So replicas of different versions
  give the same text; with each change of the text kube-scheduler would try the pod again.
- An answer has at most `ANSWER_BYTES` beside the names, which the size of the call limits.

======================================  =========================================
the pod                                 the answer
======================================  =========================================
is in no queue                          every name that was sent
is in a queue that schedules            every name, and a pass is open
is in a queue that schedules, and its   no name; the queue's and policy's text for each
policy lacks the action for it
is in a queue that does not schedule    no name; the queue's text for each
is of a namespace it does not select    no name; one text for each
waits for a PodGroup that is missing    no name; the PodGroup's text for each
has another UID than the pod that we    an error: our watch, or the caller, is
know, or let pass, by that name         behind
is one of too many that we do not know  an error
======================================  =========================================
"""

from __future__ import annotations

from cluster.cache.members import Member
from cluster.cache.pod_requests import pod_requests
from cluster.cache.store import Store
from cluster.cache.trimming import NAME
from cluster.exceptions import Unreadable
from cluster.objects import Pod
from extender.wire import FilterArgs, FilterResult
from queues.causes import Cause, CauseKind, MissingAction
from queues.membership import Membership, Source
from queues.messages import missing_action_text, stop_text
from queues.policies.actions import missing_action

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
        text = rejection(args.Pod, store=store)
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


def rejection(pod: Pod, *, store: Store) -> str | None:
    """Why the pod may go to no node now; None lets it pass, with a recorded pass if it is a member."""
    meta = pod.metadata
    member = store.members.get(meta.namespace, meta.name)
    membership = _membership(pod, member, store=store)
    if membership is None:
        return None
    if membership.queue is None:
        return stop_text(Cause(kind=CauseKind.NO_PODGROUP, queue="", by=membership.podgroup))
    queue = membership.queue[:NAME]  # a call may be made up, and the name is kept for a while
    missing = _missing_action(pod, member, queue, store=store)
    if member is not None:
        store.bind_passes.record_filter_pass(
            namespace=meta.namespace, name=meta.name, queue=queue, uid=meta.uid
        )
    elif missing is None and not store.bind_passes.record_unknown_filter_pass(
        namespace=meta.namespace, name=meta.name, queue=queue, uid=meta.uid
    ):
        raise _Unknown(ANOTHER)
    decision = store.decisions.of_queue(queue, namespace=meta.namespace)
    if decision.schedules and missing is None:
        return None
    if member is not None or missing is None:
        store.bind_passes.record_filter_refusal(meta.namespace, meta.name)
    if decision.schedules and missing is not None:
        return missing_action_text(missing)
    return store.queue_cache.refusal_text(decision)


def _missing_action(pod: Pod, member: Member | None, queue: str, *, store: Store) -> MissingAction | None:
    """The action that the pod's policy lacks; of a pod that is not known, by what the call says of it."""
    if not store.policies.policies.entries:
        return None
    if member is not None:
        return store.pod_policies.missing_action(member, queue)
    meta = pod.metadata
    resolution = store.pod_policies.of_pod(queue, namespace=meta.namespace, annotations=meta.annotations)
    return missing_action(resolution, queue=queue, has_requests=bool(pod_requests(pod.spec)))


def _membership(pod: Pod, member: Member | None, *, store: Store) -> Membership | None:
    """The membership of the pod as it is stored, else as the call describes it. Raises `_Unknown`."""
    if member is None:
        membership = store.pod_membership(pod)
        full = store.bind_passes.is_full(len(store.members))
        if membership is not None and membership.queue is not None and full:
            raise _Unknown(TOO_MANY)
        return membership
    if member.uid != pod.metadata.uid:
        raise _Unknown(ANOTHER)
    if member.queue:
        return Membership(queue=member.queue, source=Source.WRITTEN, podgroup=member.podgroup)
    return store.pod_membership(pod)
