"""Gangs that hold each other's nodes: one gives back, and both complete."""

from __future__ import annotations

from functools import partial

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GROUPED_BY, OWN_GATE, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import REPLICA_SET, work_body

#: The CPUs of a pod: two fit on each of the three nodes.
CPU = "30"
WITHIN = "sluice.dev/place-within"


def gang(sandbox: Sandbox, name: str, queue: str, count: int) -> None:
    """A ReplicaSet whose pods start together, each with the test's own gate."""
    body = {**work_body(REPLICA_SET, name, queue, cpu=CPU, replicas=count, annotations={GROUPED_BY: name})}
    body["spec"]["template"]["spec"]["schedulingGates"] = [{"name": OWN_GATE}]
    sandbox.podgroup(name, queue, minMember=count)
    sandbox.api.patch(
        f"{sandbox.podgroups_path}/{name}", {"metadata": {"annotations": {WITHIN: "10s"}}}
    ).must()
    sandbox.make(REPLICA_SET, body).must(201)


def pods(sandbox: Sandbox, name: str) -> dict[str, Object]:
    found = sandbox.read_pods()
    return {key: pod for key, pod in found.items() if key.startswith(f"{name}-") and not leaves(pod)}


def leaves(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def placed(sandbox: Sandbox, name: str) -> int:
    return sum(on_a_node(pod) for pod in pods(sandbox, name).values())


def ungate(sandbox: Sandbox, name: str, most: int = 99) -> None:
    """Let so many of its released pods be placed."""
    gates = {
        key: [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
        for key, pod in pods(sandbox, name).items()
    }
    sandbox.ungate([key for key, held in gates.items() if held == [OWN_GATE]][:most])


def is_released(sandbox: Sandbox, name: str) -> bool:
    """Whether all four of its pods are there, with the test's gate alone."""
    found = pods(sandbox, name).values()
    held = [[gate["name"] for gate in pod["spec"].get("schedulingGates", [])] for pod in found]
    return held == [[OWN_GATE]] * 4


def test_two_gangs_that_hold_half_of_the_nodes_each_both_complete(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "1000"})
    for name in ("first", "second"):
        gang(sandbox, name, queue, 4)
        until(partial(is_released, sandbox, name), f"the minimum of {name} to be released")
    for name in ("first", "second"):
        ungate(sandbox, name, 3)
        until(lambda: placed(sandbox, "first") + placed(sandbox, "second") in {3, 6}, "pods to be placed")

    def is_placed(name: str) -> bool:
        ungate(sandbox, name)
        return placed(sandbox, name) == 4

    until(partial(is_placed, "first"), "the first gang to be placed")
    assert "of at least 4 pods got nodes in its time" in sandbox.event("second", "GangGaveBack")
    sandbox.api.delete(f"{REPLICA_SET.path(sandbox.namespace)}/first?propagationPolicy=Background").must()
    until(partial(is_placed, "second"), "the second gang to be placed")
