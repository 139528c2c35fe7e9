"""Queues whose policies score nodes, on the real kube-scheduler with 40 nodes.

The same pods are placed by the formulae alone as well, in the order of their binds.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from cluster.scoring.objects import Node, ScoredPod
from localcluster.cluster import LocalCluster
from queues.policies.scheduler_conf import parse_policy
from queues.scoring.node_table import NodeTable
from queues.scoring.total import Scorer
from tests.conftest import end_abandoned, folder_name, start
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import pod_body
from tests.support.e2e.policies import patient
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

NODES = PODS = 40
#: Of 64 cores of a node: four pods fill it, beside small ones.
CPU, FILLS = "15", 4
CONFIG_MAPS = "/api/v1/namespaces/volcano-system/configmaps"
POLICIES = "volcano-scheduler-configmap"
PACKED = "actions: allocate, backfill\ntiers: [{plugins: [{name: binpack}]}]"
SPREAD = """\
actions: allocate, backfill
tiers:
- plugins:
  - name: nodeorder
    arguments: {leastrequested.weight: 1, balancedresource.weight: 0, nodeaffinity.weight: 0,
      podaffinity.weight: 0, tainttoleration.weight: 0, imagelocality.weight: 0, podtopologyspread.weight: 0}
"""
UNSCORED = "actions: allocate, backfill\ntiers: [{plugins: [{name: predicates}]}]"
POLICY_EVENTS = r'sluice_reflector_events_total\{kind="policies"\}'
NODE_LISTS = r'sluice_reflector_lists_total\{kind="(?:nodes|assigned-pods)"\}'


@pytest.fixture(scope="module")
def module_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    end_abandoned()
    started = start(
        tmp_path_factory.mktemp(folder_name(), numbered=True), nodes=NODES, edit_scheduler=patient
    )
    try:
        with Sandbox(started).api as api:
            api.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}}).must(201)
        yield started
    finally:
        started.stop()


@pytest.fixture
def sandbox(module_cluster: LocalCluster) -> Iterator[Sandbox]:
    """Pods of its own, which are gone afterwards: what they use counts for all."""
    made = Sandbox(module_cluster)
    yield made
    with made.api:
        try:
            made.leave()
        finally:
            made.api.delete(f"{CONFIG_MAPS}/{POLICIES}").must(200, 404)


def set_policies(sandbox: Sandbox, **policies: str) -> None:
    """Writes the ConfigMap."""
    body = {"metadata": {"name": POLICIES}, "data": policies}
    if sandbox.api.create(CONFIG_MAPS, body).status == 409:
        sandbox.api.patch(f"{CONFIG_MAPS}/{POLICIES}", {"data": policies}).must()


def change_policies(sandbox: Sandbox, **policies: str) -> None:
    """The same; returns once the server has read the change."""
    before = sandbox.counted(POLICY_EVENTS)
    set_policies(sandbox, **policies)
    until(lambda: sandbox.counted(POLICY_EVENTS) > before, "the change to be read", share=0)


def is_scoring(sandbox: Sandbox) -> bool:
    return sandbox.counted(NODE_LISTS) >= 2


@pytest.fixture
def queues(sandbox: Sandbox) -> tuple[str, str]:
    """One that packs, one that spreads; the server has read all that it scores with."""
    packed, spread = (
        sandbox.queue("packed", schedulerPolicy="packed"),
        sandbox.queue("spread", schedulerPolicy="spread"),
    )
    set_policies(sandbox, packed=PACKED, spread=SPREAD)
    until(lambda: is_scoring(sandbox), "nodes and pods to be read")
    until(lambda: has_marker(sandbox, packed), "the policies to be known")
    return packed, spread


def has_marker(sandbox: Sandbox, queue: str) -> bool:
    """Whether a pod of the queue would be sent to prioritize."""
    made = sandbox.pod("asks", queue, dry=True, cpu="1").must(201).body
    return "sluice.dev/scored" in str(made["spec"]["containers"][0]["resources"])


def backlog(sandbox: Sandbox, **queues: str) -> dict[str, list[str]]:
    """As many pods of each queue ("": of none), in turns; they wait for a kube-scheduler that starts then.

    kube-scheduler of 1.30 begins with them in the order of their names, later ones in any order. So the names
    take turns too: binds are answered in another order than pods are scored, which matters less the more the
    queues alternate.
    """
    sandbox.cluster.stop_components("kube-scheduler")
    try:
        cpus = {"packed": CPU, "spread": "1" if "packed" in queues else CPU, "none": ""}
        named = {prefix: [f"{number:02}-{prefix}" for number in range(PODS)] for prefix in queues}
        bodies = (
            pod_body(named[prefix][number], queue, cpu=cpus[prefix])
            for number in range(PODS)
            for prefix, queue in queues.items()
        )
        sandbox.flood(bodies)
    finally:
        sandbox.cluster.start_components("kube-scheduler")
    sandbox.all_bound([name for names in named.values() for name in names])
    return named


def placed(sandbox: Sandbox, names: Iterable[str]) -> Counter[str]:
    """How many of the pods are on each node."""
    pods = sandbox.read_pods()
    return Counter(pods[name]["spec"]["nodeName"] for name in names)


def in_order_of_their_binds(sandbox: Sandbox) -> list[Object]:
    pods = sandbox.read_pods()
    bound = [name for name, pod in pods.items() if "nodeName" in pod["spec"]]
    return [pods[bind.pod] for bind in sandbox.binds_of(bound)]


def formulae_alone(sandbox: Sandbox, scored: Mapping[str, str]) -> Mapping[str, Counter[str]]:
    """Where the pods go by the policies alone, in the order of their binds; the others go where they went.

    `scored`: the text of a policy by what its pods are called after their number.
    """
    table = NodeTable()
    names = []
    for item in sandbox.api.get("/api/v1/nodes").must().body["items"]:
        read = msgspec.convert(item, Node, strict=False)
        names.append(read.metadata.name)
        table.set_node(read.metadata.name, read.allocatable(), read.facts())
    scorer = Scorer(table, namespace_labels=lambda _: {})
    used: dict[str, Counter[str]] = {prefix: Counter() for prefix in scored}
    for body in in_order_of_their_binds(sandbox):
        prefix = body["metadata"]["name"].partition("-")[2]
        pod = msgspec.convert(body, ScoredPod)
        node = body["spec"]["nodeName"]
        if prefix in scored:
            fits = [name for name in names if free_cpu(table, name) >= pod.request().cpu]
            scores = scorer.scores(parse_policy(scored[prefix]), fits, pod.request(), pod.placement())
            node = fits[int(np.argmax(scores))]
            used[prefix][node] += 1
        table.see_pod(pod.metadata.uid, node, pod.request(), pod.placement())
    return used


def free_cpu(table: NodeTable, node: str) -> int:
    view = table.view()
    row = view.rows[node]
    return int(view.allocatable[row, 0] - view.used[row, 0])


def server_maps(cluster: LocalCluster) -> str:
    """What the processes of the server have loaded."""
    group = cluster.pids["server"]
    text = ""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if os.getpgid(int(folder.name)) == group:
                    text += (folder / "maps").read_text()
            except (ProcessLookupError, FileNotFoundError):
                continue
    assert "msgspec" in text
    return text


def test_while_no_policy_scores_nothing_is_watched_and_numpy_is_not_loaded(sandbox: Sandbox) -> None:
    queue = sandbox.queue("packed", schedulerPolicy="packed")
    sandbox.all_bound(sandbox.pods("without", 3, queue))
    change_policies(sandbox, packed=UNSCORED)
    sandbox.all_bound(sandbox.pods("unscored", 3, queue, cpu="1"))
    assert sandbox.counted(NODE_LISTS) == 0
    assert "numpy" not in server_maps(sandbox.cluster)
    set_policies(sandbox, packed=PACKED)
    until(lambda: is_scoring(sandbox), "nodes and pods to be read")
    assert "numpy" in server_maps(sandbox.cluster)


def test_a_queue_packs_and_another_spreads_beside_pods_of_no_queue(
    sandbox: Sandbox, queues: tuple[str, str]
) -> None:
    packed, spread = queues
    calls = sandbox.calls("/extender/filter"), sandbox.calls("/extender/prioritize")
    pods = backlog(sandbox, packed=packed, spread=spread, none="")
    for path, before in zip(("/extender/filter", "/extender/prioritize"), calls, strict=True):
        assert 2 * PODS <= sandbox.calls(path) - before < 3 * PODS  # none for pods of no queue
    nodes = {prefix: placed(sandbox, names) for prefix, names in pods.items()}
    alone = formulae_alone(sandbox, {"packed": PACKED, "spread": SPREAD})
    print({prefix: len(used) for prefix, used in nodes.items()})
    assert sorted(nodes["packed"].values()) == sorted(alone["packed"].values())
    assert len(nodes["packed"]) <= PODS // FILLS + 2
    # kube-scheduler binds side by side: two neighbours may be bound in the other order than they were scored.
    assert abs(len(nodes["spread"]) - len(alone["spread"])) <= 1
    assert len(nodes["spread"]) >= NODES - len(nodes["packed"])


def test_the_same_pods_fill_few_nodes_or_spread_over_all(sandbox: Sandbox, queues: tuple[str, str]) -> None:
    packed, spread = queues
    pods = backlog(sandbox, packed=packed)
    nodes = placed(sandbox, pods["packed"])
    assert sorted(nodes.values()) == [FILLS] * (PODS // FILLS)
    sandbox.delete_pods()
    pods = backlog(sandbox, spread=spread)
    assert len(placed(sandbox, pods["spread"])) == NODES


def test_a_change_of_the_policies_counts_while_pods_flow(sandbox: Sandbox, queues: tuple[str, str]) -> None:
    packed, _ = queues
    first = sandbox.pods("first", PODS, packed, cpu="1")
    change_policies(sandbox, packed=SPREAD)
    after = sandbox.pods("after", PODS, packed, cpu="1")
    sandbox.all_bound([*first, *after])
    nodes = placed(sandbox, after)
    assert len(nodes) >= NODES - 3
    change_policies(sandbox, packed=PACKED)
    last = sandbox.pods("last", PODS, packed, cpu="1")
    sandbox.all_bound(last)
    assert len(placed(sandbox, last[PODS // 2 :])) <= 3


def test_the_server_restarts_while_a_burst_runs(sandbox: Sandbox, queues: tuple[str, str]) -> None:
    packed, _ = queues
    sandbox.cluster.stop_components("kube-scheduler")
    names = sandbox.pods("burst", 4 * PODS, packed, cpu="1")
    sandbox.cluster.start_components("kube-scheduler")
    until(lambda: sandbox.bound(names), "the first binds", share=0)
    sandbox.cluster.restart_components("server")
    sandbox.all_bound(names)
    nodes = placed(sandbox, names)
    print(nodes.most_common())
    few = -(-4 * PODS // (FILLS * int(CPU)))
    assert sum(count for _, count in nodes.most_common(few)) >= 0.9 * len(names)
