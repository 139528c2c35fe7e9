"""Which nodes a pod may go to: all that were sent, or none.

Invariants
- A pod whose queue does not schedule fails on every node, as unresolvable, with one constant
  text for its queue and cause.
- A pass is recorded before the board is read: whoever publishes a stop and then finds no open
  pass knows that no answer given from the former board is still under way.
- Not synced is an explicit error: the scheduler keeps the pod and comes back.
- An answer has at most `ANSWER_BYTES` beside the names, which the call itself bounds.

======================================  =========================================
the pod                                 the answer
======================================  =========================================
is none of our business                 every name it came with
is in a queue that schedules            every name, and a pass is open
is in a queue that does not             no name; the queue's text for each
is of a namespace it does not select    no name; one text for each
waits for a PodGroup that is not there  no name; the PodGroup's text for each
======================================  =========================================
"""

from __future__ import annotations

from cluster.exceptions import Unreadable
from cluster.objects import Pod
from cluster.store import Store
from extender.wire import FilterArgs, FilterResult
from queues.texts import stop_text
from queues.verdict import Cause, Why

#: A stop's text is repeated for each node: more than 40,000 nodes with the longest there is.
ANSWER_BYTES = 24 * 1024 * 1024

NOT_SYNCED = "sluice has not read the cluster yet; it answers as soon as it has"


def filtered(args: FilterArgs, *, store: Store) -> FilterResult:
    """The answer to one filter call. Raises `Unreadable` for more nodes than can be answered."""
    if not store.synced:
        return FilterResult(Error=NOT_SYNCED)
    text = rejection(args.Pod, store=store)
    names = args.NodeNames or []
    if text is None:
        return FilterResult(NodeNames=names)
    if len(names) * len(text.encode()) > ANSWER_BYTES:
        raise Unreadable(f"NodeNames: {len(names)} are more than can be answered")
    return FilterResult(FailedAndUnresolvableNodes=dict.fromkeys(names, text))


def rejection(pod: Pod, *, store: Store) -> str | None:
    """Why the pod may go nowhere now; None lets it through, with a pass if it is a member."""
    membership = store.judge(pod)
    if membership is None:
        return None
    if membership.queue is None:
        return stop_text(Cause(why=Why.NO_PODGROUP, queue="", by=membership.group))
    meta = pod.metadata
    store.passes.filtered(namespace=meta.namespace, name=meta.name, queue=membership.queue, uid=meta.uid)
    ruling = store.ruling_for(membership.queue, namespace=meta.namespace)
    if ruling.schedules:
        return None
    store.passes.filter_refused(meta.namespace, meta.name)
    return ruling.text
