"""Gangs that hold each other's nodes: one gives back, and both complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GROUPED_BY, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import JOB, REPLICA_SET, WorkloadKind, work_body

#: It waits for the times that gangs have.
pytestmark = pytest.mark.long
#: The CPUs of a pod: two fit on each of the three nodes.
CPU = "30"
WITHIN = "sluice.dev/place-within"
#: The label of the node that takes the last pod of each gang.
LATE = "tests.sluice.dev/late"


def workload(sandbox: Sandbox, name: str, queue: str, made: WorkloadKind, *, group: str, **spec: Any) -> None:
    body = work_body(made, name, queue, cpu=CPU, annotations={GROUPED_BY: group}, **spec)
    if name.endswith("late"):
        body["spec"]["template"]["spec"]["nodeSelector"] = {LATE: "yes"}
    sandbox.make(made, body).must(201)


def gang(
    sandbox: Sandbox, name: str, queue: str, made: WorkloadKind, *, within: str, of_class: str, **spec: Any
) -> None:
    """Four pods that start together: three of a workload, and one that no node takes yet."""
    sandbox.podgroup(name, queue, minMember=4, priorityClassName=of_class)
    sandbox.api.patch(
        f"{sandbox.podgroups_path}/{name}", {"metadata": {"annotations": {WITHIN: within}}}
    ).must()
    workload(sandbox, name, queue, made, group=name, **spec)
    workload(sandbox, f"{name}-late", queue, REPLICA_SET, group=name, replicas=1)


def pods(sandbox: Sandbox, name: str) -> dict[str, Object]:
    found = sandbox.read_pods()
    return {key: pod for key, pod in found.items() if key.startswith(f"{name}-") and not leaves(pod)}


def leaves(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def placed(sandbox: Sandbox, name: str) -> int:
    return sum(on_a_node(pod) for pod in pods(sandbox, name).values())


@pytest.fixture
def label(sandbox: Sandbox) -> Iterator[Callable[[str], None]]:
    """Labels a node; it is as it was afterwards."""
    labelled: list[str] = []

    def set_label(node: str) -> None:
        labelled.append(node)
        sandbox.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {LATE: "yes"}}}).must()

    yield set_label
    for node in labelled:
        sandbox.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {LATE: None}}}).must()


def test_two_gangs_that_hold_half_of_the_nodes_each_both_complete(
    sandbox: Sandbox, label: Callable[[str], None]
) -> None:
    """A ReplicaSet and a Job. The Job is suspended for a moment: no pod of it counts as failed.

    The second gang gives back within its own time, for the first one: that is of a higher class.
    """
    queue = sandbox.queue(capability={"cpu": "1000"})
    gang(sandbox, "first", queue, REPLICA_SET, within="45s", of_class="system-node-critical", replicas=3)
    until(lambda: placed(sandbox, "first") == 3, "three pods of the first to be placed")
    gang(
        sandbox,
        "second",
        queue,
        JOB,
        within="1h",
        of_class="system-cluster-critical",
        parallelism=3,
        completions=3,
    )
    until(lambda: placed(sandbox, "second") == 3, "three pods of the second to be placed")
    label(next(pod["spec"]["nodeName"] for pod in pods(sandbox, "second").values() if on_a_node(pod)))

    def is_placed(name: str) -> bool:
        return placed(sandbox, name) == 4

    until(partial(is_placed, "first"), "the first gang to be placed")
    assert "of at least 4 pods got nodes in its time" in sandbox.event("second", "GangGaveBack")
    for name in ("first", "first-late"):
        path = f"{REPLICA_SET.path(sandbox.namespace)}/{name}?propagationPolicy=Background"
        sandbox.api.delete(path).must()
    until(partial(is_placed, "second"), "the second gang to be placed")
    job = sandbox.api.get(f"{JOB.path(sandbox.namespace)}/second").must().body
    assert (job["status"].get("failed", 0), job["spec"]["suspend"]) == (0, False)
