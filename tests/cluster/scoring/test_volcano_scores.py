"""The scores of random clusters are those of Volcano itself, part by part.

`volcano_scores.json` has clusters (20 nodes, running pods, pods to score), and what a session of Volcano
1.10 gave each pod for each node, in the order of the nodes: by nodeorder, which calls the plugins of
Kubernetes 1.30, part by part with a weight of 1, and binpack with the arguments of the cluster.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.scoring.event_handlers import AssignedPodEventHandler, NodeEventHandler
from cluster.scoring.objects import Node, ScoredPod
from queues.policies.model import NodeOrder, Policy
from queues.policies.scheduler_conf import parse_policy
from queues.scoring.node_table import NodeTable
from queues.scoring.total import Scorer

CLUSTERS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("volcano_scores.json").read_text())
ALL = NodeOrder(
    least_requested=1,
    most_requested=1,
    node_affinity=1,
    pod_affinity=1,
    balanced_resource=1,
    taint_toleration=1,
    image_locality=1,
    pod_topology_spread=1,
)


def policy(cluster: dict[str, Any]) -> Policy:
    plugin = {"name": "binpack", "arguments": cluster["binpack"]}
    read = parse_policy(json.dumps({"actions": "allocate", "tiers": [{"plugins": [plugin]}]}))
    return msgspec.structs.replace(read, node_order=ALL)


def table_of(cluster: dict[str, Any]) -> NodeTable:
    table = NodeTable()
    NodeEventHandler(table).replace([msgspec.convert(node, Node) for node in cluster["nodes"]])
    AssignedPodEventHandler(table).replace([msgspec.convert(pod, ScoredPod) for pod in cluster["running"]])
    return table


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_each_part_is_that_of_volcano(cluster: dict[str, Any]) -> None:
    table = table_of(cluster)
    view = table.view()
    rows = view.select([node["metadata"]["name"] for node in cluster["nodes"]])
    scorer = Scorer(table, namespace_labels=lambda _: {})
    for body in cluster["pending"]:
        pod = msgspec.convert(body, ScoredPod)
        parts = scorer.parts(policy(cluster), view, rows, pod.request(), pod.placement())
        name = pod.metadata.name
        expected = {part: scores[name] for part, scores in cluster["scores"].items()}
        binpack = expected.pop("binpack")
        assert parts["binpack"].tolist() == pytest.approx(binpack, rel=1e-12), name
        got = {part: scores.tolist() for part, scores in parts.items() if part != "binpack"}
        assert got == expected, name


def test_the_cases_tell_nodes_apart() -> None:
    for cluster in CLUSTERS:
        for part, scores in cluster["scores"].items():
            assert sum(len(set(of_pod)) > 1 for of_pod in scores.values()) > 5, part
