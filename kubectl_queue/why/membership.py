"""The queue of a stored object, and the rule that gives it (`queues.membership`).

Promises
- What admission wrote on the object is the answer. Where its origin can be seen, that is given too.
- The settings of the server are not known: they count as their defaults, except that a written answer may
  come from Kueue's label.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.errors import KindMissingError, NotFoundError
from kubectl_queue.objects.explained import object_reference
from kubectl_queue.objects.fields import Object, annotations_of, labels_of, spec_of, value_at
from kubectl_queue.objects.types import NAMESPACE, POD, PODGROUP, QUEUE, Type
from queues import well_known
from queues.membership import (
    MIRROR_ANNOTATION,
    VOLCANO_ANNOTATION,
    Membership,
    MembershipSettings,
    PodFacts,
    PodGroupQueueLookup,
    QueueConflict,
    Source,
    fits_label,
    stored_pod_membership,
    submitted_pod_membership,
    workload_membership,
)
from queues.queue import DEFAULT
from queues.why.explanation import ExplainedMembership
from queues.workload_kinds import find_kind
from queues.world.reading import as_workload
from queues.world.workloads import pod_templates, recorded_queue, workload_facts

#: The owners of an object with their types, nearest first.
Owners = tuple[tuple[Type, Object], ...]
_RULES = MembershipSettings()
_ALL_RULES = MembershipSettings(kueue=True)
#: What named the queue, by the word that admission wrote; any other word stands for the workload.
_ORIGINS = {"namespace": Source.NAMESPACE.value, "scheduler": Source.SCHEDULER.value}


def membership_of(
    kind: Type, item: Object, *, owners: Owners, objects: ObjectReader
) -> ExplainedMembership | None:
    """The queue of an object; None if it is in none."""
    if kind is QUEUE:
        return ExplainedMembership(queue=str(value_at(item, "metadata.name")))
    if kind is PODGROUP:
        return _podgroup_membership(item)
    if kind is NAMESPACE:
        return _namespace_membership(item)
    is_mirror = kind is POD and MIRROR_ANNOTATION in annotations_of(item)
    if is_mirror or value_at(item, "metadata.namespace") in _RULES.exempt_namespaces:
        return None
    written = _written(kind, item)
    if not written:
        membership = _by_rules(kind, item, objects, rules=_RULES)
        if membership is not None and membership.queue is None:
            _check_podgroup_is_missing(membership.podgroup, item, objects)
        return _answer(membership)
    answer = ExplainedMembership(queue=written, rule=Source.WRITTEN)
    return replace(answer, origin=_origin(written, ((kind, item), *owners), objects))


def _podgroup_membership(item: Object) -> ExplainedMembership:
    queue = spec_of(item).get("queue")
    rule = Source.SPEC if queue else "no queue being named"
    return ExplainedMembership(queue=str(queue or DEFAULT), rule=rule)


def _namespace_membership(item: Object) -> ExplainedMembership | None:
    """The queue of all work in the namespace that names no other."""
    queue = annotations_of(item).get(VOLCANO_ANNOTATION)
    if not queue or value_at(item, "metadata.name") in _RULES.exempt_namespaces:
        return None
    return ExplainedMembership(queue=queue, rule=f"annotation {VOLCANO_ANNOTATION}")


def _answer(membership: Membership | None) -> ExplainedMembership | None:
    if membership is None:
        return None
    return ExplainedMembership(queue=membership.queue, rule=_rule(membership), group=membership.podgroup)


def _check_podgroup_is_missing(group: str, item: Object, objects: ObjectReader) -> None:
    """Raises ForbiddenError where the PodGroup may not be read: then it is not known whether it exists."""
    with suppress(NotFoundError, KindMissingError):
        objects.get(PODGROUP, group, namespace=str(value_at(item, "metadata.namespace") or ""))


def _rule(membership: Membership) -> str:
    return (
        f"PodGroup {membership.podgroup}" if membership.source is Source.PODGROUP else membership.source.value
    )


def _written(kind: Type, item: Object) -> str:
    """The queue that admission wrote on the pod or into the template; "" if none.

    Of a pod the label counts: an annotation that does not fit it is not believed (`queues.membership`).
    """
    if kind is not POD:
        return recorded_queue(as_workload(item))
    annotation = str(annotations_of(item).get(well_known.QUEUE) or "")
    label = labels_of(item).get(well_known.QUEUE)
    return annotation if label is None or fits_label(annotation, str(label)) else str(label)


def _origin(queue: str, items: Owners, objects: ObjectReader) -> str:
    """What named this queue: the first of the object and its owners that shows it."""
    for number, (kind, item) in enumerate(items):
        word = _written_origin(kind, item)
        if word in _ORIGINS:
            return _ORIGINS[word]
        if word and kind is POD and len(items) == 1:
            return "the workload that made it"
        if word and number + 1 < len(items):
            continue  # its owner named the queue
        membership = _by_rules(kind, item, objects, rules=_ALL_RULES)
        if membership is not None and membership.queue == queue:
            return f"{_rule(membership)} of {object_reference(kind, item)}" if number else _rule(membership)
    return ""


def queue_of_stored_pod(
    pod: Object, objects: ObjectReader, *, queue_of_label: Callable[[str], str] = str
) -> str:
    """The queue of a pod as the server has it (`queues.membership`); "" for none, or none yet.

    `queue_of_label`: the queue whose label this is. PodGroup and namespace are read where they decide.
    """
    membership = _stored(pod, objects, queue_of_label, namespace_queue="")
    if membership is None or membership.source is Source.SCHEDULER:
        named = queue_of_namespace(pod, objects)
        if named:
            membership = _stored(pod, objects, queue_of_label, namespace_queue=named)
    return (membership.queue or "") if membership is not None else ""


def _stored(
    pod: Object, objects: ObjectReader, queue_of_label: Callable[[str], str], *, namespace_queue: str
) -> Membership | None:
    facts, group = _pod_facts(pod, namespace_queue), _group_lookup(objects)
    return stored_pod_membership(facts, rules=_RULES, podgroup=group, queue_of_label=queue_of_label)


def queue_of_stored_workload(kind: Type, item: Object, objects: ObjectReader) -> str:
    """The queue that admission recorded in its template; without a record, the one that the rules name.

    "" for none, or none yet.
    """
    if value_at(item, "metadata.namespace") in _RULES.exempt_namespaces:
        return ""
    recorded = recorded_queue(as_workload(item))
    if recorded:
        return recorded
    membership = _by_rules(kind, item, objects, rules=_RULES)
    return (membership.queue or "") if membership is not None else ""


def _written_origin(kind: Type, item: Object) -> str:
    """The origin that admission wrote beside a queue that the template does not name itself."""
    if kind is POD:
        return str(annotations_of(item).get(well_known.QUEUE_FROM) or "")
    templates = (template.metadata for _, template in pod_templates(as_workload(item)))
    words = (meta.annotation(well_known.QUEUE_FROM) for meta in templates if meta is not None)
    return next(filter(None, words), "")


def _by_rules(
    kind: Type, item: Object, objects: ObjectReader, *, rules: MembershipSettings
) -> Membership | None:
    """The membership by the rules for new objects; the namespace is read only where it decides."""
    membership = _apply_rules(kind, item, objects, rules=rules, namespace_queue="")
    if membership is not None and not _is_implied(membership):
        return membership
    named = queue_of_namespace(item, objects)
    return _apply_rules(kind, item, objects, rules=rules, namespace_queue=named) if named else membership


def _is_implied(membership: Membership) -> bool:
    """Whether the queue of a namespace comes before it: a Job's `spec.queue: default` is no name."""
    is_default = membership.source is Source.SPEC and membership.queue == DEFAULT
    return is_default or membership.source is Source.SCHEDULER


