"""The prioritize verb: which of the nodes the pod's scheduling policy prefers.

kube-scheduler calls it for pods that request `sluice.dev/scored`, which admission gives to the pods of a
scoring policy, and adds ten times the level times the extender's weight to its own scores.

| the pod                                         | the answer                                             |
|-------------------------------------------------|--------------------------------------------------------|
| was not just let through by filter              | 0 for every node: kube-scheduler decides               |
| has a policy that scores nothing, or none       | 0 for every node                                       |
| any, until nodes and pods have been read        | 0 for every node                                       |
| was let through, and waits for a node           | levels; it is assumed on the node that gets 10         |
| was let through, and has a node by now          | levels; nothing is recorded                            |

A filter call begins an attempt: a pod that was assumed on a node did not go there. kube-scheduler asks for no
priorities where a single node is left, so a pod that filter lets through to one node is assumed there.

A node that is not known gets a level as if nothing spoke for it. What a call leaves behind ends soon: a pod
that we know counts with the requests that we know of it, another one for `UNKNOWN_SECONDS`, and of these
filter lets only so many through at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from cluster.cache.store import Store
from cluster.decoding import decode_body
from cluster.exceptions import Unreadable
from cluster.scoring.objects import ScoredPod
from extender.wire import FilterArgs, FilterResult, HostPriority, PrioritizeArgs, prioritize_decoder

#: How long a bind takes that waits for no volume, and how long a new pod is not known here.
KNOWN_SECONDS, UNKNOWN_SECONDS = 30.0, 5.0

if TYPE_CHECKING:  # numpy comes with it
    from cluster.scoring.node_scoring import NodeScoring


def prioritize(args: PrioritizeArgs, *, store: Store, scoring: NodeScoring | None) -> list[HostPriority]:
    """The answer to one prioritize call."""
    names, meta = args.NodeNames or [], args.Pod.metadata
    passed = store.bind_passes.filter_pass(meta.namespace, meta.name)
    if scoring is None or passed is None or passed.uid != meta.uid or not store.synced:
        return _indifferent(names)
    policy = store.policy_of_pod(
        passed.queue, namespace=meta.namespace, annotations=meta.annotations or {}
    ).policy
    if policy is None or not policy.scores:
        return _indifferent(names)
    levels = scoring.levels(policy, names, args.Pod, assumed_seconds=_assumed_seconds(args.Pod, store=store))
    return list(map(HostPriority, names, levels))


def follow_filter(
    args: FilterArgs, result: FilterResult, *, body: bytes, store: Store, scoring: NodeScoring | None
) -> None:
    """Records what a filter call says of where its pod goes. `body`: the call, as it was sent."""
    if scoring is None or result.Error:
        return
    meta = args.Pod.metadata
    member = store.members.get(meta.namespace, meta.name)
    known = member or store.bind_passes.filter_pass(meta.namespace, meta.name)
    if known is None or known.uid != meta.uid:  # no such pod is assumed; its UID may be another one's
        return
    scoring.begin_attempt(meta.uid)
    if len(result.NodeNames) == 1:
        with suppress(Unreadable):  # filter reads less of a pod
            prioritize(decode_body(body, prioritize_decoder), store=store, scoring=scoring)


def _indifferent(names: Sequence[str]) -> list[HostPriority]:
    return [HostPriority(name, 0) for name in names]


def _assumed_seconds(pod: ScoredPod, *, store: Store) -> float:
    """For how long the pod is assumed to go where it is sent now, if it is not seen there; 0: not at all."""
    meta = pod.metadata
    member = store.members.get(meta.namespace, meta.name)
    if member is None:
        return UNKNOWN_SECONDS
    waits = member.uid == meta.uid and not member.node and pod.requests() == member.requests
    return KNOWN_SECONDS if waits else 0.0
