"""Gangs that hold each other's nodes: one gives back, and both complete."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GROUPED_BY, OWN_GATE, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import JOB, REPLICA_SET, WorkloadKind, work_body

#: It waits for the times that gangs have.
pytestmark = pytest.mark.long
#: The CPUs of a pod: two fit on each of the three nodes.
CPU = "30"
WITHIN = "sluice.dev/place-within"


def gang(sandbox: Sandbox, name: str, queue: str, made: WorkloadKind, **spec: Any) -> None:
    """A workload whose four pods start together, each with the test's own gate."""
    body = work_body(made, name, queue, cpu=CPU, annotations={GROUPED_BY: name}, **spec)
    body["spec"]["template"]["spec"]["schedulingGates"] = [{"name": OWN_GATE}]
    sandbox.podgroup(name, queue, minMember=4)
    sandbox.api.patch(
        f"{sandbox.podgroups_path}/{name}", {"metadata": {"annotations": {WITHIN: "10s"}}}
    ).must()
    sandbox.make(made, body).must(201)


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
    """A ReplicaSet and a Job. The Job is suspended for a moment: no pod of it counts as failed."""
    queue = sandbox.queue(capability={"cpu": "1000"})
    gang(sandbox, "first", queue, REPLICA_SET, replicas=4)
    until(partial(is_released, sandbox, "first"), "the minimum of the first to be released")
    gang(sandbox, "second", queue, JOB, parallelism=4, completions=4)
    until(partial(is_released, sandbox, "second"), "the minimum of the second to be released")
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
    job = sandbox.api.get(f"{JOB.path(sandbox.namespace)}/second").must().body
    assert (job["status"].get("failed", 0), job["spec"]["suspend"]) == (0, False)
