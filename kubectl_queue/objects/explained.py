"""Objects as `queues.why` takes them: what is asked about, and the chain of its queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubectl_queue.objects.condition_writer import condition_writer
from kubectl_queue.objects.fields import (
    Object,
    annotations_of,
    condition_of,
    condition_since,
    generation_of,
    name_of,
    spec_of,
    status_of,
    value_at,
)
from kubectl_queue.objects.keys import key_lines
from kubectl_queue.objects.queues import (
    QueueObjects,
    changes_of,
    is_observed,
    may_be_live,
    parked_counts,
    stop_acknowledgement,
)
from kubectl_queue.objects.quotas import not_enforced, quota_use, releases_nothing
from kubectl_queue.objects.types import NAMESPACE, POD, PODGROUP, QUEUE, Type
from kubectl_queue.objects.workloads import kept_replicas
from queues import well_known
from queues.membership import GROUP_ANNOTATION, MembershipSettings
from queues.namespace_binding import binds
from queues.scale_record import parse_scale_record
from queues.states import State
from queues.status.closing import read_closing
from queues.status.conditions import ACCEPTING, ACTIVE
from queues.status.stop_status import Acknowledgement, ObservedChain, waiting_for
from queues.text import quoted
from queues.why.explanation import (
    DEFAULT_SCHEDULER,
    ObjectRef,
    ObservedObject,
    ObservedQueues,
    QueueRecord,
    ReportedStatus,
)

_FINISHED_POD_PHASES = frozenset({"Succeeded", "Failed"})
_FINISHED_CONDITIONS = frozenset({"Complete", "Completed", "Failed"})
_FINISHED_PHASES = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
#: Conditions that say why something waits, while they have this status.
_WAITING: Mapping[str, tuple[str, str]] = {
    "Pod": ("PodScheduled", "False"),
    "PodGroup": ("Unschedulable", "True"),
}
#: Conditions whose message the server writes whole, while they are False.
_OURS: Mapping[str, str] = {"Pod": "PodScheduled", "PodGroup": "Scheduled"}
#: The field manager of what the server writes: its User-Agent.
_SERVER = "sluice"
#: The reason of the condition `PodScheduled` while the pod has a gate; it stays when the gate goes.
_GATED = "SchedulingGated"
_RULES = MembershipSettings()


def object_reference(kind: Type, item: Object) -> ObjectRef:
    return ObjectRef(
        kind=kind.kind,
        name=str(value_at(item, "metadata.name")),
        namespace=str(value_at(item, "metadata.namespace") or ""),
    )


def subject(
    kind: Type,
    item: Object,
    *,
    owners: tuple[ObjectRef, ...] = (),
    labels: Mapping[str, str] | None = None,
    namespace_queue: str = "",
    unmanaged: str = "",
) -> ObservedObject:
    """The object as it is stored. `labels`: of its namespace; None where they were not read. `unmanaged`: why
    what it names has no effect there.
    """
    phase = _finished_phase(kind, item)
    is_pod = kind is POD
    waiting = _waiting_condition(kind, item)
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
        message=str(waiting.get("message") or waiting.get("reason") or ""),
        message_by=condition_writer(item, str(waiting.get("type"))) if waiting else "",
        message_of_gate=is_pod and waiting.get("reason") == _GATED,
        idle_reason="" if is_pod else _idle_reason(item),
        kept_at_zero=0 if is_pod else kept_replicas(item),
        bound=kind is NAMESPACE and binds(annotations_of(item).get(well_known.BINDING) or "", setting=False),
        namespace_labels=labels,
        namespace_queue=namespace_queue,
        unmanaged=unmanaged,
        said=said_by_server(kind, item) or ("" if is_pod else _stopped_by_drain(item)),
        failure=str(_condition(item, "ReplicaFailure", "True").get("message") or ""),
        keys=key_lines(kind, item),
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


def _waiting_condition(kind: Type, item: Object) -> Mapping[str, Any]:
    """The condition that says why it waits; empty where there is none."""
    wanted = _WAITING.get(kind.kind)
    return _condition(item, *wanted) if wanted else {}


def _condition(item: Object, name: str, status: str) -> Mapping[str, Any]:
    for each in status_of(item).get("conditions") or ():
        if (each.get("type"), each.get("status")) == (name, status):
            return each  # type: ignore[no-any-return]
    return {}


def said_by_server(kind: Type, item: Object) -> str:
    """What the server has written on a pod or a PodGroup of why it waits; "" where it has not."""
    name = _OURS.get(kind.kind, "")
    if kind is POD and all(
        gate.get("name") != well_known.GATE for gate in spec_of(item).get("schedulingGates") or ()
    ):
        return ""
    message = _condition(item, name, "False").get("message")
    return str(message or "") if condition_writer(item, name) == _SERVER else ""


def _idle_reason(item: Object) -> str:
    """Why a workload makes no pods by its own spec; empty where it makes pods."""
    drained = _stopped_by_drain(item)
    if drained:
        return drained
    if spec_of(item).get("suspend") is True:
        return "spec.suspend is true, so it makes no pods"
    return "spec.replicas is 0, so it makes no pods" if spec_of(item).get("replicas") == 0 else ""


def _stopped_by_drain(item: Object) -> str:
    """That the drain of its queue keeps a workload from making pods, as its annotation says; else ""."""
    if spec_of(item).get("suspend") is True:
        if well_known.SUSPENDED not in annotations_of(item):
            return ""
        return "its queue suspended it (spec.suspend is true) and resumes it once the queue schedules again"
    number = kept_replicas(item)
    if not number:
        return ""
    record = parse_scale_record(annotations_of(item)[well_known.SUSPENDED])
    return (
        f"the drain of queue {quoted(record.queue if record else '')} brought it to zero replicas, from "
        f"{number}; they come back once its queue schedules again"
    )


def observed_chain(name: str, queues: QueueObjects) -> ObservedQueues:
    """The chain of a queue as the rules take it. `queues`: with others or without."""
    chain = queues.tree.chain(name).queues if name in queues.tree else ()
    items = [queues.items[queue.name] for queue in chain if queue.name in queues.items]
    return ObservedQueues(
        tree=queues.tree,
        records={name_of(item): _record(item, chain=queues.chain(name_of(item))) for item in items},
        now=queues.now,
        unread=next((queue.name for queue in chain if not queues.is_known(queue)), ""),
    )


def observed_queues(queues: QueueObjects) -> ObservedQueues:
    """All of them, as the rules take them."""
    return ObservedQueues(
        tree=queues.tree,
        records={name: _record(item, chain=queues.chain(name)) for name, item in queues.items.items()},
        now=queues.now,
        all_read=queues.complete,
    )


def _record(item: Object, *, chain: ObservedChain) -> QueueRecord:
    parked, quota = parked_counts(item), quota_use(item)
    acknowledgement = stop_acknowledgement(item, chain=chain)
    is_stopped = acknowledgement is Acknowledgement.ACKNOWLEDGED
    return QueueRecord(
        changes=changes_of(item),
        created=str(value_at(item, "metadata.creationTimestamp") or ""),
        closing=read_closing(status_of(item).get("closing")),
        observed=is_observed(item),
        acknowledgement=acknowledgement,
        acknowledged_since=condition_since(item, ACTIVE) if is_stopped else "",
        waiting_for=waiting_for(status_of(item).get("stop")),
        live=may_be_live(item),
        gated=parked.gated,
        ungated=parked.ungated,
        recreating=parked.recreating,
        used=quota.used if quota else None,
        waiting=quota.waiting if quota else None,
        not_enforced=not_enforced(item, is_stopped=is_stopped),
        releases_nothing=releases_nothing(item),
        claim=quota.claim if quota else None,
        force_deleted=quota.force_deleted if quota else {},
        kept_for_gangs=quota.kept_for_gangs if quota else {},
        kept_for=quota.kept_for if quota else (),
        beside=quota.beside if quota else {},
        reported=_reported(item),
    )


def _reported(item: Object) -> ReportedStatus:
    """What the status of a queue says of it, as far as that is of its present spec."""
    if not is_observed(item):
        return ReportedStatus()
    schedules, stop = _reported_by(item, ACTIVE)
    accepts, refusal = _reported_by(item, ACCEPTING)
    if schedules and status_of(item).get("stop"):
        schedules, stop = False, f"queue {quoted(name_of(item))} is stopped, which is not acknowledged yet"
    state = str(status_of(item).get("state") or "")
    return ReportedStatus(
        state=State(state) if state in set(State) else None,
        schedules=schedules,
        accepts=accepts,
        stop=stop,
        refusal=refusal,
    )


def _reported_by(item: Object, condition: str) -> tuple[bool | None, str]:
    """Whether the condition is True, and else its message; None where it is not of the present spec."""
    found = condition_of(item, condition)
    if not found or int(found.get("observedGeneration") or 0) < generation_of(item):
        return None, ""
    if found.get("status") == "True":
        return True, ""
    return False, str(found.get("message") or found.get("reason") or "")
