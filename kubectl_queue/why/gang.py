"""Reads the pods of a PodGroup, as `queues.why.gang` takes them.

Promise: where the pods of its namespace may not be listed, there is no report.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import (
    Object,
    annotations_of,
    condition_of,
    labels_of,
    name_of,
    spec_of,
    status_of,
    value_at,
)
from kubectl_queue.why.podgroups import read_podgroup
from kubectl_queue.why.room import waiting_pod, waits_for_room
from queues import well_known
from queues.membership import GROUP_ANNOTATION, TASK, label_value
from queues.quota.devices import Devices
from queues.quota.gangs import GangPod, PodState, task_of
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import limits_of, never_lack
from queues.status.podgroup_conditions import released_until
from queues.tree import Tree
from queues.why.explanation import GangReport
from queues.why.gang import gang_report


class ReadGroup(NamedTuple):
    """`entry`: what waits for room; None where nothing is asked for."""

    report: GangReport
    entry: WaitingPod | None


def read_group(client: ApiClient, group: Object, queue: str, *, tree: Tree) -> ReadGroup | None:
    """The pods of the PodGroup in its queue; None where they may not be listed."""
    namespace = quote(str(value_at(group, "metadata.namespace") or ""), safe="")
    query = {"labelSelector": f"{well_known.QUEUE}={label_value(queue)}"}
    with suppress(ForbiddenError):
        listed = client.list(f"/api/v1/namespaces/{namespace}/pods", query=query, kind="pods").items
        pods = [pod for pod in listed if annotations_of(pod).get(GROUP_ANNOTATION) == name_of(group)]
        limits = limits_of(tree.chain(queue)) if queue in tree else ()
        states = {id(pod): _state(pod, is_bounded=bool(limits)) for pod in pods}
        report, entry = gang_report(
            read_podgroup(group, queue=queue).gang,
            [_member(pod, state, queue) for pod in pods if (state := states[id(pod)]) is not None],
            phase=str(status_of(group).get("phase") or ""),
            said=[_said(pod) for pod in pods if states[id(pod)] is PodState.RELEASED],
            until=released_until(str(condition_of(group, "Scheduled").get("message") or "")),
            never=partial(never_lack, limits),
            is_held=bool(limits) or queue not in tree,
        )
        return ReadGroup(report, entry)
    return None


def gang_pod(pod: Object, queue: str, *, is_bounded: bool, devices: Devices | None = None) -> GangPod | None:
    """The pod of a PodGroup as the rules take it; None where it counts for nothing. `is_bounded`: whether a
    queue of its chain has a capability.
    """
    state = _state(pod, is_bounded=is_bounded)
    return _member(pod, state, queue, devices) if state is not None else None


def _member(pod: Object, state: PodState, queue: str, devices: Devices | None = None) -> GangPod:
    task = task_of(annotations_of(pod).get(TASK) or "", labels_of(pod).get(TASK) or "")
    return GangPod(waiting_pod(pod, queue, devices), state, task)


def _state(pod: Object, *, is_bounded: bool) -> PodState | None:
    phase = status_of(pod).get("phase")
    if phase == "Succeeded":
        return PodState.SUCCEEDED
    if phase == "Failed":
        return None
    is_leaving, has_node = (
        bool(value_at(pod, "metadata.deletionTimestamp")),
        bool(spec_of(pod).get("nodeName")),
    )
    if is_leaving:
        return PodState.LEAVING if has_node else None
    if has_node:
        return PodState.PLACED
    gates = {gate.get("name") for gate in spec_of(pod).get("schedulingGates") or ()}
    is_held = well_known.QUOTA_GATE in gates or (is_bounded and waits_for_room(pod))
    return PodState.WAITS if is_held else PodState.RELEASED


def _said(pod: Object) -> str:
    condition = condition_of(pod, "PodScheduled")
    return str(condition.get("message") or "") if condition.get("reason") != "SchedulingGated" else ""
