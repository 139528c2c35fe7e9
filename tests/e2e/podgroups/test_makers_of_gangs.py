"""Controllers of other projects that make gangs, unmodified, beside the server: JobSet's, for which the user
writes the PodGroup, and LeaderWorkerSet's, which makes its own.

Their versions are pinned in localcluster/jobset/go.mod and localcluster/leaderworkerset/go.mod. How they run
here, and what of their installation that replaces, is said in `tests.support.e2e.operators`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.drain.draining import wait_for_drain, wait_for_running
from tests.support.e2e import operators
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import COMPLETES, GROUPED_BY, NAMED_BY, gates, on_a_node
from tests.support.e2e.operators import JOB_SET, LEADER_WORKER_SET, Operator
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import template_body

pytestmark = pytest.mark.long
#: A pod that comes before its PodGroup has the gate of stops, since nobody knows its queue.
OURS = {"sluice.dev/quota", "sluice.dev/queue"}
#: Definitions of other projects, which stay.
KEEPS_CLUSTER = True


@pytest.fixture(scope="module")
def job_sets(served_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with operators.running(served_cluster, JOB_SET, tmp_path_factory.mktemp("jobset")):
        yield JOB_SET


@pytest.fixture(scope="module")
def leader_worker_sets(
    served_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    with operators.running(served_cluster, LEADER_WORKER_SET, tmp_path_factory.mktemp("lws")):
        yield LEADER_WORKER_SET


@pytest.fixture
def own_sandbox(served_cluster: LocalCluster) -> Iterator[Sandbox]:
    sandbox = Sandbox(served_cluster)
    yield sandbox
    for each in (JOB_SET, LEADER_WORKER_SET):
        sandbox.api.delete(f"{each.made.path(sandbox.namespace)}?propagationPolicy=Background").must(200, 404)
    sandbox.clear()
    sandbox.close()


def job_set(sandbox: Sandbox, queue: str, *, completes: str = "1h", **spec: object) -> Object:
    """A driver, and two workers of another replicated Job, one CPU each, with the PodGroup of them all."""
    sandbox.podgroup("train", queue, minMember=3)
    named = {NAMED_BY: queue, GROUPED_BY: "train", COMPLETES: completes}
    jobs = [
        {
            "name": name,
            "replicas": 1,
            "template": {
                "spec": {
                    "parallelism": pods,
                    "completions": pods,
                    "template": template_body(name, named, cpu="1"),
                }
            },
        }
        for name, pods in (("driver", 1), ("worker", 2))
    ]
    for each in jobs:
        each["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"  # type: ignore[index]
    body = {
        "apiVersion": JOB_SET.made.group,
        "kind": JOB_SET.made.kind,
        "metadata": {"name": "train"},
        "spec": {"replicatedJobs": jobs, **spec},
    }
    # The API server may not reach its webhook yet.
    return until(lambda: (made := sandbox.make(JOB_SET.made, body)).status == 201 and made.body, "a JobSet")


def waiting(sandbox: Sandbox, number: int) -> list[str]:
    """Its pods, once so many exist; they all wait for room, and none is on a node."""

    def found() -> dict[str, Object]:
        pods = {name: pod for name, pod in sandbox.read_pods().items() if name != "before"}
        return pods if len(pods) == number else {}

    names = list(until(found, f"{number} pods"))

    def held() -> bool:
        pods = sandbox.read_pods()
        return all(OURS & {*gates(pods[name])} and not on_a_node(pods[name]) for name in names)

    assert settled(held, "the pods to wait", seconds=1.0)
    return names


def is_suspended(sandbox: Sandbox) -> bool:
    found = sandbox.api.get(f"{JOB_SET.made.path(sandbox.namespace)}/train").must().body
    return bool(found["spec"].get("suspend"))


def test_a_jobset_waits_for_room_goes_whole_and_completes(own_sandbox: Sandbox, job_sets: Operator) -> None:
    queue = own_sandbox.queue("own", capability={"cpu": "3"})
    own_sandbox.pod("before", queue, cpu="1").must(201)
    own_sandbox.all_bound(["before"])
    job_set(own_sandbox, queue, completes="0s")
    names = waiting(own_sandbox, 3)
    own_sandbox.reason_on(names[0], "3 pods of its PodGroup start together")
    own_sandbox.api.delete(f"{own_sandbox.pods_path}/before").must()
    path = f"{job_sets.made.path(own_sandbox.namespace)}/train"
    until(
        lambda: own_sandbox.api.get(path).must().body.get("status", {}).get("terminalState") == "Completed",
        "the JobSet to be Completed",
    )
    assert own_sandbox.bound(names) == set(names)


def test_a_jobset_waits_through_a_stop_and_is_drained_and_given_back(
    own_sandbox: Sandbox, job_sets: Operator
) -> None:
    """A stop lets none of it start. A drain suspends the JobSet, and not its Jobs; its controller suspends
    these. After the resume all of it runs.
    """
    queue = own_sandbox.queue("own", capability={"cpu": "3"})
    own_sandbox.suspend(queue)
    job_set(own_sandbox, queue)
    waiting(own_sandbox, 3)
    own_sandbox.edit(queue, state="Open")
    wait_for_running(own_sandbox, 3)
    own_sandbox.patch_queue(queue, stopPolicy="HoldAndDrain").must()
    wait_for_drain(own_sandbox, queue, "Drained")
    assert is_suspended(own_sandbox)
    assert not any(map(on_a_node, own_sandbox.read_pods().values()))
    own_sandbox.patch_queue(queue, stopPolicy="None").must()
    wait_for_running(own_sandbox, 3)
    assert not is_suspended(own_sandbox)


def leader_worker_set(sandbox: Sandbox, queue: str) -> None:
    """One group of a leader and two workers, one CPU each."""
    body = {
        "apiVersion": LEADER_WORKER_SET.made.group,
        "kind": LEADER_WORKER_SET.made.kind,
        "metadata": {"name": "serve", "annotations": {NAMED_BY: queue}},
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {"size": 3, "workerTemplate": template_body("serve", {}, cpu="1")},
        },
    }
    until(lambda: sandbox.make(LEADER_WORKER_SET.made, body).status == 201, "a LeaderWorkerSet")


def test_a_leaderworkerset_makes_its_podgroup_waits_goes_whole_and_comes_back_from_a_drain(
    own_sandbox: Sandbox, leader_worker_sets: Operator
) -> None:
    """Its webhook writes the name of the PodGroup on each pod, before ours is asked."""
    queue = own_sandbox.queue("own", capability={"cpu": "3"})
    own_sandbox.pod("before", queue, cpu="1").must(201)
    own_sandbox.all_bound(["before"])
    leader_worker_set(own_sandbox, queue)
    names = waiting(own_sandbox, 3)
    [group] = own_sandbox.api.get(own_sandbox.podgroups_path).must().body["items"]
    assert (group["spec"]["queue"], group["spec"]["minMember"]) == (queue, 3)
    assert group["spec"]["minResources"]["cpu"] == "3"
    own_sandbox.api.delete(f"{own_sandbox.pods_path}/before").must()
    wait_for_running(own_sandbox, 3)
    assert own_sandbox.bound(names) == set(names)
    own_sandbox.patch_queue(queue, stopPolicy="HoldAndDrain").must()
    wait_for_drain(own_sandbox, queue, "Drained")
    own_sandbox.patch_queue(queue, stopPolicy="None").must()
    wait_for_running(own_sandbox, 3)
