"""Gangs that no node takes: they give back themselves, wait for their pause, and hold up no other queue."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from queues.well_known import QUOTA_GATE
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GROUPED_BY, on_a_node, why
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import REPLICA_SET, work_body

#: It waits for the times that gangs have.
pytestmark = pytest.mark.long
WITHIN = "sluice.dev/place-within"
BUDGETS = "poddisruptionbudgets"
NO_NODE = {"example.com/there-is": "none"}


def replica_set(
    sandbox: Sandbox, name: str, queue: str, *, replicas: int, group: str = "", takes: bool = False
) -> None:
    """`takes`: whether nodes take its pods."""
    body = work_body(
        REPLICA_SET, name, queue, cpu="1", annotations={GROUPED_BY: group or name}, replicas=replicas
    )
    body["spec"]["template"]["spec"]["nodeSelector"] = {} if takes else NO_NODE
    sandbox.make(REPLICA_SET, body).must(201)


def gang(sandbox: Sandbox, name: str, queue: str, *, within: str = "10s", **spec: Any) -> None:
    """A ReplicaSet whose two pods start together. `spec`: more of its PodGroup. No node takes its pods."""
    sandbox.podgroup(name, queue, minMember=2, **spec)
    set_time(sandbox, name, within)
    replica_set(sandbox, name, queue, replicas=2)


def set_time(sandbox: Sandbox, name: str, within: str) -> None:
    path = f"{sandbox.podgroups_path}/{name}"
    sandbox.api.patch(path, {"metadata": {"annotations": {WITHIN: within}}}).must()


def pods(sandbox: Sandbox, name: str) -> list[Object]:
    found = sandbox.read_pods()
    return [pod for key, pod in found.items() if key.startswith(f"{name}-") and not leaves(pod)]


def leaves(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def gates(pod: Object) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def is_released(sandbox: Sandbox, name: str) -> bool:
    found = pods(sandbox, name)
    return len(found) == 2 and not any(map(gates, found))


def test_a_gang_that_gives_back_is_not_asked_for_though_its_pods_are_made_again_at_once(
    sandbox: Sandbox,
) -> None:
    """A budget keeps the one that has a node. What the other one gave back is for the pod behind the gang."""
    queue = sandbox.queue(capability={"cpu": "2"})
    budget = {
        "metadata": {"name": "keeps"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "gang-first"}}},
    }
    sandbox.api.create(f"/apis/policy/v1/namespaces/{sandbox.namespace}/{BUDGETS}", budget).must(201)
    sandbox.podgroup("gang", queue, minMember=2)
    set_time(sandbox, "gang", "10s")
    for name in ("gang-first", "gang-second"):
        replica_set(sandbox, name, queue, replicas=1, group="gang", takes=name == "gang-first")
    until(lambda: any(map(on_a_node, pods(sandbox, "gang"))), "a pod of the gang to be on a node")
    sandbox.pod("behind", queue, cpu="1").must(201)
    sandbox.all_bound(["behind"])
    [kept] = pods(sandbox, "gang-first")
    assert on_a_node(kept)

    def says_why() -> bool:
        found = pods(sandbox, "gang-second")
        return len(found) == 1 and QUOTA_GATE in gates(found[0]) and "gives back what it has" in why(found[0])

    until(says_why, "the other pod to be there again, and to say why it waits")
    path = f"/apis/policy/v1/namespaces/{sandbox.namespace}/{BUDGETS}/keeps"
    sandbox.api.delete(path).must()
    assert "1 of at least 2 pods got nodes in its time" in sandbox.event("gang", "GangGaveBack")


def test_gangs_that_no_node_takes_hold_up_no_gang_of_another_queue(sandbox: Sandbox) -> None:
    """Their owner asks for an hour once they have failed."""
    theirs, ours = (sandbox.queue(name, capability={"cpu": "20"}) for name in ("theirs", "ours"))
    bad = [f"bad{number}" for number in range(3)]
    for name in bad:
        gang(sandbox, name, theirs)
    for name in bad:
        sandbox.event(name, "GangGaveBack")
        set_time(sandbox, name, "1h")
    gang(sandbox, "good", ours)
    sandbox.event("good", "GangGaveBack")
    until(lambda: any(is_released(sandbox, name) for name in bad), "one of theirs to be tried")
    until(partial(is_released, sandbox, "good"), "ours to be tried beside it")


def test_a_podgroup_that_calls_itself_critical_evicts_no_pods_of_strangers(sandbox: Sandbox) -> None:
    """No node takes its pods, and the other gang waits for nodes with one of two pods on one."""
    theirs, ours = (sandbox.queue(name, capability={"cpu": "20"}) for name in ("theirs", "ours"))
    sandbox.podgroup("ours", ours, minMember=2)
    set_time(sandbox, "ours", "1h")
    for name in ("ours-first", "ours-second"):
        replica_set(sandbox, name, ours, replicas=1, group="ours", takes=name == "ours-first")

    def on_nodes() -> list[str]:
        return [pod["metadata"]["uid"] for pod in pods(sandbox, "ours") if on_a_node(pod)]

    until(on_nodes, "a pod of ours to be on a node")
    before = on_nodes()
    gang(sandbox, "vip", theirs, within="45s", priorityClassName="system-cluster-critical")
    sandbox.event("vip", "GangGaveBack")
    assert on_nodes() == before
