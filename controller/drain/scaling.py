"""Workloads that a drain brings to zero replicas past its deadline, and back afterwards.

`queues.scale_record` has the invariants and the table: what is recorded on the workload, and when it is put
back. Here are the requests.

Invariants
- Each is one JSON patch that tests what it depends on: the UID, and the former `spec.replicas`. Putting back
  also tests the record and the resource version, since a scale by somebody else in between shows in neither
  of the others where it set 0 again.
- Scaling is not conditional on the resource version: a user who writes the workload all the time would keep
  it from being scaled.
- A workload is scaled only if all its running pods are of queues that are drained, as the API server says
  just before. Otherwise their controller might delete one of another queue.
- A HorizontalPodAutoscaler leaves a workload of no replicas alone ("ScalingDisabled"), and goes on once they
  are put back. What it sets in between counts as anybody else's edit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cluster.api.client import JSON_PATCH, Client, decode_response
from cluster.cache.store import Store
from cluster.cache.workloads import Workload
from cluster.exceptions import Conflict, NotFound, Refused
from cluster.objects import Metadata, Pod
from controller.drain.eviction import NotScalable
from controller.drain.job_commands import JobResumeStep
from controller.evictions import budget_reader
from controller.evictions.suspend_patches import UNPROCESSABLE, mark_patch, unmark_patch, workload_path
from queues import well_known
from queues.apimachinery.label_selectors import BadSelector, parse_selector
from queues.drain.model import SuspendableWorkload
from queues.scale_record import MANAGER, RecordStep, ScaleRecord, is_set_by_others, record_step
from queues.workload_kinds import KINDS, MAX_OWNERS
from queues.world.members import controller_reference

#: How often putting back is tried where the workload is changed at the same time.
TRIES = 3


class _ScaledMetadata(Metadata, frozen=True):
    managed_fields: list[dict[str, Any]] | None = None


class _Spec(msgspec.Struct, frozen=True):
    replicas: int = 1
    selector: Any = None


class _Scaled(msgspec.Struct, frozen=True):
    """A workload of a kind that is scaled, as the API server has it."""

    metadata: _ScaledMetadata
    spec: _Spec = _Spec()

    @property
    def is_controlled(self) -> bool:
        return controller_reference(self.metadata.owner_references) is not None


_scaled = msgspec.json.Decoder(_Scaled)


def scale_to_zero(
    client: Client,
    store: Store,
    workload: SuspendableWorkload,
    *,
    drain: str,
    check_drains: Callable[[], None],
) -> None:
    """Bring it to zero and record by which `drain`.

    `check_drains`: called just before the write; raises where the drain has ended. Raises `NotScalable`, and
    `ClusterError` where it is gone or was changed meanwhile.
    """
    path = workload_path(KINDS[workload.kind], workload.namespace, workload.name)
    obj = decode_response(client.get(path), _scaled)
    if obj.metadata.uid != workload.uid or obj.metadata.deletion_timestamp is not None:
        raise NotFound(404, "NotFound", f"{workload} is gone")
    if not obj.spec.replicas:
        raise Conflict(409, "Conflict", f"{workload} wants no replicas")
    if obj.is_controlled:
        raise NotScalable(f"another object controls {workload}, and would put its replicas back")
    _check_pods(client, store, workload, obj)
    check_drains()
    patch = [
        *mark_patch(workload.uid, obj.metadata.annotations, str(ScaleRecord(drain, obj.spec.replicas))),
        {"op": "test", "path": "/spec/replicas", "value": obj.spec.replicas},
        {"op": "replace", "path": "/spec/replicas", "value": 0},
    ]
    try:
        client.patch(path, patch, content_type=JSON_PATCH, fieldManager=MANAGER)
    except Refused as exc:
        if exc.status != UNPROCESSABLE:
            raise
        raise Conflict(409, "Conflict", f"{workload} was changed meanwhile: {exc.message}") from exc


def put_back(client: Client, workload: Workload, *, schedules: bool) -> JobResumeStep:
    """Put the recorded replicas back, or drop a record that does not count any more; what was done.

    `schedules`: whether its queue does. `JobResumeStep.WAIT`: it is changed all the time; try it again later.
    """
    path = workload_path(workload.kind, workload.namespace, workload.name)
    for _ in range(TRIES):
        obj = decode_response(client.get(path), _scaled)
        mark = obj.metadata.annotation(well_known.SUSPENDED)
        step = record_step(
            mark,
            replicas=obj.spec.replicas,
            controlled=obj.is_controlled,
            set_by_others=is_set_by_others(obj.metadata.managed_fields),
            schedules=schedules,
        )
        if step is RecordStep.NONE or obj.metadata.uid != workload.uid:
            return JobResumeStep.LEAVE
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": obj.metadata.resource_version},
            *unmark_patch(workload.uid, mark),
        ]
        if step is RecordStep.PUT_BACK:
            patch += _replicas_patch(mark)
        try:
            client.patch(path, patch, content_type=JSON_PATCH, fieldManager=MANAGER)
        except Refused as exc:
            if exc.status != UNPROCESSABLE:
                raise
        else:
            return JobResumeStep.GIVE_BACK if step is RecordStep.PUT_BACK else JobResumeStep.UNMARK
    return JobResumeStep.WAIT


def _replicas_patch(mark: str) -> list[dict[str, Any]]:
    _, _, replicas = mark.partition("/")
    return [
        {"op": "test", "path": "/spec/replicas", "value": 0},
        {"op": "replace", "path": "/spec/replicas", "value": int(replicas)},
    ]


def _check_pods(client: Client, store: Store, workload: SuspendableWorkload, obj: _Scaled) -> None:
    """Raises `NotScalable` if one of its running pods is of a queue that is not drained."""
    try:
        selector = parse_selector(obj.spec.selector)
    except BadSelector as exc:
        raise NotScalable(f"the selector of {workload} cannot be read: {exc}") from exc
    pods = budget_reader.list_pods(client, namespace=workload.namespace, selector=str(selector or ""))
    for pod in pods:
        if not budget_reader.runs(pod) or is_drained(store, pod):
            continue
        if _may_be_of(store, pod, workload.uid):
            raise NotScalable(f"its pod {pod.metadata.name} is of a queue that is not drained")


def _may_be_of(store: Store, pod: Pod, uid: str) -> bool:
    """Whether the workload made the pod, or an owner that is not known did."""
    reference = controller_reference(pod.metadata.owner_references)
    above = reference.uid if reference else ""
    for _ in range(MAX_OWNERS):
        if above == uid:
            return True
        owner = store.workloads.by_uid(above) if above else None
        if owner is None:
            break
        above = owner.owner_uid
    return bool(above)


def is_drained(store: Store, pod: Pod) -> bool:
    """Whether the pod, as the API server has it, is of a queue that is drained."""
    member = store.members.by_uid(pod.metadata.uid)
    queue = member.queue if member is not None else pod.metadata.annotation(well_known.QUEUE)
    return bool(queue) and store.snapshot.decision(queue).drains
