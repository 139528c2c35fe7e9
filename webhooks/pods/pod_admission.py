"""The mutating webhook for pods, on CREATE.

A call goes decode (`webhooks.review`), membership (`queues.membership`), acceptance (`webhooks.acceptance`),
patch (`webhooks.pods.pod_patch`), encode (`webhooks.review`), in this order: `mutate` has the middle three.

==========================================  ===============================================================
the queue of the pod                        the pod gets
==========================================  ===============================================================
none                                        our own keys removed
schedules and accepts                       annotation, label, marker
does not schedule                           annotation, label, marker, a gate; a warning
schedules; the pod has nodeName             annotation, label, marker; affinity to the node, not its name
has a quota                                 the gate of quotas, beside the rest; a warning if it can never
                                            have room (`webhooks.never_fits`)
has node groups                             node affinity to them, beside the rest (`queues.node_groups`)
does not schedule; the pod has nodeName     a denial: the API forbids a gate beside nodeName
does not exist                              annotation, label, marker, a gate; a warning
does not accept                             a denial, unless the pod is part of work that it had accepted
does not select the namespace               a denial, unless it is part of such work; then also a gate
selects by labels that are not known yet    annotation, label, marker, a gate; with nodeName a denial
is of a workload that asks for a gang       the PodGroup of that workload (`queues.workload_gangs`)
is that of a PodGroup that does not exist   an empty label, marker, a gate; a warning; the controller sets
                                            its queue later
==========================================  ===============================================================

The marker is that of mode `extender`; `queues.mode` says what a member gets in its place in the others.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from cluster.cache.store import Store
from cluster.inflight.admissions import admission_request
from cluster.objects import Pod
from queues import well_known
from queues.causes import no_podgroup
from queues.membership import Membership, NamingMetadata, Source, submitted_pod_membership, valid_name
from queues.messages import truncate_warning, two_names_warning, waiting_warning
from queues.metadata.findings import PlacedMetadata, findings
from queues.metadata.keys import Place
from queues.metadata.warnings import metadata_warnings
from queues.node_groups import NodeGroups
from queues.workload_gangs import OWNERS, WorkloadGang, parse_gang, podgroup_name
from queues.world.members import controller_reference
from webhooks.acceptance import Submission, accept, deny_bad_name, deny_unknown_namespace
from webhooks.json_patch import PatchStep, join_patches
from webhooks.never_fits import pod_warnings
from webhooks.pods.pod_patch import (
    add_gates,
    has_gate,
    remove_marker,
    remove_queue,
    set_affinity,
    set_gang,
    set_queue,
    set_scheduling_mode,
    set_waiting,
)
from webhooks.review import ReviewAnswer, ReviewRequest, decode_object, deny
from webhooks.schedulers import names_unseen
from webhooks.settings import AdmissionSettings

_pods = msgspec.json.Decoder(Pod)


class _PodOfGang(NamedTuple):
    """A pod whose workload asks for a gang. `membership`: by the PodGroup, which the leader makes."""

    gang: WorkloadGang
    membership: Membership


class _Admission(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod is admitted. `queue`: "" for a pod of no queue, and while its PodGroup does not exist.

    `admission`: the value of `sluice.dev/admission`.
    """

    member: bool
    queue: str = ""
    admission: str = ""
    gates: tuple[str, ...] = ()
    groups: NodeGroups | None = None
    warnings: tuple[str, ...] = ()


