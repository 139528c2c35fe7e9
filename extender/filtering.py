"""Which nodes a pod may go to: all that were sent, or none.

Invariants
- A pod whose queue does not schedule fails on every node, as unresolvable, with one constant
  text for its queue and cause.
- A pass is recorded before the board is read: whoever publishes a stop and then finds no open
  pass knows that no answer given from the former board is still under way.
- Not synced is an explicit error: the scheduler keeps the pod and comes back.
- Of a pod that is known what is known counts, whatever the call says of it; a call that does not name its
  UID is none of its scheduler's. Of pods that are not known yet only so many have a pass at a time
  (`passes.STRANGERS`), and none for longer than it takes to know all pods (`Store.settle_passes`).
- No call moves the pass of a pod to another queue, gives it to a namesake, or has it forgotten for one.
- A queue's text is the one that its status holds, where that is for the same specs: replicas of different
  versions say the same, or kube-scheduler would try a pod again with each change of the text.
- An answer has at most `ANSWER_BYTES` beside the names, which the call itself bounds.

======================================  =========================================
the pod                                 the answer
======================================  =========================================
is none of our business                 every name it came with
is in a queue that schedules            every name, and a pass is open
is in a queue that does not             no name; the queue's text for each
is of a namespace it does not select    no name; one text for each
waits for a PodGroup that is not there  no name; the PodGroup's text for each
is another one than the one that we     an error: our watch, or the caller, is
know, or let through, by that name      behind
is one of too many that we do not know  an error
======================================  =========================================
"""

from __future__ import annotations

from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.exceptions import Unreadable
from cluster.objects import Pod
from extender.wire import FilterArgs, FilterResult
from queues.membership import Membership, Source
from queues.messages import stop_text
from queues.verdict import Cause, CauseKind

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
    """The pod is not known, and cannot be taken as it is told; for the scheduler to come back."""


def rejection(pod: Pod, *, store: Store) -> str | None:
    """Why the pod may go nowhere now; None lets it through, with a pass if it is a member."""
    meta = pod.metadata
    member = store.members.get(meta.namespace, meta.name)
    membership = _membership(pod, member, store=store)
    if membership is None:
        return None
    queue = membership.queue
    if queue is None:
        return stop_text(Cause(kind=CauseKind.NO_PODGROUP, queue="", by=membership.group))
    if member is not None:
        store.bind_passes.record_filter_pass(
            namespace=meta.namespace, name=meta.name, queue=queue, uid=meta.uid
        )
    elif not store.bind_passes.record_unknown_filter_pass(
        namespace=meta.namespace, name=meta.name, queue=queue, uid=meta.uid
    ):
        raise _Unknown(ANOTHER)
    ruling = store.decision_for(queue, namespace=meta.namespace)
    if ruling.schedules:
        return None
    store.bind_passes.record_filter_refusal(meta.namespace, meta.name)
    return store.refusal_text(ruling)


def _membership(pod: Pod, member: Member | None, *, store: Store) -> Membership | None:
    """Of the pod as it is known, or as it is told where it is not known yet. Raises `_Unknown`."""
    if member is None:
        told = store.pod_membership(pod)
        if told is not None and told.queue is not None and store.bind_passes.is_full:
            raise _Unknown(TOO_MANY)
        return told
    if member.uid != pod.metadata.uid:
        raise _Unknown(ANOTHER)
    if member.queue:
        return Membership(queue=member.queue, source=Source.WRITTEN, group=member.group)
    return store.pod_membership(pod)
