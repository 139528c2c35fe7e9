"""What admission changes on a pod, as steps of a JSON patch. Pure.

A member gets
- annotation and label `sluice.dev/queue`, over whatever its user wrote there, and annotation
  `sluice.dev/admission`, which names the request that brought it. While the PodGroup that it names does not
  exist, it gets an empty label alone;
- in mode `extender` the marker, a request for the resource `sluice.dev/member`: kube-scheduler calls the
  extender for it. In mode `scheduler` it gets our own kube-scheduler's name instead, and in mode `gate`
  neither (`queues.mode`);
- the scheduling gate `sluice.dev/queue`, where its queue does not schedule, and `sluice.dev/quota`, where it
  has a quota;
- in place of `spec.nodeName`, a node affinity; and that of its queue's node groups (`queues.node_groups`).

A pod that is stored with `spec.nodeName` runs at once, past filter and the bind guard, and whether it will be
stored cannot be known while its request is under way. So the name becomes the node affinity that DaemonSet
pods have (`matchFields` on `metadata.name`), which kube-scheduler looks up directly. Every rule for members
then holds for it too: its queue's stops, the guard on its bind, and the node's taints and room.

| affinity before                   | after                                                       |
|-----------------------------------|-------------------------------------------------------------|
| none required                     | one term: the node                                          |
| required terms (any may hold)     | each of them, and the node                                  |
| an empty term (holds for no node) | is left out, unless there are no others                     |

Source: `k8s.io/kubernetes/pkg/controller/daemon/util`, `ReplaceDaemonSetPodNodeNameNodeAffinity`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cluster.objects import Pod
from queues import well_known
from queues.membership import GROUP_ANNOTATION, label_value
from queues.mode import Mode
from queues.node_groups import REQUIRED, NodeGroups, with_node_groups
from queues.workload_gangs import WorkloadGang
from queues.world.members import is_marked
from webhooks.json_patch import PatchStep, join_patches, json_pointer, patch_map
from webhooks.settings import AdmissionSettings

#: What only the server writes on pods; a new pod brings none of it.
_OURS: dict[str, str | None] = dict.fromkeys((well_known.QUEUE, well_known.ADMISSION, well_known.UNTAKEN))
_NO_MARKERS: dict[str, str | None] = {well_known.MARKER: None, well_known.SCORED: None}


def set_queue(pod: Pod, queue: str, *, admission: str) -> tuple[PatchStep, ...]:
    """The queue, and by which request the pod came to it."""
    wanted: dict[str, str | None] = {**_OURS, well_known.QUEUE: queue, well_known.ADMISSION: admission}
    return join_patches(
        patch_map("/metadata/annotations", pod.metadata.annotations, wanted),
        patch_map("/metadata/labels", pod.metadata.labels, {well_known.QUEUE: label_value(queue)}),
    )


def set_waiting(pod: Pod) -> tuple[PatchStep, ...]:
    """A member of no queue yet: it waits for its PodGroup."""
    return join_patches(
        patch_map("/metadata/annotations", pod.metadata.annotations, _OURS),
        patch_map("/metadata/labels", pod.metadata.labels, {well_known.QUEUE: ""}),
    )


def set_gang(pod: Pod, gang: WorkloadGang, *, podgroup: str) -> list[PatchStep]:
    """Which gang of a workload the pod is of: its PodGroup, and what the leader makes that from. The pod has
    annotations, from the template.
    """
    wanted: dict[str, str | None] = {GROUP_ANNOTATION: podgroup, well_known.GANG: str(gang)}
    return patch_map("/metadata/annotations", pod.metadata.annotations, wanted)


def remove_queue(pod: Pod) -> tuple[PatchStep, ...]:
    """Our own keys mean nothing on a pod of no queue."""
    return join_patches(
        patch_map("/metadata/annotations", pod.metadata.annotations, _OURS),
        patch_map("/metadata/labels", pod.metadata.labels, {well_known.QUEUE: None}),
    )


def set_scheduling_mode(pod: Pod, *, scored: bool, settings: AdmissionSettings) -> list[PatchStep]:
    """By which way the pod's scheduler asks us, as the mode says; `scored`: it asks for scores too.

    A pod of a scheduler that is not named in the settings keeps it, and gets no marker: with one it would
    count as a pod that filter is called for.
    """
    if pod.spec.scheduler_name not in settings.marked_schedulers or settings.mode is Mode.GATE:
        return remove_marker(pod)
    if settings.mode is Mode.SCHEDULER:
        name = {"op": "add", "path": "/spec/schedulerName", "value": settings.scheduler_name}
        return [*remove_marker(pod), name]
    return _set_marker(pod, scored=scored)


def _set_marker(pod: Pod, *, scored: bool) -> list[PatchStep]:
    containers = pod.spec.containers or []
    if not containers:
        return []
    place = json_pointer("spec", "containers", 0, "resources")
    resources = containers[0].resources
    wanted: dict[str, str | None] = {well_known.SCORED: "1" if scored else None}
    if not is_marked(pod):
        wanted = {well_known.MARKER: "1", **wanted}
    if resources is None:
        added = {key: value for key, value in wanted.items() if value is not None}
        return [{"op": "add", "path": place, "value": {"requests": added, "limits": added}}] if added else []
    return [
        *patch_map(place + "/requests", resources.requests, wanted),
        *patch_map(place + "/limits", resources.limits, wanted),
    ]


def remove_marker(pod: Pod) -> list[PatchStep]:
    steps: list[PatchStep] = []
    for name, containers in (
        ("containers", pod.spec.containers),
        ("initContainers", pod.spec.init_containers),
    ):
        for number, container in enumerate(containers or ()):
            resources, place = container.resources, json_pointer("spec", name, number, "resources")
            if resources is not None:
                steps += patch_map(place + "/requests", resources.requests, _NO_MARKERS)
                steps += patch_map(place + "/limits", resources.limits, _NO_MARKERS)
    return steps


def has_gate(pod: Pod, gate: str = well_known.GATE) -> bool:
    return any(each.name == gate for each in pod.spec.scheduling_gates or ())


def add_gates(pod: Pod, gates: Iterable[str]) -> list[PatchStep]:
    """Those of these gates that the pod does not have."""
    missing = [{"name": gate} for gate in gates if not has_gate(pod, gate)]
    place = "/spec/schedulingGates"
    if missing and pod.spec.scheduling_gates is None:
        return [{"op": "add", "path": place, "value": missing}]
    return [{"op": "add", "path": place + "/-", "value": gate} for gate in missing]


def set_affinity(pod: Pod, groups: NodeGroups | None) -> list[PatchStep]:
    """The steps that put a pod on its node by its affinity instead of by its name, and into the groups."""
    node, affinity = pod.spec.node_name, pod.spec.affinity
    steps: list[PatchStep] = [{"op": "remove", "path": "/spec/nodeName"}] if node else []
    if node:
        affinity = pin_to_node(affinity, node)
    if groups is not None:
        affinity = with_node_groups(affinity, groups)
    if affinity and affinity != pod.spec.affinity:
        steps.append({"op": "add", "path": "/spec/affinity", "value": affinity})
    return steps


def pin_to_node(affinity: Any, node: str) -> dict[str, Any]:
    """The pod's affinity, narrowed to this node."""
    affinity = _object(affinity)
    node_affinity = _object(affinity.get("nodeAffinity"))
    required = _object(node_affinity.get(REQUIRED))
    terms = required.get("nodeSelectorTerms")
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    if isinstance(terms, list) and terms:
        pinned = [_with_field(term, field) for term in terms if term] or terms
    else:
        pinned = [{"matchFields": [field]}]
    return {
        **affinity,
        "nodeAffinity": {**node_affinity, REQUIRED: {**required, "nodeSelectorTerms": pinned}},
    }


def _with_field(term: Any, field: dict[str, Any]) -> dict[str, Any]:
    fields = _object(term)
    return {**fields, "matchFields": [*(fields.get("matchFields") or []), field]}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