def mutate(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the mutating webhook on CREATE."""
    pod = decode_object(request.object, _pods)
    facts = store.memberships.pod_facts(pod, submitted_to=request.namespace)
    membership = submitted_pod_membership(
        facts, rules=store.membership_settings, podgroup=store.podgroups.queue_of
    )
    gang = _gang(pod, membership, facts.namespace, store=store)
    membership = gang.membership if gang else membership
    admission = _accept(pod, membership, request, store=store, settings=settings)
    if isinstance(admission, ReviewAnswer):
        return admission
    scored = admission.member and _is_scored(pod, admission.queue, request.namespace, store=store)
    patch = _patch(pod, admission, scored=scored, settings=settings)
    if gang is not None and admission.member:
        patch = join_patches(patch, set_gang(pod, gang.gang, podgroup=gang.membership.podgroup))
    warnings = (
        *admission.warnings,
        *_two_names_warnings(pod, request.namespace, store=store),
        *_metadata_warnings(pod, store=store),
    )
    if admission.member and controller_reference(pod.metadata.owner_references) is None:
        warnings += names_unseen([pod.spec.scheduler_name], store=store, settings=settings)
    return ReviewAnswer(patch=patch, warnings=warnings)


def _gang(pod: Pod, membership: Membership | None, namespace: str, *, store: Store) -> _PodOfGang | None:
    """The gang that the workload of the pod asks for; None for a pod of none, and where its queue takes
    nothing new: then it is denied, or is of work that was accepted, and goes by itself.
    """
    written = parse_gang(pod.metadata.annotation(well_known.GANG))
    owner = controller_reference(pod.metadata.owner_references)
    if written is None or owner is None or owner.kind not in OWNERS or membership is None:
        return None
    name = podgroup_name(owner.uid)
    if not name or not membership.queue or membership.podgroup:
        return None
    queue = store.podgroups.queue_of(namespace, name)
    if queue is None and not store.decisions.of_queue(membership.queue, namespace=namespace).accepts:
        return None
    gang = WorkloadGang(written.least, membership.queue)
    return _PodOfGang(gang, Membership(queue, Source.PODGROUP, name))


def _two_names_warnings(pod: Pod, namespace: str, *, store: Store) -> tuple[str, ...]:
    """For a label and an annotation that name two queues; as for a workload."""
    if controller_reference(pod.metadata.owner_references) is not None:
        return ()
    given = NamingMetadata(pod.metadata.labels or {}, pod.metadata.annotations or {})
    names = store.memberships.overruled_name(given, namespace=namespace)
    return (two_names_warning(names),) if names is not None else ()


def _metadata_warnings(pod: Pod, *, store: Store) -> tuple[str, ...]:
    """For labels and annotations of Volcano and Kueue; who wrote a workload was told of its pods' then."""
    if controller_reference(pod.metadata.owner_references) is not None:
        return ()
    placed = PlacedMetadata(Place.POD, pod.metadata.labels or {}, pod.metadata.annotations or {})
    return metadata_warnings(findings([placed], kueue=store.membership_settings.kueue))


def _is_scored(pod: Pod, queue: str, namespace: str, *, store: Store) -> bool:
    """Whether the policy of the pod prefers some nodes to others, or may do so once its queue is known.

    `queue`: "" while its PodGroup does not exist. A marker cannot be added later.
    """
    if queue not in store.snapshot.tree:
        return store.policies.policies.scores
    annotations = pod.metadata.annotations
    resolution = store.pod_policies.of_pod(queue, namespace=namespace, annotations=annotations)
    return resolution.policy is not None and resolution.policy.scores


def _accept(
    pod: Pod,
    membership: Membership | None,
    request: ReviewRequest,
    *,
    store: Store,
    settings: AdmissionSettings,
) -> _Admission | ReviewAnswer:
    if membership is None:
        return _accept_without_queue(pod, request, store=store)
    if membership.queue is None:
        return _accept_without_podgroup(pod, membership.podgroup, store=store)
    if not valid_name(membership.queue):
        return deny_bad_name(membership.queue, where=membership.source)
    return _accept_member(pod, membership, membership.queue, request, store=store, settings=settings)


def _accept_member(
    pod: Pod,
    membership: Membership,
    queue: str,
    request: ReviewRequest,
    *,
    store: Store,
    settings: AdmissionSettings,
) -> _Admission | ReviewAnswer:
    submission = Submission(
        queue=queue,
        kind="pods",
        references=pod.metadata.owner_references,
        podgroup=membership.podgroup,
        recorded_admission=admission_request(pod.metadata),
    )
    accepted = accept(submission, request, store=store, settings=settings)
    if isinstance(accepted, ReviewAnswer):
        return accepted
    start = store.decisions.by_queue(accepted.decision)
    quota: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    if accepted.decision.has_quota:
        quota = (well_known.QUOTA_GATE,)
        never = pod_warnings(pod, queue, request, store=store, settings=settings)
    if not start.keeps_gate:
        return _Admission(
            member=True,
            queue=accepted.queue,
            admission=accepted.admission,
            gates=quota,
            warnings=never,
            groups=accepted.decision.node_groups,
        )
    if pod.spec.node_name:
        store.admissions.withdraw(request.uid)
        if accepted.decision.undecided:
            return deny_unknown_namespace(request)
        return _deny_node_name(start.text)
    return _Admission(
        member=True,
        queue=accepted.queue,
        admission=accepted.admission,
        gates=(well_known.GATE, *quota),
        groups=accepted.decision.node_groups,
        warnings=(*accepted.warnings, *never),
    )


def _accept_without_queue(pod: Pod, request: ReviewRequest, *, store: Store) -> _Admission | ReviewAnswer:
    """A pod of no queue. With our gate it would wait for good, since no controller removes that gate."""
    if not store.namespaces.is_known(request.namespace):
        return deny_unknown_namespace(request)
    for gate in sorted(well_known.OWN_GATES):
        if has_gate(pod, gate):
            return deny(
                f'spec.schedulingGates: "{gate}" is put on by sluice alone, '
                "and this pod is of no queue; remove it",
                code=422,
            )
    return _Admission(member=False)


def _accept_without_podgroup(pod: Pod, podgroup: str, *, store: Store) -> _Admission | ReviewAnswer:
    if pod.spec.node_name:
        return _deny_node_name(store.decisions.by_queue(None, podgroup=podgroup).text)
    warning = truncate_warning(waiting_warning(no_podgroup(podgroup)))
    return _Admission(member=True, gates=(well_known.GATE,), warnings=(warning,))


def _deny_node_name(text: str) -> ReviewAnswer:
    return deny(f"a pod with spec.nodeName would run at once: {text}")


def _patch(
    pod: Pod, admission: _Admission, *, scored: bool, settings: AdmissionSettings
) -> tuple[PatchStep, ...]:
    if not admission.member:
        return join_patches(remove_queue(pod), remove_marker(pod))
    if admission.queue:
        queue = set_queue(pod, admission.queue, admission=admission.admission)
    else:
        queue = set_waiting(pod)
    patch = join_patches(queue, set_scheduling_mode(pod, scored=scored, settings=settings))
    if admission.gates:
        patch = join_patches(patch, add_gates(pod, admission.gates))
    if pod.spec.node_name or admission.groups is not None:
        return join_patches(patch, set_affinity(pod, admission.groups))
    return patch
