"""An object of the API as `queues.why.explain` takes it: what it is, and why it says that it waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubectl_queue.access.responses import Object
from kubectl_queue.output.tables import value_at
from kubectl_queue.queue_objects import spec_of, status_of
from kubectl_queue.why.targets import POD as POD_TYPE
from kubectl_queue.why.targets import (
    PODGROUP,
    QUEUE,
    Type,
)
from queues import labels as names
from queues.membership import GROUP_ANNOTATION, MembershipSettings
from queues.why.explanation import ObjectRef, ObservedObject

_FINISHED_POD_PHASES = frozenset({"Succeeded", "Failed"})
_FINISHED_CONDITIONS = frozenset({"Complete", "Completed", "Failed"})
_FINISHED_PHASES = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
#: Conditions that say why something waits, while they have this status.
_WAITING: Mapping[str, tuple[str, str]] = {
    "Pod": ("PodScheduled", "False"),
    "PodGroup": ("Unschedulable", "True"),
}
_RULES = MembershipSettings()


def object_reference(kind: Type, item: Object) -> ObjectRef:
    return ObjectRef(
        kind=kind.kind,
        name=str(value_at(item, "metadata.name")),
        namespace=str(value_at(item, "metadata.namespace") or ""),
    )


def annotations_of(item: Object) -> Mapping[str, str]:
    return value_at(item, "metadata.annotations") or {}


def labels_of(item: Object) -> Mapping[str, str]:
    return value_at(item, "metadata.labels") or {}


def controller_of(item: Object) -> Mapping[str, Any]:
    """The owner reference of the controller, which makes the object again; empty where there is none."""
    references = value_at(item, "metadata.ownerReferences") or ()
    return next((each for each in references if each.get("controller")), {})


def subject(
    kind: Type, item: Object, *, owners: tuple[ObjectRef, ...] = (), labels: Mapping[str, str] | None = None
) -> ObservedObject:
    """The object as it is stored. `labels`: of its namespace; None where they were not read."""
    ended = _ended(kind, item)
    is_pod = kind is POD_TYPE
    return ObservedObject(
        ref=object_reference(kind, item),
        owners=owners,
        group=_group(item),
        phase=ended,
        finished=bool(ended),
        deleting=bool(value_at(item, "metadata.deletionTimestamp")),
        node=str(spec_of(item).get("nodeName") or "") if is_pod else "",
        gates=tuple(str(gate.get("name")) for gate in spec_of(item).get("schedulingGates") or ()),
        calls_extender=not is_pod or _asked(item),
        message=_said(kind, item),
        idle_reason="" if is_pod else _idle(item),
        namespace_labels=labels,
    )


def _group(item: Object) -> ObjectRef | None:
    named = annotations_of(item).get(GROUP_ANNOTATION)
    place = str(value_at(item, "metadata.namespace") or "")
    return ObjectRef(kind=PODGROUP.kind, name=named, namespace=place) if named else None


def _asked(item: Object) -> bool:
    """Whether kube-scheduler asks about the pod: it is marked, or has a scheduler that asks about all."""
    containers = [*(spec_of(item).get("containers") or ()), *(spec_of(item).get("initContainers") or ())]
    marked = any(names.MARKER in (value_at(each, "resources.requests") or {}) for each in containers)
    return marked or spec_of(item).get("schedulerName") in _RULES.owned_schedulers


def _ended(kind: Type, item: Object) -> str:
    """In which way it has ended; empty while it has not."""
    phase = str(status_of(item).get("phase") or "")
    if kind is POD_TYPE:
        return phase if phase in _FINISHED_POD_PHASES else ""
    if kind is PODGROUP:
        return phase if phase in _FINISHED_CONDITIONS else ""
    phase = str(value_at(item, "status.state.phase") or "") if kind is not QUEUE else ""
    if phase in _FINISHED_PHASES:
        return phase
    return next(
        (str(each.get("type")) for each in _true(item) if each.get("type") in _FINISHED_CONDITIONS), ""
    )


def _true(item: Object) -> Iterator[Mapping[str, Any]]:
    return (each for each in status_of(item).get("conditions") or () if each.get("status") == "True")


def _said(kind: Type, item: Object) -> str:
    wanted = _WAITING.get(kind.kind)
    for each in status_of(item).get("conditions") or ():
        if wanted == (each.get("type"), each.get("status")):
            return str(each.get("message") or each.get("reason") or "")
    return ""


def _idle(item: Object) -> str:
    """Why a workload makes no pods by its own wish."""
    if spec_of(item).get("suspend") is True:
        return "spec.suspend is true, so it makes no pods"
    return "spec.replicas is 0, so it makes no pods" if spec_of(item).get("replicas") == 0 else ""
