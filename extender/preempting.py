"""The preempt verb: which of the nodes that kube-scheduler could clear for a pod are left to it.

| the pod                                           | its nodes                                           |
|---------------------------------------------------|-----------------------------------------------------|
| is in no queue                                    | all                                                 |
| may not start (`queues.start_decision`)           | none: filter would refuse it there                  |
| has a scheduling policy                           | those whose every victim it may have                |
|                                                   | (`queues.policies.victims`)                         |
| has none                                          | all                                                 |

Without this verb a stopped pod would evict others for nothing: kube-scheduler does not send nodes without
room to filter.

kube-scheduler names victims by UID, since our entry in its configuration is `nodeCacheCapable`:

| a victim                                   | is judged by                                               |
|--------------------------------------------|------------------------------------------------------------|
| that is a member                           | what is stored of it                                       |
| that is none                               | whether it is system-critical (`cluster.cache.system_pods`) |
| that is sent as a whole pod, and no member | its namespace, priority and priority class                 |

Invariants
- No I/O and no lock. A request takes as long as it names victims, as there are queues below those that lend,
  and as there are pods in the gangs of victims: each share and each gang is computed once for each request,
  however many nodes it names, and however many victims other pods were given.
- Victims of other queues that a pod was given count as taken until they are seen leaving, or it is clear that
  they stay (`cluster.inflight.victims`): several pods at once take no more than one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.objects import Pod
from extender.wire import MetaVictims, PreemptArgs, PreemptResult
from queues.apimachinery.pod_requests import pod_requests
from queues.apimachinery.quantities import Amount
from queues.policies.model import Policy
from queues.policies.resolution import Resolution
from queues.policies.victims import CRITICAL_PRIORITY, Preemptor, Victim, VictimRules
from queues.quota.started_gangs import StartedGang
from queues.world.members import is_released
from queues.world.trimming import NAME


def preempt(args: PreemptArgs, *, store: Store) -> PreemptResult:
    """The answer to one preempt call; before the first sync no pod is evicted."""
    if not store.synced:
        return PreemptResult({})
    membership = store.memberships.of_pod(args.Pod)
    if membership is None:
        return PreemptResult(args.victims())
    if membership.queue is None:
        return PreemptResult({})
    return PreemptResult(_allowed(args, membership.queue, store=store))


def _allowed(args: PreemptArgs, queue: str, *, store: Store) -> dict[str, MetaVictims]:
    """The nodes that are left to a pod of the queue."""
    meta, decisions = args.Pod.metadata, store.decisions
    member = store.members.get(meta.namespace, meta.name)
    if member is not None and member.uid != meta.uid:
        member = None
    start = (
        decisions.of_member(member, queue, released=is_released(meta))
        if member is not None
        else decisions.of_pod(args.Pod, queue)
    )
    if not start.may_start:
        return {}
    resolution = _resolution(args.Pod, member, queue, store=store)
    if resolution.policy is None:
        return args.victims()
    priority = member.priority if member is not None else args.Pod.spec.priority or 0
    preemptor = Preemptor(queue=queue, priority=priority, requests=_requests(args.Pod, member))
    return _allowed_nodes(args, preemptor, resolution.policy, store=store)


def _requests(pod: Pod, member: Member | None) -> Mapping[str, Amount]:
    return dict(member.requests if member is not None else pod_requests(pod.spec))


def _resolution(pod: Pod, member: Member | None, queue: str, *, store: Store) -> Resolution:
    """The policy of the pod as it is stored, else as the call describes it."""
    if member is not None:
        return store.pod_policies.of_member(member, queue)
    meta = pod.metadata
    return store.pod_policies.of_pod(queue, namespace=meta.namespace, annotations=meta.annotations)


def _allowed_nodes(
    args: PreemptArgs, preemptor: Preemptor, policy: Policy, *, store: Store
) -> dict[str, MetaVictims]:
    uid, sent = args.Pod.metadata.uid, args.victims()
    gangs = _Gangs(store)
    rules = VictimRules(
        policy,
        preemptor,
        store.queue_shares(asks=uid),
        gangs=gangs.started,
        given=partial(store.given_to_others, asks=uid),
    )
    allowed: dict[str, MetaVictims] = {}
    given: dict[str, list[Victim]] = {}
    for node in sent:
        victims = _victims(args, node, store=store, gangs=gangs)
        if rules.denial(victims) is None:
            allowed[node] = sent[node]
            given[node[:NAME]] = _given(victims, preemptor.queue)
    store.given_victims.record(uid, given)
    return allowed


class _Gangs:
    """The gangs of the victims of one request, each read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: dict[tuple[str, str], str] = {}
        self._gangs: dict[str, StartedGang] = {}

    def started(self, uid: str) -> StartedGang | None:
        return self._gangs.get(uid)

    def uid_of(self, member: Member) -> str:
        """The UID of its PodGroup; "" where it goes by itself."""
        if not member.podgroup:
            return ""
        key = member.namespace, member.podgroup
        if key not in self._keys:
            gang = self._store.started_gang(*key)
            self._keys[key] = gang.uid if gang is not None else ""
            if gang is not None:
                self._gangs[gang.uid] = gang
        return self._keys[key]


def _given(victims: list[Victim], queue: str) -> list[Victim]:
    """What is remembered of the victims that a pod of the queue was given."""
    others = [victim for victim in victims if victim.queue not in {"", queue}]
    of_gangs = [victim for victim in victims if victim.gang and victim.queue == queue]
    return others + [msgspec.structs.replace(victim, requests={}) for victim in of_gangs]


def _victims(args: PreemptArgs, node: str, *, store: Store, gangs: _Gangs) -> list[Victim]:
    """The victims of a node."""
    by_uid = store.members.by_uid
    if args.NodeNameToMetaVictims:
        return [
            _member_victim(member, store, gangs)
            if (member := by_uid(each.UID)) is not None
            else _other_victim(each.UID, store)
            for each in args.NodeNameToMetaVictims[node].Pods or ()
        ]
    return [
        _member_victim(member, store, gangs)
        if (member := by_uid(pod.metadata.uid)) is not None
        else _whole_victim(pod)
        for pod in (args.NodeNameToVictims or {})[node].Pods or ()
    ]


def _member_victim(member: Member, store: Store, gangs: _Gangs) -> Victim:
    return Victim(
        name=member.name,
        uid=member.uid,
        namespace=member.namespace,
        queue=member.queue,
        priority=member.priority,
        priority_class=member.priority_class,
        requests=dict(member.requests),
        gang=gangs.uid_of(member),
        is_preemptable=store.is_preemptable(member),
    )


def _whole_victim(pod: Pod) -> Victim:
    return Victim(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        priority=pod.spec.priority or 0,
        priority_class=pod.spec.priority_class_name or "",
    )


def _other_victim(uid: str, store: Store) -> Victim:
    """A pod of no queue, of which nothing is known but whether it is system-critical."""
    return Victim(name=uid, priority=CRITICAL_PRIORITY if store.system_pods.is_protected(uid) else 0)
