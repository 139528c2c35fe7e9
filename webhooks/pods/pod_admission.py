"""Pods: the queue is written down, the marker and the gate are put on, or the pod is refused.

On CREATE, for a member (of nobody else does anything change but that our own keys are taken off):

==================================  ===================================================
its queue                           what happens
==================================  ===================================================
schedules and accepts               annotation, label, marker
does not schedule                   the same, a gate, and a warning
schedules, pod has nodeName         the same, and affinity to the node in its place
does not schedule, pod has nodeName refused: the API forbids a gate beside it
is not there                        annotation, label, marker, a gate, and a warning
does not select its namespace       refused, but for pods of work that it had taken: those get a gate
may not select it: it is too new    annotation, label, marker, a gate; with nodeName refused
does not accept                     refused, but for pods of work that it had accepted
is a PodGroup's that is not there   a gate and a warning; answered when it comes
==================================  ===================================================

On CREATE, after every mutating webhook: a pod that became a member by another's hand, and was not asked
about again, is refused.

On UPDATE, of a member: the queue written down stays, and our gate stays while its queue does
not schedule. What the controller itself writes is always taken.
"""

from __future__ import annotations

import msgspec

from cluster.cache.members import is_marked
from cluster.cache.store import Store
from cluster.inflight.admissions import admission_request
from cluster.objects import Pod
from queues import labels as names
from queues.membership import (
    NAMING_ANNOTATIONS,
    NAMING_LABELS,
    Membership,
    label_value,
    submitted_pod_membership,
    valid_name,
)
from queues.messages import (
    stop_text,
    truncate_warning,
    waiting_warning,
)
from queues.verdict import Cause, CauseKind
from webhooks.acceptance import (
    Submission,
    accept_submission,
    admission_id,
    deny_bad_name,
    deny_unknown_namespace,
)
from webhooks.json_patch import (
    PatchStep,
    json_pointer,
    patch_map,
)
from webhooks.pods.node_affinity import replace_node_name
from webhooks.review import ALLOWED, Answer, Request, decode_object, deny, join_patches
from webhooks.settings import AdmissionSettings

_pods = msgspec.json.Decoder(Pod)


def mutate(request: Request, *, store: Store, terms: AdmissionSettings) -> Answer:
    """The answer to the mutating webhook on CREATE."""
    pod = decode_object(request.object, _pods)
    membership = submitted_pod_membership(
        store.pod_facts(pod, namespace=request.namespace), rules=store.rules, group=store.queue_of_podgroup
    )
    if membership is None:
        return (
            _stranger(pod) if store.is_namespace_known(request.namespace) else deny_unknown_namespace(request)
        )
    if membership.queue is None:
        return _without_group(pod, membership, terms=terms)
    if not valid_name(membership.queue):
        return deny_bad_name(membership.queue, where=membership.source)
    return _member(pod, request, membership, store=store, terms=terms)


def _member(
    pod: Pod, request: Request, membership: Membership, *, store: Store, terms: AdmissionSettings
) -> Answer:
    assert membership.queue is not None  # noqa: S101 - the caller has seen to it
    what = Submission(
        queue=membership.queue,
        kind="pods",
        references=pod.metadata.owner_references,
        group=membership.group,
    )
    ruling = accept_submission(what, request, store=store, terms=terms)
    if isinstance(ruling, Answer):
        return ruling
    if not ruling.schedules and pod.spec.node_name:
        store.admissions.withdraw(request.uid)
        if ruling.undecided:
            return deny_unknown_namespace(request)
        return deny(f"a pod with spec.nodeName would run at once: {ruling.text}")
    held = admission_request(pod.metadata)
    came = admission_id(request, held, queue=ruling.queue, store=store)
    patch = join_patches(written(pod, ruling.queue, came=came), marker(pod, terms=terms))
    if ruling.schedules:
        node = pod.spec.node_name
        return Answer(
            patch=join_patches(patch, replace_node_name(node, pod.spec.affinity)) if node else patch
        )
    return Answer(patch=join_patches(patch, gate(pod)), warnings=(ruling.warning,) if ruling.warning else ())


def _stranger(pod: Pod) -> Answer:
    """A pod of no queue: our own keys mean nothing on it, and our gate would never be lifted.

    With our marker it would wait whenever nobody of us answers.
    """
    if _gated(pod):
        return deny(
            f'spec.schedulingGates: "{names.GATE}" is put on by sluice alone, '
            "and this pod is of no queue; remove it",
            code=422,
        )
    return Answer(patch=join_patches(_taken_off(pod), _unmarked(pod)))


def _without_group(pod: Pod, membership: Membership, *, terms: AdmissionSettings) -> Answer:
    cause = Cause(kind=CauseKind.NO_PODGROUP, queue="", by=membership.group)
    if pod.spec.node_name:
        return deny(f"a pod with spec.nodeName would run at once: {stop_text(cause)}")
    patch = join_patches(_taken_off(pod), marker(pod, terms=terms), gate(pod))
    return Answer(patch=patch, warnings=(truncate_warning(waiting_warning(cause)),))


def _taken_off(pod: Pod) -> list[PatchStep]:
    ours: dict[str, str | None] = {names.QUEUE: None, names.ADMISSION: None}
    return [
        *patch_map("/metadata/annotations", pod.metadata.annotations, ours),
        *patch_map("/metadata/labels", pod.metadata.labels, {names.QUEUE: None}),
    ]