def queue_of_namespace(item: Object, objects: ObjectReader) -> str:
    """The queue that its namespace names now; empty if none, or if the namespace may not be read."""
    namespace = objects.find(NAMESPACE, str(value_at(item, "metadata.namespace") or ""), namespace="")
    return annotations_of(namespace).get(VOLCANO_ANNOTATION, "") if namespace else ""


def _apply_rules(
    kind: Type, item: Object, objects: ObjectReader, *, rules: MembershipSettings, namespace_queue: str
) -> Membership | None:
    group = _group_lookup(objects)
    if kind is POD:
        return submitted_pod_membership(_pod_facts(item, namespace_queue), rules=rules, podgroup=group)
    namespace = str(value_at(item, "metadata.namespace") or "")
    row = find_kind(kind.group, kind.resource)
    if row is None:
        return None
    facts = workload_facts(row, as_workload(item), namespace=namespace, namespace_queue=namespace_queue)
    membership = workload_membership(facts, rules=rules, podgroup=group)
    return membership.first if isinstance(membership, QueueConflict) else membership


def _group_lookup(objects: ObjectReader) -> PodGroupQueueLookup:
    def group(namespace: str, name: str) -> str | None:
        podgroup = objects.find(PODGROUP, name, namespace=namespace)
        return None if podgroup is None else str(spec_of(podgroup).get("queue") or DEFAULT)

    return group


def _pod_facts(pod: Object, namespace_queue: str) -> PodFacts:
    return PodFacts(
        namespace=str(value_at(pod, "metadata.namespace") or ""),
        labels=labels_of(pod),
        annotations=annotations_of(pod),
        scheduler=str(spec_of(pod).get("schedulerName") or ""),
        namespace_queue=namespace_queue,
    )
