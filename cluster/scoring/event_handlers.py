"""How nodes and assigned pods change the node table.

Each handler is called from its reflector's thread only.
"""

from __future__ import annotations

from cluster.scoring.objects import Node, ScoredPod
from queues.scoring.node_table import NodeTable


class NodeEventHandler:
    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def replace(self, objects: list[Node]) -> None:
        self._table.retain_nodes(node.metadata.name for node in objects)
        for node in objects:
            self.upsert(node)

    def upsert(self, obj: Node) -> None:
        self._table.set_node(obj.metadata.name, obj.allocatable(), obj.facts())

    def remove(self, obj: Node) -> None:
        self._table.remove_node(obj.metadata.name)


class AssignedPodEventHandler:
    """Pods with a node that have not ended; the watch selects them, and says when one is selected no more."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def replace(self, objects: list[ScoredPod]) -> None:
        self._table.retain_pods(pod.metadata.uid for pod in objects)
        for pod in objects:
            self.upsert(pod)

    def upsert(self, obj: ScoredPod) -> None:
        if obj.ended or not obj.spec.node_name:
            self._table.forget_pod(obj.metadata.uid)
            return
        self._table.see_pod(
            obj.metadata.uid,
            obj.spec.node_name,
            obj.request(),
            obj.placement(),
            terminating=obj.metadata.deletion_timestamp is not None,
        )

    def remove(self, obj: ScoredPod) -> None:
        self._table.forget_pod(obj.metadata.uid)
