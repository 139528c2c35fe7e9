"""Pods, what made them and the budgets over them, as `queues.drain` takes them.

Promises
- Jobs, JobSets (which own their Jobs) and `batch.volcano.sh` Jobs can be suspended; the last only once their
  controller has seen them, since otherwise no controller would carry the suspension out. So can none that
  `spec.managedBy` gives to another controller.
- A Deployment, StatefulSet or ReplicaSet goes in the place of its pods only where these kinds were read,
  which is past a deadline with `afterDeadline: Scale`, and where no other object controls it.
- A budget that cannot be read is left out: the eviction API decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from kubectl_queue.objects.fields import (
    Object,
    annotations_of,
    controller_of,
    labels_of,
    spec_of,
    status_of,
    value_at,
)
from queues import well_known
from queues.apimachinery.conversion import Converter
from queues.apimachinery.label_selectors import BadSelector
from queues.drain.broken_gangs import GangMinimum
from queues.drain.disruption_budgets import Budget, BudgetKey, BudgetObject, parse_budget
from queues.drain.model import RunningPod, SuspendableWorkload, Termination
from queues.drain.terminating_pods import requested_at
from queues.membership import GROUP_ANNOTATION, TASK
from queues.quota.gangs import gang_of, task_of
from queues.scale_record import kept_at_zero
from queues.workload_kinds import MAX_OWNERS, Life, Suspension, WorkloadKind, find_kind_of_owner

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_budget_object = Converter[BudgetObject](BudgetObject)


class Inventory(NamedTuple):
    """What was read, at one time. `unscheduled`: the pods that are on no node. `minimums`: of the gangs, by
    namespace and name of the PodGroup.
    """

    pods: tuple[RunningPod, ...]
    unscheduled: tuple[RunningPod, ...] = ()
    budgets: tuple[Budget, ...] = ()
    minimums: Mapping[BudgetKey, GangMinimum] = MappingProxyType({})


class SuspendableWorkloads:
    """The workloads that can be suspended, or scaled, by UID, as far as they were read."""

    def __init__(self, items: Mapping[str, Iterable[Object]]) -> None:
        """`items`: by the key of their kind."""
        self._by_uid = {_uid(item): (kind, item) for kind, those in items.items() for item in those}

    def owner_of(self, pod: Object) -> SuspendableWorkload | None:
        """The topmost of the pod's owners that can be suspended or scaled."""
        namespace = str(value_at(pod, "metadata.namespace") or "")
        topmost, reference = None, controller_of(pod)
        for _ in range(MAX_OWNERS):
            work = self._work(reference, namespace=namespace)
            if work is None:
                break
            topmost = work
            reference = controller_of(self._by_uid.get(work.uid, ("", {}))[1])
        return None if topmost is not None and topmost.scaled and reference else topmost

    def _work(self, reference: Mapping[str, Any], *, namespace: str) -> SuspendableWorkload | None:
        kind = find_kind_of_owner(str(reference.get("apiVersion")), str(reference.get("kind")))
        uid = str(reference.get("uid"))
        is_scaled = kind is not None and kind.life is Life.WHILE_SCALED and uid in self._by_uid
        if kind is None or (kind.suspension is None and not is_scaled):
            return None
        _, item = self._by_uid.get(uid, (kind.key, {}))
        if kind.suspension is Suspension.COMMAND and not value_at(item, "status.state.phase"):
            return None
        if kind.is_delegated(spec_of(item).get("managedBy")):
            return None
        name = str(reference.get("name"))
        return SuspendableWorkload(
            kind=kind.key,
            namespace=namespace,
            name=name,
            uid=uid,
            scaled=is_scaled,
            suspended=kept_replicas(item) > 0 if is_scaled else _is_suspended(kind, item),
        )


def kept_replicas(item: Object) -> int:
    """The replicas that a workload gets back, while a drain keeps it at zero; 0 if none does."""
    return kept_at_zero(
        str(annotations_of(item).get(well_known.SUSPENDED) or ""),
        replicas=spec_of(item).get("replicas"),
        controlled=bool(controller_of(item)),
    )