def _unmarked(pod: Pod) -> list[PatchStep]:
    steps = []
    for name, containers in (
        ("containers", pod.spec.containers),
        ("initContainers", pod.spec.init_containers),
    ):
        for number, container in enumerate(containers or ()):
            needs, place = container.resources, json_pointer("spec", name, number, "resources")
            if needs is not None:
                steps += patch_map(place + "/requests", needs.requests, {names.MARKER: None})
                steps += patch_map(place + "/limits", needs.limits, {names.MARKER: None})
    return steps


def written(pod: Pod, queue: str, *, came: str) -> list[PatchStep]:
    """The answer, written down over whatever the user put there, and by which request it came."""
    wanted = {names.QUEUE: queue, names.ADMISSION: came}
    return [
        *patch_map("/metadata/annotations", pod.metadata.annotations, wanted),
        *patch_map("/metadata/labels", pod.metadata.labels, {names.QUEUE: label_value(queue)}),
    ]


def marker(pod: Pod, *, terms: AdmissionSettings) -> list[PatchStep]:
    """The request that makes kube-scheduler call us, where its scheduler is configured to.

    Of another scheduler it is taken off: the pod would count as one that filter is asked about.
    """
    containers = pod.spec.containers or []
    if pod.spec.scheduler_name not in terms.marked_schedulers:
        return _unmarked(pod)
    if not containers or is_marked(pod):
        return []
    place = json_pointer("spec", "containers", 0, "resources")
    needs = containers[0].resources
    if needs is None:
        return [
            {
                "op": "add",
                "path": place,
                "value": {"requests": {names.MARKER: "1"}, "limits": {names.MARKER: "1"}},
            }
        ]
    return [
        *patch_map(place + "/requests", needs.requests, {names.MARKER: "1"}),
        *patch_map(place + "/limits", needs.limits, {names.MARKER: "1"}),
    ]


def gate(pod: Pod) -> list[PatchStep]:
    if _gated(pod):
        return []
    place = "/spec/schedulingGates"
    if pod.spec.scheduling_gates is None:
        return [{"op": "add", "path": place, "value": [{"name": names.GATE}]}]
    return [{"op": "add", "path": place + "/-", "value": {"name": names.GATE}}]


def _gated(pod: Pod) -> bool:
    return any(one.name == names.GATE for one in pod.spec.scheduling_gates or ())


def validate_create(request: Request, *, store: Store) -> Answer:
    """The answer to the validating webhook on CREATE: what is stored is what was answered."""
    pod = decode_object(request.object, _pods)
    membership = submitted_pod_membership(
        store.pod_facts(pod, namespace=request.namespace), rules=store.rules, group=store.queue_of_podgroup
    )
    if membership is None:
        return ALLOWED
    if pod.metadata.annotation(names.QUEUE) and pod.spec.node_name:
        return deny(
            "spec.nodeName: another webhook put this pod on a node after sluice had been asked; "
            "have that webhook's configuration come before, or use node affinity"
        )
    if pod.metadata.annotation(names.QUEUE) or _gated(pod):
        return ALLOWED
    return deny(
        f"{membership.source}: another webhook made this pod a member after sluice had been asked; "
        "have that webhook's configuration come before, or name the queue in the pod"
    )


def validate_update(request: Request, *, store: Store, terms: AdmissionSettings) -> Answer:
    """The answer to the validating webhook on UPDATE."""
    if request.user_info.username == terms.own_user:
        return ALLOWED
    before = decode_object(request.old_object, _pods, where="oldObject")
    after = decode_object(request.object, _pods)
    for place, held, wanted in (
        (
            "annotations",
            before.metadata.annotation(names.QUEUE),
            after.metadata.annotation(names.QUEUE),
        ),
        ("labels", before.metadata.label(names.QUEUE), after.metadata.label(names.QUEUE)),
    ):
        if held != wanted:
            return deny(
                f"metadata.{place}[{names.QUEUE}]: a pod's queue cannot be changed under it "
                f'(it is "{held}"); delete the pod and create it in the other queue'
            )
    concerned = store.pod_membership(before) is not None or store.pod_membership(after) is not None
    if not held and concerned and _names_of(before) != _names_of(after):
        return deny(
            "metadata: what names a pod's PodGroup or queue cannot be changed under it; "
            "delete the pod and create it anew"
        )
    if _gated(before) and not _gated(after):
        return _ungated(before, store=store)
    return ALLOWED


def _names_of(pod: Pod) -> list[str]:
    """All by which it says whose it is."""
    meta = pod.metadata
    return [*map(meta.annotation, NAMING_ANNOTATIONS), *map(meta.label, NAMING_LABELS)]


def _ungated(pod: Pod, *, store: Store) -> Answer:
    membership = store.pod_membership(pod)
    if membership is None:
        return ALLOWED
    if membership.queue is None:
        return deny(stop_text(Cause(kind=CauseKind.NO_PODGROUP, queue="", by=membership.group)))
    ruling = store.decision_for(membership.queue, namespace=pod.metadata.namespace)
    if ruling.schedules:
        return ALLOWED
    return deny(f'spec.schedulingGates: "{names.GATE}" cannot be removed: {ruling.text}')
