"""`why raycluster/x`: a kind that Sluice does not know is asked about by the owner references of its pods."""

from __future__ import annotations

from typing import Any

from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.objects.fields import Object
from queues import well_known
from tests.support.cases import each_case
from tests.support.plugin.harness import CommandResult, StoredObjects, StoredQueues, item, run_command

PODS = "/api/v1/namespaces/team/pods"
QUEUES = (
    item("root", status={"observedGeneration": 1}),
    item("lab", parent="root", status={"observedGeneration": 1}),
    item("held", parent="root", stopPolicy="Hold", status={"observedGeneration": 1}),
)
RAY = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "ray", "uid": "r", "controller": True}
SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "name": "ts",
    "uid": "s",
    "controller": True,
}


def pod(name: str, owner: Object, *, queue: str = "held", node: str = "", **status: Any) -> Object:
    named = {well_known.QUEUE: queue}
    gates = [] if node or queue != "held" else [{"name": well_known.GATE}]
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "annotations": named,
            "labels": named,
            "ownerReferences": [owner],
        },
        "spec": {"schedulingGates": gates, "nodeName": node, "containers": []},
        "status": {"phase": "Pending", **status},
    }


def why(
    *pods: Object, target: str = "raycluster/ray", also: dict[str, Object] | None = None
) -> CommandResult:
    stored = {f"{PODS}/{each['metadata']['name']}": each for each in pods}
    namespace: dict[str, Object] = {"/api/v1/namespaces/team": {"metadata": {"name": "team"}}}
    client = StoredObjects({**stored, **namespace, PODS: {"items": list(pods)}, **(also or {})})
    return run_command(StoredQueues(*QUEUES), "why", target, "--namespace=team", client=client)


@each_case("word", ["raycluster", "rayclusters", "RayCluster", "rayclusters.ray.io", "raycluster.v1.ray.io"])
def test_the_answer_is_that_of_the_first_pod_that_waits(word: str) -> None:
    done = why(
        pod("head", RAY, node="a", phase="Running"),
        pod("worker-b", RAY),
        pod("worker-a", RAY),
        pod("other", {**RAY, "name": "another"}),
        target=f"{word}/ray",
    )
    assert done.code == 0, done.err
    first, *rest = done.out.splitlines()
    assert first.startswith(
        f'{word} team/ray has 3 pods, 2 of them wait: Pod team/worker-a waits: queue "held"'
    )
    assert any("goes by its pods: worker-a, worker-b" in line for line in rest)
    assert any("kubectl queue why pod/worker-a -n team" in line for line in rest)


def test_where_none_waits_that_is_said() -> None:
    done = why(pod("head", RAY, node="a", phase="Running"))
    assert done.out.startswith("raycluster team/ray has 1 pod, 0 of them wait: Pod team/head is on node a")


def test_the_owners_of_owners_of_known_kinds_are_followed() -> None:
    """As a TrainJob's JobSet makes Jobs."""
    train = {**RAY, "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "llm"}
    jobset = {"metadata": {"name": "ts", "namespace": "team", "uid": "s", "ownerReferences": [train]}}
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/ts"
    done = why(pod("w", SET), target="trainjob/llm", also={path: jobset})
    assert done.out.startswith("trainjob team/llm has 1 pod, 1 of them waits: Pod team/w waits"), done.err


@each_case("target", ["service/x", "pods.apps/head", "rayclusters.example.com/ray", "raycluster/rays"])
def test_what_owns_no_pod_is_said_not_to_be_known(target: str) -> None:
    done = why(pod("head", RAY), target=target)
    word = target.partition("/")[0]
    assert done.code == 1
    assert f'no pod of namespace "team" is owned by {target}' in done.err
    assert f'"{word}" is not a type of object that has a queue; the types are: pod, job' in done.err


def test_what_may_not_be_listed_is_said() -> None:
    class Forbidden(StoredObjects):
        def send(self, request: ApiRequest, *, kind: str = "") -> Object:
            raise AssertionError("nothing else is read")

    client = Forbidden({}, forbidden=[PODS])
    done = run_command(StoredQueues(*QUEUES), "why", "raycluster/ray", "--namespace=team", client=client)
    assert (done.code, "Forbidden" in done.err) == (1, True)
