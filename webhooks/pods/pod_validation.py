"""The validating webhook for pods, on CREATE and UPDATE.

On CREATE it is called after every mutating webhook. It denies a pod that is not as ours had answered, since
another webhook changed it afterwards:

| its label | the pod is denied if                                                                |
|-----------|-------------------------------------------------------------------------------------|
| a value   | it has a node's name, or its annotation `sluice.dev/queue` is of another queue      |
| ""        | it has a node's name, such an annotation, or not our gate                           |
| absent    | what it names makes it a member, or it has our annotation or gate; its namespace    |
|           | alone makes it one, and does so for longer than a moment (`LabelChanges.is_recent`) |
|           | or of a queue that is stopped or takes nothing new                                  |

On UPDATE of a member, the queue that was written down stays, and so does our gate while
`queues.start_decision` says so. What the controller itself writes is always allowed.
"""

from __future__ import annotations

import msgspec

from cluster.cache.store import Store
from cluster.objects import Pod
from queues import well_known
from queues.membership import (
    MIRROR_ANNOTATION,
    NAMING_ANNOTATIONS,
    NAMING_LABELS,
    Membership,
    Source,
    fits_label,
    submitted_pod_membership,
)
from webhooks.pods.pod_patch import has_gate
from webhooks.review import ALLOWED, Answer, Request, decode_object, deny
from webhooks.settings import AdmissionSettings

_pods = msgspec.json.Decoder(Pod)


def validate(request: Request, *, store: Store, settings: AdmissionSettings) -> Answer:
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
        or (_validate_ungating(before, store=store) if has_gate(before) and not has_gate(after) else ALLOWED)
    )


def _validate_create(request: Request, *, store: Store) -> Answer:
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
    if not label and not has_gate(pod):
        return _deny_changed("spec.schedulingGates", f'removed "{well_known.GATE}" from this pod')
    return ALLOWED


def _deny_unlabelled(pod: Pod, request: Request, *, store: Store) -> Answer | None:
    """Without the label no replica sees a member until the leader finds it: its queue's stops miss it."""
    if pod.metadata.annotation(well_known.QUEUE):
        return _deny_changed(f"metadata.labels[{well_known.QUEUE}]", "removed this label")
    facts = store.memberships.pod_facts(pod, namespace=request.namespace)
    membership = submitted_pod_membership(
        facts, rules=store.membership_settings, podgroup=store.podgroups.queue_of
    )
    if membership is not None and not _is_new_member(membership, request.namespace, store=store):
        way_out = "or name the queue in the pod"
        return _deny_changed(membership.source, "made this pod a member", way_out=way_out)
    if has_gate(pod):
        return _deny_changed("spec.schedulingGates", f'put "{well_known.GATE}" on this pod')
    return None


def _is_new_member(membership: Membership, namespace: str, *, store: Store) -> bool:
    """Whether its namespace has just come to name the queue, which takes new work and stops none.

    The mutating webhook may not have known that, and the leader lists the pods of such a namespace. In a
    queue that is stopped the pod could be bound before.
    """
    if membership.source is not Source.NAMESPACE or membership.queue is None:
        return False
    decisions, queue = store.decisions, membership.queue
    accepts = decisions.of_queue(queue, namespace=namespace).accepts
    may_start = decisions.of_place(queue, namespace=namespace).may_start
    return accepts and may_start and store.label_changes.is_recent(namespace)


def _deny_changed(place: str, what: str, *, way_out: str = "") -> Answer:
    before = "have that webhook's configuration come before"
    return deny(
        f"{place}: another webhook {what} after sluice had been asked; "
        + (f"{before}, {way_out}" if way_out else before)
    )


def _deny_moved(before: Pod, after: Pod) -> Answer | None:
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


def _deny_renamed(before: Pod, after: Pod, *, store: Store) -> Answer | None:
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


def _validate_ungating(pod: Pod, *, store: Store) -> Answer:
    membership = store.memberships.of_pod(pod)
    if membership is None:
        return ALLOWED
    start = store.decisions.of_place(
        membership.queue, namespace=pod.metadata.namespace, podgroup=membership.podgroup
    )
    if not start.keeps_gate:
        return ALLOWED
    return deny(f'spec.schedulingGates: "{well_known.GATE}" cannot be removed: {start.text}')
