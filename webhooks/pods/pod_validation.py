"""The validating webhook for pods, on CREATE and UPDATE.

On CREATE it is called after every mutating webhook. It denies a pod that is not as ours had answered, since
another webhook changed it afterwards:

| its label | the pod is denied if                                                                |
|-----------|-------------------------------------------------------------------------------------|
| a value   | it has a node's name, or its annotation `sluice.dev/queue` is of another queue      |
| ""        | it has a node's name, such an annotation, or not our gate                           |
| absent    | what it names makes it a member, or it has our annotation or gate; its namespace    |
|           | alone makes it one, and does so for longer than a moment (`LabelChanges.is_recent`) |
|           | or, for now, of a queue that is stopped or takes nothing new                        |

The entry for pods without the label in namespaces that name a queue has a path of its own: by it the API
server says that the namespace names one, whatever else is on the pod. A replica that knows of none is late,
and denies such a pod for now (`validate_unlabelled`).

On UPDATE of a member, the queue that was written down stays. So does the gate of stops while
`queues.start_decision` says so, or while its queue has a quota, and the gate of quotas always. So does what
says that it was released, until it is on a node. A member that was released is not made larger in place, in
what its quota limits. What the controller itself writes is always allowed.
"""

from __future__ import annotations

import msgspec

from cluster.cache.store import Store
from cluster.objects import Pod
from queues import well_known
from queues.apimachinery.pod_requests import pod_requests
from queues.membership import (
    MIRROR_ANNOTATION,
    NAMING_ANNOTATIONS,
    NAMING_LABELS,
    Membership,
    Source,
    fits_label,
    submitted_pod_membership,
)
from queues.text import quoted
from queues.world.members import holds_room
from webhooks.pods.pod_patch import has_gate
from webhooks.review import ALLOWED, ReviewAnswer, ReviewRequest, decode_object, deny
from webhooks.settings import AdmissionSettings

_pods = msgspec.json.Decoder(Pod)


