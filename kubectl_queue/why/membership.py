"""Whose queue a stored object is in, and by which rule (`queues.membership`), for `why`.

Promises
- What admission wrote down is the answer; what it was written down from is told where it can be seen.
- The settings of the server are not known here: they count as their defaults, except that a label of Kueue's
  may be what a written answer came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from msgspec.structs import replace

from kubectl_queue.access.objects import Objects
from kubectl_queue.access.responses import Object
from kubectl_queue.errors import KindMissingError, NotFoundError
from kubectl_queue.output.tables import at
from kubectl_queue.snapshot import spec
from kubectl_queue.why.subjects import (
    annotations_of,
    labels_of,
    thing,
)
from kubectl_queue.why.targets import (
    NAMESPACE,
    POD,
    PODGROUP,
    QUEUE,
    Type,
)
from queues import labels as names
from queues.membership import (
    VOLCANO_ANNOTATION,
    Membership,
    MembershipSettings,
    NamingMetadata,
    PodFacts,
    QueueConflict,
    Source,
    WorkloadFacts,
    submitted_pod_membership,
    workload_membership,
)
from queues.queue import DEFAULT
from queues.why.explanation import ExplainedMembership

#: The owners of an object with their types, nearest first.
Owners = tuple[tuple[Type, Object], ...]
_RULES = MembershipSettings()
_ALL_RULES = MembershipSettings(kueue=True)
#: Who named the queue, by the word that admission notes; for any other it is the workload.
_NOTED = {"namespace": Source.NAMESPACE.value, "scheduler": Source.SCHEDULER.value}


def belonging(kind: Type, item: Object, *, owners: Owners, objects: Objects) -> ExplainedMembership | None:
    """The queue of an object; None if it is in none."""
    if kind is QUEUE:
        return ExplainedMembership(queue=str(at(item, "metadata.name")))
    if kind is PODGROUP:
        named = spec(item).get("queue")
        return ExplainedMembership(
            queue=str(named or DEFAULT), rule=Source.SPEC if named else "no queue being named"
        )
    if at(item, "metadata.namespace") in _RULES.exempt_namespaces:
        return None
    written = _written(kind, item)
    if not written:
        found = _found(kind, item, objects, rules=_RULES)
        if found is not None and found.queue is None:
            _see_that_it_is_missing(found.group, item, objects)
        return _told(found)
    told = ExplainedMembership(queue=written, rule=Source.WRITTEN)
    return replace(told, origin=_origin(written, ((kind, item), *owners), objects))


def _told(found: Membership | None) -> ExplainedMembership | None:
    return ExplainedMembership(queue=found.queue, rule=_rule(found), group=found.group) if found else None


def _see_that_it_is_missing(group: str, item: Object, objects: Objects) -> None:
    """Raises ForbiddenError where the PodGroup may not be read, which says nothing of whether it is there."""
    with suppress(NotFoundError, KindMissingError):
        objects.get(PODGROUP, group, namespace=str(at(item, "metadata.namespace") or ""))


def _rule(found: Membership) -> str:
    return f"PodGroup {found.group}" if found.source is Source.PODGROUP else found.source.value


def _written(kind: Type, item: Object) -> str:
    """The answer that admission wrote on it, or into its template."""
    places = (
        [annotations_of(item)]
        if kind is POD
        else [annotations_of(item), *map(annotations_of, _templates(item))]
    )
    return next((str(place[names.QUEUE]) for place in places if place.get(names.QUEUE)), "")


def _origin(queue: str, held: Owners, objects: Objects) -> str:
    """What named this queue: the first of the object and its owners on which that can be seen."""
    for number, (kind, item) in enumerate(held):
        word = _noted(kind, item)
        if word in _NOTED:
            return _NOTED[word]
        if word and kind is POD and len(held) == 1:
            return "the workload that made it"
        if word and number + 1 < len(held):
            continue  # its owner named the queue
        found = _found(kind, item, objects, rules=_ALL_RULES)
        if found is not None and found.queue == queue:
            return f"{_rule(found)} of {thing(kind, item)}" if number else _rule(found)
    return ""


def _noted(kind: Type, item: Object) -> str:
    """What admission noted beside a queue that the template does not name itself."""
    places = map(annotations_of, [item] if kind is POD else _templates(item))
    return next((str(place[names.QUEUE_FROM]) for place in places if place.get(names.QUEUE_FROM)), "")


def _found(kind: Type, item: Object, objects: Objects, *, rules: MembershipSettings) -> Membership | None:
    """By the rules for what is submitted; the namespace is read where only that can tell."""
    found = _judged(kind, item, objects, rules=rules, namespace_queue="")
    if found is not None and found.source is not Source.SCHEDULER:
        return found
    named = _of_namespace(item, objects)
    return _judged(kind, item, objects, rules=rules, namespace_queue=named) if named else found


def _of_namespace(item: Object, objects: Objects) -> str:
    namespace = objects.find(NAMESPACE, str(at(item, "metadata.namespace") or ""), namespace="")
    return annotations_of(namespace).get(VOLCANO_ANNOTATION, "") if namespace else ""


def _judged(
    kind: Type, item: Object, objects: Objects, *, rules: MembershipSettings, namespace_queue: str
) -> Membership | None:
    def group(namespace: str, name: str) -> str | None:
        held = objects.find(PODGROUP, name, namespace=namespace)
        return None if held is None else str(spec(held).get("queue") or DEFAULT)

    namespace = str(at(item, "metadata.namespace") or "")
    if kind is POD:
        facts = PodFacts(
            namespace=namespace,
            labels=labels_of(item),
            annotations=annotations_of(item),
            scheduler=str(spec(item).get("schedulerName") or ""),
            namespace_queue=namespace_queue,
        )
        return submitted_pod_membership(facts, rules=rules, group=group)
    found = workload_membership(_facts(kind, item, namespace, namespace_queue), rules=rules, group=group)
    return found.first if isinstance(found, QueueConflict) else found


def _facts(kind: Type, item: Object, namespace: str, namespace_queue: str) -> WorkloadFacts:
    held = list(_templates(item))
    scheduler = str(spec(item).get("schedulerName") or "")
    return WorkloadFacts(
        namespace=namespace,
        templates=tuple(NamingMetadata(labels_of(each), annotations_of(each)) for each in held),
        own=NamingMetadata(labels_of(item), annotations_of(item)),
        schedulers=tuple(str(at(each, "spec.schedulerName") or scheduler) for each in held),
        spec_queue=str(spec(item).get("queue") or "") if kind.group == "batch.volcano.sh" else "",
        namespace_queue=namespace_queue,
    )


def _templates(item: Object) -> Iterator[Object]:
    """The pod templates of a workload of any kind."""
    wishes = dict(spec(item))
    tasks = [*(wishes.get("tasks") or ()), wishes]
    jobs = [each.get("template") or {} for each in wishes.get("replicatedJobs") or ()]
    jobs.append(wishes.get("jobTemplate") or {})
    places = [*(at(each, "template") for each in tasks), *(at(each, "spec.template") for each in jobs)]
    return (each for each in places if isinstance(each, dict))
