"""The prioritize verb: which of the nodes the pod's scheduling policy prefers.

kube-scheduler calls it for pods that request `sluice.dev/scored`, which admission gives to the pods of a
scoring policy (our own kube-scheduler for each of its pods, `queues.mode`), and adds ten times the level
times the extender's weight to its own scores. The call is a connection of its own, so with several replicas
it comes to another one than the pod's filter call did.

| the pod                                         | the answer                                             |
|-------------------------------------------------|--------------------------------------------------------|
| is a member that waits and may be scheduled     | levels; it is assumed on the node that gets 10, if its |
|                                                 | requests are those that we know of it                  |
| is not known yet, and names a queue             | levels; it is assumed there for a short time           |
| has a policy that scores nothing, or none       | 0 for every node: kube-scheduler decides               |
| is on a node, or may not be scheduled           | 0 for every node                                       |
| has the name or the UID of another one          | 0 for every node                                       |
| any, until nodes and pods have been read        | 0 for every node                                       |

A new policy scores once nodes and pods have been read. Filter answers an error for a pod of such a policy
until then (`will_be_scored`), and kube-scheduler tries again after its back-off: a second at first.

A filter call begins an attempt: a pod that was assumed on a node did not go there. kube-scheduler asks for no
priorities where a single node is left, so a pod that filter lets through to one node is assumed there. A pod
that is deleted without having had a node counts until the watch shows that (`cluster.scoring.departures`).

A node that is not known gets a level as if nothing spoke for it. What a call leaves behind ends soon: a pod
that we know counts for `KNOWN_SECONDS` with the requests that we know of it; one that we do not know counts
for `UNKNOWN_SECONDS`, and of these there are `UNKNOWN_LIMIT` at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.decoding import decode_body
from cluster.exceptions import Unreadable
from cluster.objects import Metadata, Pod
from cluster.scoring.departures import forget_departed
from extender.wire import FilterArgs, FilterResult, HostPriority, PrioritizeArgs, prioritize_decoder
from queues import well_known
from queues.membership import fits_label
from queues.policies.model import Policy

#: How long a bind takes that waits for no volume, and how long a new pod is not known here.
KNOWN_SECONDS, UNKNOWN_SECONDS = 30.0, 5.0

NOT_READ_FOR_SCORES = (
    "sluice reads nodes and pods for the pod's scheduling policy; it answers as soon as it has"
)

if TYPE_CHECKING:  # numpy comes with it
    from cluster.scoring.node_scoring import NodeScoring


def prioritize(args: PrioritizeArgs, *, store: Store, scoring: NodeScoring | None) -> list[HostPriority]:
    """The answer to one prioritize call."""
    nodes, pod = args.NodeNames or [], args.Pod
    if scoring is None or not store.synced:
        return _indifferent(nodes)
    member = store.members.get(pod.metadata.namespace, pod.metadata.name)
    meta = pod.metadata
    policy = _policy_of_member(meta, member, store=store) if member else _policy_of_unknown(meta, store=store)
    if policy is None or not policy.scores:
        return _indifferent(nodes)
    exact, request = pod.amounts()
    if member is None:
        seconds = UNKNOWN_SECONDS if scoring.may_assume_unknown(seconds=UNKNOWN_SECONDS) else 0.0
    else:
        seconds = KNOWN_SECONDS if exact == member.requests else 0.0
    levels = scoring.levels(policy, nodes, pod, request, assumed_seconds=seconds)
    if member is not None:  # it may have gone meanwhile, before it was assumed
        forget_departed(meta.uid, store.members.by_uid(meta.uid), scoring=scoring)
    return list(map(HostPriority, nodes, levels))


def will_be_scored(pod: Pod, *, store: Store) -> bool:
    """Whether prioritize will be called for the pod of a filter call, and is to score nodes for it."""
    meta = pod.metadata
    resources = (container.resources for container in pod.spec.containers or ())
    if pod.spec.scheduler_name not in store.membership_settings.calling_schedulers and not any(
        needs is not None and well_known.SCORED in (needs.limits or {}) for needs in resources
    ):
        return False
    member = store.members.get(meta.namespace, meta.name)
    policy = _policy_of_member(meta, member, store=store) if member else _policy_of_unknown(meta, store=store)
    return policy is not None and policy.scores


def _policy_of_member(meta: Metadata, member: Member, *, store: Store) -> Policy | None:
    """The policy of a pod that we know and that may go to a node now; None for any other.

    Our own view of its gates may be a moment behind kube-scheduler's, so they do not count.
    """
    if member.uid != meta.uid or not member.waiting or member.leaving or not member.queue:
        return None
    if not store.decisions.of_member(member).may_start:
        return None
    return store.pod_policies.of_member(member, member.queue).policy


def _policy_of_unknown(meta: Metadata, *, store: Store) -> Policy | None:
    """The policy of a pod that we do not know yet, by what the call says; None if it is another one."""
    passed = store.bind_passes.filter_pass(meta.namespace, meta.name)
    if (passed is not None and passed.uid != meta.uid) or store.members.by_uid(meta.uid) is not None:
        return None
    queue = passed.queue if passed is not None else _queue_written_on(meta)
    if not queue or not store.decisions.of_place(queue, namespace=meta.namespace).may_start:
        return None
    return store.pod_policies.of_pod(queue, namespace=meta.namespace, annotations=meta.annotations).policy


def _queue_written_on(meta: Metadata) -> str:
    """The queue that admission wrote on a pod; "" where the annotation does not fit the label."""
    annotation, label = meta.annotation(well_known.QUEUE), (meta.labels or {}).get(well_known.QUEUE, "")
    return annotation if fits_label(annotation, label) else ""


def follow_filter(
    args: FilterArgs, result: FilterResult, *, body: bytes, store: Store, scoring: NodeScoring | None
) -> None:
    """Records what a filter call says of where its pod goes. `body`: the call, as it was sent."""
    if scoring is None or result.Error:
        return
    meta = args.Pod.metadata
    member = store.members.get(meta.namespace, meta.name)
    known = member or store.bind_passes.filter_pass(meta.namespace, meta.name)
    if known is None or known.uid != meta.uid:  # no such pod is assumed
        return
    if member is None and store.members.by_uid(meta.uid) is not None:  # the UID is another one's
        return
    scoring.drop_assumption(meta.uid)
    if len(result.NodeNames) == 1:
        with suppress(Unreadable):  # filter reads less of a pod
            prioritize(decode_body(body, prioritize_decoder), store=store, scoring=scoring)


def _indifferent(nodes: Sequence[str]) -> list[HostPriority]:
    return [HostPriority(node, 0) for node in nodes]
