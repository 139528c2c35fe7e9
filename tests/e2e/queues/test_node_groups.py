"""Node groups of queues (`spec.affinity`) on the real kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queues.node_groups import LABEL, PREFERRED, REQUIRED
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GROUPED_BY, gates, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

#: The groups of the three nodes.
GROUPS = ("big", "small", None)


@pytest.fixture
def nodes(sandbox: Sandbox) -> Iterator[dict[str, str | None]]:
    """Their groups, by their names."""
    items = sandbox.api.get("/api/v1/nodes").must().body["items"]
    groups = dict(zip(sorted(item["metadata"]["name"] for item in items), GROUPS, strict=True))
    for name, group in groups.items():
        label(sandbox, name, group)
    yield groups
    for name in groups:
        label(sandbox, name, None)


def label(sandbox: Sandbox, node: str, group: str | None) -> None:
    sandbox.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {LABEL: group}}}).must()


def wanted(required: list[str], preferred: list[str] | None = None) -> Object:
    return {"nodeGroupAffinity": {REQUIRED: required, PREFERRED: preferred or []}}


def test_pods_run_where_the_nearest_queue_says(sandbox: Sandbox, nodes: dict[str, str | None]) -> None:
    lab = sandbox.queue("lab", affinity=wanted(["big", "small"], preferred=["small"]))
    queues = {
        sandbox.queue("team", parent=lab): "small",
        sandbox.queue("other", affinity={"nodeGroupAntiAffinity": {REQUIRED: ["big", "small"]}}): None,
        sandbox.queue("huge", parent=lab, affinity=wanted(["big"])): "big",
    }
    pods = {name: group for queue, group in queues.items() for name in sandbox.pods(queue, 2, queue)}
    until(lambda: all(on_a_node(sandbox.read_pod(name)) for name in pods), "all to run")
    assert {name: nodes[sandbox.read_pod(name)["spec"]["nodeName"]] for name in pods} == pods


def test_no_edit_takes_a_pod_out_of_its_groups(sandbox: Sandbox, nodes: dict[str, str | None]) -> None:
    """Not by a node that it names, not by terms of its own, and not while it waits at a gate."""
    queue = sandbox.queue(affinity=wanted(["big"]))
    outside = next(name for name, group in nodes.items() if group == "small")
    sandbox.pod("named", queue, nodeName=outside).must(201)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [outside]}]}
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term, {}]}}}
    sandbox.pod("picky", queue, affinity=own).must(201)
    for name in ("named", "picky"):
        sandbox.reason_on(name, "didn't match Pod's node affinity")
    sandbox.pod("gated", queue, gated=True).must(201)
    widened = [{"op": "remove", "path": "/spec/affinity"}]
    assert sandbox.api.patch(f"{sandbox.pods_path}/gated", widened, kind="json").status == 422


def test_an_edit_leaves_what_exists_and_says_so(sandbox: Sandbox, nodes: dict[str, str | None]) -> None:
    queue = sandbox.queue()
    sandbox.pods("old", 2, queue)
    sandbox.all_bound(["old-0", "old-1"])
    answer = sandbox.patch_queue(queue, affinity=wanted(["big"]))
    keep = "the 2 pods that exist keep the node groups of before"
    assert any(keep in warning for warning in answer.warnings), answer.warnings
    assert "affinity" not in sandbox.read_pod("old-0")["spec"]


def test_a_pod_that_waits_for_its_podgroup_gets_the_groups_with_its_queue(
    sandbox: Sandbox, nodes: dict[str, str | None]
) -> None:
    queue = sandbox.queue(affinity=wanted(["big"]))
    sandbox.pod("work", annotations={GROUPED_BY: "gang"}).must(201)
    assert gates(sandbox.read_pod("work"))
    sandbox.podgroup("gang", queue)
    sandbox.all_bound(["work"])
    assert nodes[sandbox.read_pod("work")["spec"]["nodeName"]] == "big"
