"""The objects that `why` explains: their types, how they are named on the command line, what is read of them.

They are spelt as for kubectl: `pod/x`, `pod x`, `jobs.batch/x`, `research`. `subject` is an object as
`queues.why.explain` takes it. `Objects` reads objects.

Promises
- TYPE is a resource's plural, singular or short name in any case, alone or with its group (`jobs.batch`)
  or its version and group (`jobs.v1.batch`). Alone it is the one that kubectl would take.
- A word that is no TYPE/NAME and does not follow a TYPE is a queue's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import Object, Request
from kubectl_queue.cli.flag_values import quoted
from kubectl_queue.cli.flags import checked_name
from kubectl_queue.errors import ForbiddenError, KindMissingError, NotFoundError, UsageError
from kubectl_queue.output.tables import value_at
from kubectl_queue.queue_objects import spec_of, status_of
from queues import well_known
from queues.membership import GROUP_ANNOTATION, MembershipSettings
from queues.why.explanation import DEFAULT_SCHEDULER, ObjectRef, ObservedObject
from queues.workload_kinds import KINDS

COMMAND = "kubectl queue why"


class Type(NamedTuple):
    """A kind of object and where the API server has it."""

    kind: str
    resource: str
    group: str
    version: str
    namespaced: bool = True

    @property
    def base(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def full(self) -> str:
        """RESOURCE.GROUP"""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def workload(self) -> bool:
        return self.full not in _OTHERS


class Target(NamedTuple):
    """One object of the command line."""

    type: Type
    name: str


POD = Type("Pod", "pods", "", "v1")
NAMESPACE = Type("Namespace", "namespaces", "", "v1", namespaced=False)
PODGROUP = Type("PodGroup", "podgroups", "scheduling.volcano.sh", "v1beta1")
QUEUE = Type("Queue", "queues", "scheduling.volcano.sh", "v1beta1", namespaced=False)
_OTHERS = frozenset(each.full for each in (POD, NAMESPACE, PODGROUP, QUEUE))
#: In kubectl's order: where two kinds have one name, the first is meant.
TYPES = (
    POD,
    *(Type(row.kind, row.resource, row.group, row.version) for row in KINDS.values()),
    PODGROUP,
    QUEUE,
    NAMESPACE,
)
_SHORT: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "pods": ("po",),
        "namespaces": ("ns",),
        **{f"{row.resource}.{row.group}": row.short_names for row in KINDS.values()},
        "podgroups.scheduling.volcano.sh": ("pg",),
        "queues.scheduling.volcano.sh": ("q",),
    }
)


def type_of(word: str) -> Type | None:
    """The type that a word names; None if it names none that has a queue."""
    name, _, group = word.lower().partition(".")
    return next((each for each in TYPES if name in _names(each) and _fits(group, each)), None)


def _names(each: Type) -> tuple[str, ...]:
    return (each.resource, each.kind.lower(), *_SHORT.get(each.full, ()))


def _fits(group: str, each: Type) -> bool:
    return group in {"", each.group, f"{each.version}.{each.group}".rstrip(".")}


def type_of_owner(kind: str, api_version: str) -> Type | None:
    """The type of an owner reference."""
    group, _, _ = api_version.rpartition("/")
    return next((each for each in TYPES if (each.kind, each.group) == (kind, group)), None)


def parse_targets(words: Sequence[str]) -> tuple[Target, ...]:
    """The objects of a command line, each once. Raises UsageError."""
    if not words:
        raise UsageError(
            "name what waits: pod/NAME, job/NAME, podgroup/NAME, namespace/NAME or a queue's NAME",
            see=COMMAND,
        )
    leading = type_of(words[0])
    bare = [word for word in words if "/" not in word]
    if len(bare) < len(words) and any(type_of(word) for word in bare):
        raise UsageError("TYPE NAME and TYPE/NAME cannot be mixed", see=COMMAND)
    if leading is None:
        targets = [_target(word) for word in words]
    elif len(words) == 1:
        raise UsageError(_nameless(leading, words[0]), see=COMMAND)
    else:
        targets = [Target(leading, checked_name(word, see=COMMAND)) for word in words[1:]]
    return tuple(dict.fromkeys(targets))


def _target(word: str) -> Target:
    kind, slash, name = word.partition("/")
    if not slash:
        return Target(QUEUE, checked_name(word, see=COMMAND))
    target_type = type_of(kind)
    if target_type is None:
        known = ", ".join(each.kind.lower() for each in TYPES if each.group != "batch.volcano.sh")
        raise UsageError(
            f"{quoted(kind)} is not a type of object that has a queue; the types are: {known}", see=COMMAND
        )
    return Target(target_type, checked_name(name, see=COMMAND))


def _nameless(kind: Type, word: str) -> str:
    """The error for a type without a name; a queue may have the name of a type."""
    return (
        f"which {kind.kind}? give its name: {COMMAND} {word.lower()}/NAME "
        f"(a queue of this name: {COMMAND} queue/{word.lower()})"
    )


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
    kind: Type,
    item: Object,
    *,
    owners: tuple[ObjectRef, ...] = (),
    labels: Mapping[str, str] | None = None,
    namespace_queue: str = "",
) -> ObservedObject:
    """The object as it is stored. `labels`: of its namespace; None where they were not read."""
    phase = _finished_phase(kind, item)
    is_pod = kind is POD
    return ObservedObject(
        ref=object_reference(kind, item),
        owners=owners,
        group=_group(item),
        phase=phase,
        finished=bool(phase),
        deleting=bool(value_at(item, "metadata.deletionTimestamp")),
        node=str(spec_of(item).get("nodeName") or "") if is_pod else "",
        gates=tuple(str(gate.get("name")) for gate in spec_of(item).get("schedulingGates") or ()),
        calls_extender=not is_pod or _calls_extender(item),
        scheduler=str(spec_of(item).get("schedulerName") or DEFAULT_SCHEDULER),
        message=_waiting_message(kind, item),
        idle_reason="" if is_pod else _idle_reason(item),
        namespace_labels=labels,
        namespace_queue=namespace_queue,
    )


def _group(item: Object) -> ObjectRef | None:
    named = annotations_of(item).get(GROUP_ANNOTATION)
    place = str(value_at(item, "metadata.namespace") or "")
    return ObjectRef(kind=PODGROUP.kind, name=named, namespace=place) if named else None


def _calls_extender(item: Object) -> bool:
    """Whether kube-scheduler calls the extender for the pod: it is marked, or its scheduler calls for all."""
    containers = [*(spec_of(item).get("containers") or ()), *(spec_of(item).get("initContainers") or ())]
    marked = any(well_known.MARKER in (value_at(each, "resources.requests") or {}) for each in containers)
    calling = _RULES.owned_schedulers | _RULES.calling_schedulers
    return marked or spec_of(item).get("schedulerName") in calling


def _finished_phase(kind: Type, item: Object) -> str:
    """The phase or condition in which it ended; empty while it has not ended."""
    phase = str(status_of(item).get("phase") or "")
    if kind is POD:
        return phase if phase in _FINISHED_POD_PHASES else ""
    if kind is PODGROUP:
        return phase if phase in _FINISHED_CONDITIONS else ""
    phase = str(value_at(item, "status.state.phase") or "") if kind is not QUEUE else ""
    if phase in _FINISHED_PHASES:
        return phase
    types = (str(condition.get("type")) for condition in _true_conditions(item))
    return next((word for word in types if word in _FINISHED_CONDITIONS), "")


def _true_conditions(item: Object) -> Iterator[Mapping[str, Any]]:
    return (each for each in status_of(item).get("conditions") or () if each.get("status") == "True")


def _waiting_message(kind: Type, item: Object) -> str:
    wanted = _WAITING.get(kind.kind)
    for each in status_of(item).get("conditions") or ():
        if wanted == (each.get("type"), each.get("status")):
            return str(each.get("message") or each.get("reason") or "")
    return ""


def _idle_reason(item: Object) -> str:
    """Why a workload makes no pods by its own spec; empty where it makes pods."""
    if spec_of(item).get("suspend") is True:
        if well_known.SUSPENDED in annotations_of(item):
            return (
                "its queue suspended it (spec.suspend is true) and resumes it once the queue schedules again"
            )
        return "spec.suspend is true, so it makes no pods"
    return "spec.replicas is 0, so it makes no pods" if spec_of(item).get("replicas") == 0 else ""


class Objects:
    """Reads objects of any kind for one command, each with one GET."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._read: dict[tuple[str, str, str], Object | None] = {}

    def get(self, kind: Type, name: str, *, namespace: str) -> Object:
        """Raises the error that the server answers, such as NotFoundError and ForbiddenError."""
        place = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced else ""
        path = f"{kind.base}{place}/{kind.resource}/{quote(name, safe='')}"
        return self._client.send(Request(method="GET", path=path, query={}), kind=kind.full)

    def find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        """The object; None where it is not there or may not be read."""
        key = (kind.full, namespace if kind.namespaced else "", name)
        if key not in self._read:
            self._read[key] = self._find(kind, name, namespace=namespace)
        return self._read[key]

    def _find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        try:
            return self.get(kind, name, namespace=namespace)
        except (NotFoundError, ForbiddenError, KindMissingError):
            return None
