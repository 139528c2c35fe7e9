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
is that of a PodGroup that does not exist   an empty label, marker, a gate; a warning; the controller sets
                                            its queue later
==========================================  ===============================================================

The marker is that of mode `extender`; `queues.mode` says what a member gets in its place in the others.
"""

from __future__ import annotations

import msgspec

from cluster.cache.store import Store
from cluster.inflight.admissions import admission_request
from cluster.objects import Pod
from queues import well_known
from queues.causes import no_podgroup
from queues.membership import Membership, submitted_pod_membership, valid_name
from queues.messages import truncate_warning, waiting_warning
from queues.node_groups import NodeGroups
from webhooks.acceptance import Submission, accept, deny_bad_name, deny_unknown_namespace
from webhooks.json_patch import PatchStep, join_patches
from webhooks.never_fits import pod_warnings
from webhooks.pods.pod_patch import (
    add_gates,
    has_gate,
    remove_marker,
    remove_queue,
    set_affinity,
    set_queue,
    set_scheduling_mode,
    set_waiting,
)
from webhooks.review import Answer, Request, decode_object, deny
from webhooks.settings import AdmissionSettings

_pods = msgspec.json.Decoder(Pod)


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


def mutate(request: Request, *, store: Store, settings: AdmissionSettings) -> Answer:
    """The answer to the mutating webhook on CREATE."""
    pod = decode_object(request.object, _pods)
    facts = store.memberships.pod_facts(pod, submitted_to=request.namespace)
    membership = submitted_pod_membership(
        facts, rules=store.membership_settings, podgroup=store.podgroups.queue_of
    )
    admission = _accept(pod, membership, request, store=store, settings=settings)
    if isinstance(admission, Answer):
        return admission
    scored = admission.member and _is_scored(pod, admission.queue, request.namespace, store=store)
    patch = _patch(pod, admission, scored=scored, settings=settings)
    return Answer(patch=patch, warnings=admission.warnings)


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
    pod: Pod, membership: Membership | None, request: Request, *, store: Store, settings: AdmissionSettings
) -> _Admission | Answer:
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
    request: Request,
    *,
    store: Store,
    settings: AdmissionSettings,
) -> _Admission | Answer:
    submission = Submission(
        queue=queue,
        kind="pods",
        references=pod.metadata.owner_references,
        podgroup=membership.podgroup,
        recorded_admission=admission_request(pod.metadata),
    )
    accepted = accept(submission, request, store=store, settings=settings)
    if isinstance(accepted, Answer):
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


def _accept_without_queue(pod: Pod, request: Request, *, store: Store) -> _Admission | Answer:
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


def _accept_without_podgroup(pod: Pod, podgroup: str, *, store: Store) -> _Admission | Answer:
    if pod.spec.node_name:
        return _deny_node_name(store.decisions.by_queue(None, podgroup=podgroup).text)
    warning = truncate_warning(waiting_warning(no_podgroup(podgroup)))
    return _Admission(member=True, gates=(well_known.GATE,), warnings=(warning,))


def _deny_node_name(text: str) -> Answer:
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
