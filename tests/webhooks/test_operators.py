"""What operators make (`operators.yaml`): the queue that each gets here, and what its author is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from queues.well_known import QUEUE
from tests.support import yaml_texts
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, namespace, pod, podgroup, queue, template, workload
from tests.support.webhooks.json_patch import applied

CASES: list[dict[str, Any]] = yaml_texts.load(Path(__file__).with_name("operators.yaml").read_text())
RESOURCES = {
    "Pod": "pods",
    "PodGroup": "podgroups.scheduling.volcano.sh",
    "Job": "jobs.batch",
    "JobSet": "jobsets.jobset.x-k8s.io",
    "Deployment": "deployments.apps",
    "StatefulSet": "statefulsets.apps",
    "VolcanoJob": "jobs.batch.volcano.sh",
}
PATHS = {"pods": "/mutate/pods", "podgroups.scheduling.volcano.sh": "/mutate/podgroups"}


def made(told: dict[str, Any]) -> Wire:
    """The object that the case describes."""
    kind, of, own = told["kind"], told.get("owner"), told.get("template", {})
    meta: dict[str, Any] = {key: told[key] for key in ("annotations", "labels") if key in told}
    if of:
        version = {"Pod": "v1", "ReplicaSet": "apps/v1", "Deployment": "apps/v1"}.get(of, "example.com/v1")
        meta["owner"] = {"apiVersion": version, "kind": of, "name": "x", "uid": "set", "controller": True}
    if kind == "Pod":
        return pod(schedulerName=told.get("scheduler", "default-scheduler"), **meta)
    if kind == "PodGroup":
        return podgroup("made", **meta, **told["spec"])
    named = {"schedulerName": own["scheduler"]} if "scheduler" in own else {}
    pods = template(own.get("annotations"), own.get("labels"), **named)
    return workload(RESOURCES[kind], "made", pods, **meta, **told.get("spec", {}))


@each_case("case", CASES, ids=lambda case: case["of"])
def test_what_an_operator_makes_is_in_the_queue_that_its_file_names(case: dict[str, Any]) -> None:
    server = Server().has(
        namespace("team"),
        queue("research", capability={"cpu": "8"}),
        podgroup("gang", queue="research", minMember=3),
        podgroup("podgroup-set", queue="research", minMember=3),
    )
    obj, resource = made(case["object"]), RESOURCES[case["object"]["kind"]]
    answer = server.ask(PATHS.get(resource, "/mutate/workloads"), obj, resource=resource, name="made")
    assert answer.allowed, answer.message
    after = applied(answer.patch, obj)
    label = after["metadata"].get("labels", {}).get(QUEUE, "")
    said = server.ask("/validate/metadata", after, resource=resource)
    lines = list(dict.fromkeys([*answer.warnings, *said.warnings]))
    assert (label, lines) == (case["queue"], case.get("told", []))


def test_there_are_twenty_and_each_says_what_it_means_there_and_here() -> None:
    assert len(CASES) >= 20
    assert [case["of"] for case in CASES if not (case["there"] and case["here"])] == []
    assert len({case["of"] for case in CASES}) == len(CASES)
