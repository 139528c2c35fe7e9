"""Pods, what made them and the budgets over them, as `queues.drain` takes them.

Promises
- Which owner goes in the place of its pods is decided by `queues.drain.owners`, for the queues of one drain.
  A `batch.volcano.sh` Job that no controller has seen does not: nothing would carry its suspension out.
- A budget that cannot be read is left out: the eviction API decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from kubectl_queue.objects.fields import (
    Object,
    annotations_of,
    labels_of,
    spec_of,
    status_of,
    value_at,
)
from kubectl_queue.objects.workloads import OwnerReference, ReadWorkload, owner_reference
from queues.apimachinery.conversion import Converter
from queues.apimachinery.label_selectors import BadSelector
from queues.drain.broken_gangs import GangMinimum, counts_beside
from queues.drain.disruption_budgets import Budget, BudgetIndex, BudgetKey, BudgetObject, parse_budget
from queues.drain.model import RunningPod, Termination
from queues.drain.terminating_pods import requested_at
from queues.membership import GROUP_ANNOTATION, TASK
from queues.quota.gangs import gang_of, task_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_budget_object = Converter[BudgetObject](BudgetObject)


class OwnedPod(NamedTuple):
    """A pod on a node. `pod` has no workload: that depends on the drain. `owner`: the reference to its
    controller.
    """

    pod: RunningPod
    owner: OwnerReference | None


class GangPod(NamedTuple):
    """A pod that counts for the minimum of its gang, if the drain does not cover it (`counts_beside`)."""

    uid: str
    task: str


class Inventory(NamedTuple):
    """What was read of the queues of some drains, at one time.

    `pods`: those on nodes that have not finished. `owners`: workloads by UID. `budgets`: with the pods
    outside, where too few are allowed to go. `minimums` and `gang_pods`: by namespace and name of the
    PodGroup.
    """

    pods: tuple[OwnedPod, ...]
    owners: Mapping[str, ReadWorkload] = MappingProxyType({})
    budgets: BudgetIndex = BudgetIndex(())
    minimums: Mapping[BudgetKey, GangMinimum] = MappingProxyType({})
    gang_pods: Mapping[BudgetKey, tuple[GangPod, ...]] = MappingProxyType({})


def owned_pod(pod: Object, *, queue: str) -> OwnedPod:
    """`queue`: that of the pod."""
    owner = owner_reference(pod)
    return OwnedPod(_running_pod(pod, queue=queue, is_bare=owner is None or not owner.uid), owner)


def is_on_node(pod: Object) -> bool:
    return bool(spec_of(pod).get("nodeName"))


def is_leaving(pod: Object) -> bool:
    return bool(value_at(pod, "metadata.deletionTimestamp"))


def gang_key_of(pod: Object) -> BudgetKey:
    """Namespace and name of the PodGroup that it names; the name is empty where it names none."""
    name = str(annotations_of(pod).get(GROUP_ANNOTATION) or "")
    return str(value_at(pod, "metadata.namespace") or ""), name


def gang_pod(pod: Object) -> GangPod | None:
    """None where it counts for no minimum."""
    phase = str(status_of(pod).get("phase") or "")
    if not counts_beside(phase, on_node=is_on_node(pod), leaving=is_leaving(pod)):
        return None
    return GangPod(_uid(pod), _task(pod))


def gang_minimum(podgroup: Object) -> GangMinimum | None:
    """None where its pods go by themselves."""
    spec = spec_of(podgroup)
    gang = gang_of(
        _uid(podgroup),
        "",
        _EPOCH,
        min_member=_number(spec.get("minMember")),
        min_task_member=spec.get("minTaskMember"),
    )
    return None if gang.least <= 1 else GangMinimum(least=gang.least, tasks=gang.tasks)


def _running_pod(pod: Object, *, queue: str, is_bare: bool) -> RunningPod:
    conditions = status_of(pod).get("conditions") or ()
    return RunningPod(
        uid=_uid(pod),
        namespace=str(value_at(pod, "metadata.namespace") or ""),
        name=str(value_at(pod, "metadata.name")),
        queue=queue,
        labels=labels_of(pod),
        created=_created(pod),
        priority=int(spec_of(pod).get("priority") or 0),
        pod_group=gang_key_of(pod)[1],
        task=_task(pod),
        bare=is_bare,
        ready=any((each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions),
        running=status_of(pod).get("phase") == "Running",
        leaving=is_leaving(pod),
        grace_period=_number(spec_of(pod).get("terminationGracePeriodSeconds")),
        termination=termination_of(pod),
    )


def _task(pod: Object) -> str:
    return task_of(str(annotations_of(pod).get(TASK) or ""), str(labels_of(pod).get(TASK) or ""))


def termination_of(pod: Object) -> Termination | None:
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