def validate(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the validating webhook."""
    if request.operation == "CREATE":
        return _validate_create(request, store=store)
    if request.user_info.username == settings.own_user:
        return ALLOWED
    before = decode_object(request.old_object, _pods, where="oldObject")
    after = decode_object(request.object, _pods)
    return (
        _deny_moved(before, after)
        or _deny_renamed(before, after, store=store)
        or _deny_release(before, after)
        or _deny_mark(before, after)
        or (_deny_growth(before, after, store=store) if request.sub_resource == "resize" else None)
        or (_validate_ungating(before, store=store) if has_gate(before) and not has_gate(after) else ALLOWED)
    )


def validate_unlabelled(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the validating webhook for pods without the label, in namespaces that name a queue."""
    answer = validate(request, store=store, settings=settings)
    return _deny_early(request) if answer.allowed and _is_late(request.namespace, store=store) else answer


def _is_late(namespace: str, *, store: Store) -> bool:
    """Whether we do not know yet which queue the namespace names.

    Not so where no namespace's queue counts: in one that is exempt, or not managed as far as we know.
    """
    if (
        namespace in store.membership_settings.exempt_namespaces
        or store.memberships.is_managed(namespace) is False
    ):
        return False
    return not store.namespaces.queue_for_submission(namespace)


def _validate_create(request: ReviewRequest, *, store: Store) -> ReviewAnswer:
    pod = decode_object(request.object, _pods)
    if MIRROR_ANNOTATION in (pod.metadata.annotations or {}):
        return ALLOWED
    label = (pod.metadata.labels or {}).get(well_known.QUEUE)
    if label is None:
        return _deny_unlabelled(pod, request, store=store) or ALLOWED
    if pod.spec.node_name:
        return _deny_changed("spec.nodeName", "put this pod on a node", way_out="or use node affinity")
    annotation = pod.metadata.annotation(well_known.QUEUE)
    if (annotation or label) and not fits_label(annotation, label):
        return _deny_changed(f"metadata[{well_known.QUEUE}]", "gave this pod another queue")
    if not (label or has_gate(pod)):
        return _deny_changed("spec.schedulingGates", f'removed "{well_known.GATE}" from this pod')
    return ALLOWED


def _deny_unlabelled(pod: Pod, request: ReviewRequest, *, store: Store) -> ReviewAnswer | None:
    """Without the label no replica sees a member until the leader finds it: its queue's stops miss it."""
    if pod.metadata.annotation(well_known.QUEUE):
        return _deny_changed(f"metadata.labels[{well_known.QUEUE}]", "removed this label")
    facts = store.memberships.pod_facts(pod, submitted_to=request.namespace)
    membership = submitted_pod_membership(
        facts, rules=store.membership_settings, podgroup=store.podgroups.queue_of
    )
    if membership is not None:
        if not (membership.source is Source.NAMESPACE and store.label_changes.is_recent(request.namespace)):
            way_out = "or name the queue in the pod"
            return _deny_changed(membership.source, "made this pod a member", way_out=way_out)
        if not _is_found_in_time(membership, request.namespace, store=store):
            return _deny_early(request)
    for gate in sorted(well_known.OWN_GATES):
        if has_gate(pod, gate):
            return _deny_changed("spec.schedulingGates", f'put "{gate}" on this pod')
    return None


def _is_found_in_time(membership: Membership, namespace: str, *, store: Store) -> bool:
    """Whether it does no harm that the pod is a member without the label until the leader finds it.

    Its namespace has just come to name the queue: the mutating webhook may not have known that, and the
    leader lists the pods of such a namespace. In a queue that is stopped the pod could be bound before.
    """
    if membership.queue is None:
        return False
    decisions, queue = store.decisions, membership.queue
    accepts = decisions.of_queue(queue, namespace=namespace).accepts
    return accepts and decisions.of_place(queue, namespace=namespace).may_start


def _deny_early(request: ReviewRequest) -> ReviewAnswer:
    """A replica that was asked about the pod did not know what its namespace names."""
    namespace = quoted(request.namespace, limit=80)
    return deny(
        f"the queue that namespace {namespace} names is not known to all of sluice yet; try again", code=503
    )


def _deny_changed(place: str, what: str, *, way_out: str = "") -> ReviewAnswer:
    before = "have that webhook's configuration come before"
    return deny(
        f"{place}: another webhook {what} after sluice had been asked; "
        + (f"{before}, {way_out}" if way_out else before)
    )


def _deny_release(before: Pod, after: Pod) -> ReviewAnswer | None:
    """The leader alone releases pods that wait for room, and writes down each (`controller.quota`)."""
    if not has_gate(before, well_known.QUOTA_GATE) or has_gate(after, well_known.QUOTA_GATE):
        return None
    return deny(
        f'spec.schedulingGates: "{well_known.QUOTA_GATE}" cannot be removed: the pod waits for room in its '
        "queue's capability, or for sluice to release it"
    )


def _deny_mark(before: Pod, after: Pod) -> ReviewAnswer | None:
    """With it filter and the guard would let a pod pass that no quota has room for. One that lost it would
    not count, and could be bound by what is under way.
    """
    if before.spec.node_name or holds_room(before.metadata) == holds_room(after.metadata):
        return None
    place = f"metadata.labels[{well_known.RELEASED}]"
    return deny(f"{place}: sluice alone says that a quota has room for a pod")


def _deny_growth(before: Pod, after: Pod, *, store: Store) -> ReviewAnswer | None:
    """A pod that was released is not made larger in what its quota limits: nobody has counted that.

    One that still waits may be: it is released at the version that it has then.
    """
    membership = store.memberships.of_pod(before)
    queue = membership.queue if membership is not None else None
    tree = store.snapshot.tree
    if not queue or queue not in tree or any(has_gate(before, gate) for gate in well_known.OWN_GATES):
        return None
    requested, wanted = dict(pod_requests(before.spec)), dict(pod_requests(after.spec))
    for each in tree.chain(queue).queues:
        for resource, _ in each.capability or ():
            if wanted.get(resource, 0) > requested.get(resource, 0):
                return deny(
                    f"spec.containers: queue {quoted(each.name)} has a capability of {resource}, so a pod "
                    "that was released is not made larger in place; create it anew with these requests"
                )
    return None


def _deny_moved(before: Pod, after: Pod) -> ReviewAnswer | None:
    """No edit changes the queue that admission wrote down."""
    for place, old, new in (
        (
            "annotations",
            before.metadata.annotation(well_known.QUEUE),
            after.metadata.annotation(well_known.QUEUE),
        ),
        # An empty label says that the pod waits for its PodGroup: it is not the same as none.
        (
            "labels",
            (before.metadata.labels or {}).get(well_known.QUEUE),
            (after.metadata.labels or {}).get(well_known.QUEUE),
        ),
    ):
        if old != new:
            return deny(
                f"metadata.{place}[{well_known.QUEUE}]: a pod's queue cannot be changed under it "
                f'(it is "{old or ""}"); delete the pod and create it in the other queue'
            )
    return None


def _deny_renamed(before: Pod, after: Pod, *, store: Store) -> ReviewAnswer | None:
    """No queue is written down on a pod that waits for its PodGroup: the keys that name its queue stay."""
    if before.metadata.label(well_known.QUEUE) or _naming_values(before) == _naming_values(after):
        return None
    if store.memberships.of_pod(before) is None and store.memberships.of_pod(after) is None:
        return None
    return deny(
        "metadata: what names a pod's PodGroup or queue cannot be changed under it; "
        "delete the pod and create it anew"
    )


def _naming_values(pod: Pod) -> list[str]:
    """The values of all keys by which a pod names its queue."""
    meta = pod.metadata
    return [*map(meta.annotation, NAMING_ANNOTATIONS), *map(meta.label, NAMING_LABELS)]


def _validate_ungating(pod: Pod, *, store: Store) -> ReviewAnswer:
    membership = store.memberships.of_pod(pod)
    if membership is None:
        return ALLOWED
    start = store.decisions.of_place(
        membership.queue, namespace=pod.metadata.namespace, podgroup=membership.podgroup
    )
    if start.keeps_gate:
        return deny(f'spec.schedulingGates: "{well_known.GATE}" cannot be removed: {start.text}')
    if membership.queue and store.snapshot.decision(membership.queue).has_quota:
        return deny(
            f'spec.schedulingGates: "{well_known.GATE}" cannot be removed: queue {quoted(membership.queue)} '
            "has a capability, so sluice releases its pods"
        )
    return ALLOWED