def _is_suspended(kind: WorkloadKind, item: Object) -> bool:
    return spec_of(item).get("suspend") is True or value_at(item, "status.state.phase") in kind.paused_phases


def inventory(
    pods: Iterable[Object],
    *,
    queue: Callable[[Object], str],
    workloads: SuspendableWorkloads,
    budgets: Iterable[Budget] = (),
    podgroups: Iterable[Object] = (),
) -> Inventory:
    """The values that `queues.drain` works on, from objects of the API. `queue`: that of a pod."""
    scheduled: list[RunningPod] = []
    unscheduled: list[RunningPod] = []
    for pod in pods:
        running = _running_pod(pod, queue=queue(pod), workloads=workloads)
        (scheduled if spec_of(pod).get("nodeName") else unscheduled).append(running)
    minimums = dict(filter(None, map(_minimum, podgroups)))
    return Inventory(tuple(scheduled), tuple(unscheduled), tuple(budgets), minimums)


def _minimum(podgroup: Object) -> tuple[BudgetKey, GangMinimum] | None:
    """None where its pods go by themselves."""
    spec = spec_of(podgroup)
    gang = gang_of(
        _uid(podgroup),
        "",
        _EPOCH,
        min_member=_number(spec.get("minMember")),
        min_task_member=spec.get("minTaskMember"),
    )
    if gang.least <= 1:
        return None
    key = (str(value_at(podgroup, "metadata.namespace") or ""), str(value_at(podgroup, "metadata.name")))
    return key, GangMinimum(least=gang.least, tasks=gang.tasks)


def _running_pod(pod: Object, *, queue: str, workloads: SuspendableWorkloads) -> RunningPod:
    reference = controller_of(pod)
    conditions = status_of(pod).get("conditions") or ()
    return RunningPod(
        uid=_uid(pod),
        namespace=str(value_at(pod, "metadata.namespace") or ""),
        name=str(value_at(pod, "metadata.name")),
        queue=queue,
        labels=labels_of(pod),
        created=_created(pod),
        priority=int(spec_of(pod).get("priority") or 0),
        pod_group=str(annotations_of(pod).get(GROUP_ANNOTATION) or ""),
        task=task_of(str(annotations_of(pod).get(TASK) or ""), str(labels_of(pod).get(TASK) or "")),
        workload=workloads.owner_of(pod),
        bare=not reference,
        daemon=reference.get("kind") == "DaemonSet",
        ready=any((each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions),
        running=status_of(pod).get("phase") == "Running",
        leaving=bool(value_at(pod, "metadata.deletionTimestamp")),
        grace_period=_number(spec_of(pod).get("terminationGracePeriodSeconds")),
        termination=_termination(pod),
    )


def _termination(pod: Object) -> Termination | None:
    """Its deletion; None where it is not being deleted, or that cannot be read."""
    grace = _number(value_at(pod, "metadata.deletionGracePeriodSeconds"))
    try:
        ends_at = datetime.fromisoformat(str(value_at(pod, "metadata.deletionTimestamp")))
    except ValueError:
        return None
    return Termination(
        requested_at=requested_at(ends_at if ends_at.tzinfo else ends_at.replace(tzinfo=UTC), grace=grace),
        grace=grace,
        node=str(spec_of(pod).get("nodeName") or ""),
        finalizers=tuple(map(str, value_at(pod, "metadata.finalizers") or ())),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _created(pod: Object) -> datetime:
    try:
        return datetime.fromisoformat(str(value_at(pod, "metadata.creationTimestamp")))
    except ValueError:
        return _EPOCH


def _uid(item: Object) -> str:
    return str(value_at(item, "metadata.uid") or "")


def read_budgets(items: Iterable[Object]) -> Iterator[Budget]:
    for item in items:
        try:
            yield parse_budget(_budget_object(item))
        except (BadSelector, msgspec.ValidationError):
            continue
