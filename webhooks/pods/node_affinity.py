"""A member that names its node: it keeps to that node, and comes there by way of the scheduler.

A pod that is stored with `spec.nodeName` runs at once, past filter and the bind guard, and whether it will be
stored nobody can tell while its request is under way. So the name is turned into the node affinity that
DaemonSet pods have (`matchFields` on `metadata.name`), which kube-scheduler looks up directly. Every rule for
members then holds for it too: its queue's stops, the guard on its bind, and the node's taints and room.

| affinity before                   | after                                                       |
|-----------------------------------|-------------------------------------------------------------|
| none required                     | one term: the node                                          |
| required terms (any may hold)     | each of them, and the node                                  |
| an empty term (holds for no node) | is left out, unless there are no others                     |

Source: `k8s.io/kubernetes/pkg/controller/daemon/util`, `ReplaceDaemonSetPodNodeNameNodeAffinity`.
"""

from __future__ import annotations

from typing import Any

from webhooks.json_patch import PatchStep

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def replace_node_name(node: str, affinity: Any) -> list[PatchStep]:
    """The steps that put a pod on the node by its affinity instead of by its name."""
    return [
        {"op": "remove", "path": "/spec/nodeName"},
        {"op": "add", "path": "/spec/affinity", "value": pin_to_node(affinity, node)},
    ]


def pin_to_node(affinity: Any, node: str) -> dict[str, Any]:
    """The affinity of a pod, and no node but this one."""
    whole = _object(affinity)
    of_nodes = _object(whole.get("nodeAffinity"))
    required = _object(of_nodes.get(REQUIRED))
    terms = required.get("nodeSelectorTerms")
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    if isinstance(terms, list) and terms:
        kept = [_with_field(term, field) for term in terms if term] or terms
    else:
        kept = [{"matchFields": [field]}]
    return {**whole, "nodeAffinity": {**of_nodes, REQUIRED: {**required, "nodeSelectorTerms": kept}}}


def _with_field(term: Any, field: dict[str, Any]) -> dict[str, Any]:
    held = _object(term)
    return {**held, "matchFields": [*(held.get("matchFields") or []), field]}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
