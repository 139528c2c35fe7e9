"""Objects of the API as `queues.why.explain` takes them: what they are, and why they say that they wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubectl_queue.access.responses import Object
from kubectl_queue.output.tables import at
from kubectl_queue.snapshot import spec, status
from kubectl_queue.why.targets import POD as POD_TYPE
from kubectl_queue.why.targets import (
    PODGROUP,
    QUEUE,
    Type,
)
from queues import labels as names
from queues.membership import GROUP_ANNOTATION, MembershipSettings
from queues.why.explanation import ObjectRef, ObservedObject

_ENDED_PODS = frozenset({"Succeeded", "Failed"})
_ENDED = frozenset({"Complete", "Completed", "Failed"})
_ENDED_PHASES = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
#: Conditions that say why something waits, while they have this status.
_WAITING: Mapping[str, tuple[str, str]] = {
    "Pod": ("PodScheduled", "False"),
    "PodGroup": ("Unschedulable", "True"),
}
_RULES = MembershipSettings()


def thing(kind: Type, item: Object) -> ObjectRef:
    return ObjectRef(
        kind=kind.kind,
        name=str(at(item, "metadata.name")),
        namespace=str(at(item, "metadata.namespace") or ""),
    )


def annotations_of(item: Object) -> Mapping[str, str]:
    return at(item, "metadata.annotations") or {}


def labels_of(item: Object) -> Mapping[str, str]:
    return at(item, "metadata.labels") or {}


def subject(
    kind: Type, item: Object, *, owners: tuple[ObjectRef, ...] = (), labels: Mapping[str, str] | None = None
) -> ObservedObject:
    """The object as it is stored. `labels`: of its namespace; None where they were not read."""
    ended = _ended(kind, item)
    is_pod = kind is POD_TYPE
    return ObservedObject(
        thing=thing(kind, item),
        owners=owners,
        group=_group(item),
        phase=ended,
        finished=bool(ended),
        leaving=bool(at(item, "metadata.deletionTimestamp")),
        node=str(spec(item).get("nodeName") or "") if is_pod else "",
        gates=tuple(str(gate.get("name")) for gate in spec(item).get("schedulingGates") or ()),
        asked=not is_pod or _asked(item),
        said=_said(kind, item),
        idle="" if is_pod else _idle(item),
        namespace_labels=labels,
    )


def _group(item: Object) -> ObjectRef | None:
    named = annotations_of(item).get(GROUP_ANNOTATION)
    place = str(at(item, "metadata.namespace") or "")
    return ObjectRef(kind=PODGROUP.kind, name=named, namespace=place) if named else None


def _asked(item: Object) -> bool:
    """Whether kube-scheduler asks about the pod: it is marked, or has a scheduler that asks about all."""
    containers = [*(spec(item).get("containers") or ()), *(spec(item).get("initContainers") or ())]
    marked = any(names.MARKER in (at(each, "resources.requests") or {}) for each in containers)
    return marked or spec(item).get("schedulerName") in _RULES.owned_schedulers


def _ended(kind: Type, item: Object) -> str:
    """In which way it has ended; empty while it has not."""
    phase = str(status(item).get("phase") or "")
    if kind is POD_TYPE:
        return phase if phase in _ENDED_PODS else ""
    if kind is PODGROUP:
        return phase if phase in _ENDED else ""
    phase = str(at(item, "status.state.phase") or "") if kind is not QUEUE else ""
    if phase in _ENDED_PHASES:
        return phase
    return next((str(each.get("type")) for each in _true(item) if each.get("type") in _ENDED), "")


def _true(item: Object) -> Iterator[Mapping[str, Any]]:
    return (each for each in status(item).get("conditions") or () if each.get("status") == "True")


def _said(kind: Type, item: Object) -> str:
    wanted = _WAITING.get(kind.kind)
    for each in status(item).get("conditions") or ():
        if wanted == (each.get("type"), each.get("status")):
            return str(each.get("message") or each.get("reason") or "")
    return ""


def _idle(item: Object) -> str:
    """Why a workload makes no pods by its own wish."""
    if spec(item).get("suspend") is True:
        return "spec.suspend is true, so it makes no pods"
    return "spec.replicas is 0, so it makes no pods" if spec(item).get("replicas") == 0 else ""
