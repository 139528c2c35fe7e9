"""`scheduling.volcano.sh/group-min-member` on workloads, as Volcano's manifests have it, on a control plane:
their pods start together or not at all, and their PodGroup goes with its owner."""

from __future__ import annotations

import pytest

from queues.metadata.keys import GROUP_MIN_MEMBER
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import NAMED_BY, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import DEPLOYMENT, JOB, STATEFUL_SET, WorkloadKind, work_body

KINDS = [
    (DEPLOYMENT, {"replicas": 3, "strategy": {"type": "Recreate"}}),
    (STATEFUL_SET, {"replicas": 3, "podManagementPolicy": "Parallel"}),
    (JOB, {"parallelism": 3, "completions": 3}),
]


def asking(made: WorkloadKind, queue: str, least: str = "3", **spec: object) -> Object:
    """The queue is named in the template, the minimum on the workload."""
    body = work_body(made, "web", queue, cpu="1")
    meta = {**body["metadata"], "annotations": {GROUP_MIN_MEMBER: least}}
    return {**body, "metadata": meta, "spec": {**body["spec"], **spec}}


def running(sandbox: Sandbox) -> int:
    return sum(map(on_a_node, sandbox.read_pods().values()))


def podgroups(sandbox: Sandbox) -> list[Object]:
    return list(sandbox.api.get(sandbox.podgroups_path).must().body["items"])


@pytest.mark.parametrize(("made", "spec"), KINDS, ids=lambda each: getattr(each, "kind", ""))
def test_the_pods_of_a_workload_start_together(sandbox: Sandbox, made: WorkloadKind, spec: Object) -> None:
    queue = sandbox.queue(capability={"cpu": "2"})
    answer = sandbox.make(made, asking(made, queue, **spec)).must(201)
    [warning] = answer.warnings
    assert warning.startswith(f"{GROUP_MIN_MEMBER}: 3 pods request cpu 3, and capability is 2 of queue ")
    until(lambda: len(sandbox.read_pods()) == 3, "its pods")
    [group] = until(lambda: podgroups(sandbox), "its PodGroup")
    [owner] = group["metadata"]["ownerReferences"]
    assert group["metadata"]["name"] == f"podgroup-{owner['uid']}"
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (3, queue)
    first = min(sandbox.read_pods())
    sandbox.reason_on(first, f'queue "{queue}" never has room for this pod: with its PodGroup')
    assert settled(lambda: running(sandbox), "the pods") == 0
    sandbox.edit(queue, capability={"cpu": "3"})
    until(lambda: running(sandbox) == 3, "all three to run")
    path = f"{made.path(sandbox.namespace)}/web?propagationPolicy=Background"
    sandbox.api.delete(path).must(200)
    until(lambda: not podgroups(sandbox), "the PodGroup to go with its owner")


def test_a_minimum_that_is_no_number_makes_no_gang_and_is_told(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "2"})
    body = asking(DEPLOYMENT, queue, "abc", replicas=3)
    [line] = sandbox.make(DEPLOYMENT, body).must(201).warnings
    assert line == f'annotation {GROUP_MIN_MEMBER} has no effect: "abc" is no number from 1 to 2147483647'
    until(lambda: running(sandbox) == 2, "two to run")
    assert podgroups(sandbox) == []


def test_in_a_queue_that_a_namespace_names_it_is_a_gang_too(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "2"})
    sandbox.api.patch(sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()
    probe = work_body(JOB, "probe")

    def is_member() -> bool:
        made = sandbox.make(JOB, probe, dry=True).must(201).body
        return bool(made["metadata"].get("labels", {}).get("sluice.dev/queue") == queue)

    until(is_member, "the namespace to be known")
    sandbox.make(JOB, asking(JOB, "", parallelism=3, completions=3)).must(201)
    [group] = until(lambda: podgroups(sandbox), "its PodGroup")
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (3, queue)
    assert settled(lambda: running(sandbox), "the pods") == 0
    sandbox.edit(queue, capability={"cpu": "3"})
    until(lambda: running(sandbox) == 3, "all three to run")
