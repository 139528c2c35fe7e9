"""`group-min-member` on workloads: what is written into templates and on pods, and who is told what."""

from __future__ import annotations

from typing import Any

from queues.metadata.keys import GROUP_MIN_MEMBER
from queues.well_known import GANG, GATE
from queues.well_known import QUEUE as LABEL
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    Wire,
    namespace,
    pod,
    podgroup,
    queue,
    template,
    workload,
)
from tests.support.webhooks.json_patch import applied

ASKS = {GROUP_MIN_MEMBER: "3"}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
FROM_TEMPLATE = {NAMED: "research", LABEL: "research", GANG: "3"}


def server(**spec: Any) -> Server:
    limits = {"capability": {"cpu": "8"}, **spec}
    return Server().has(namespace("team"), queue("research", **limits), queue("closed", state="Closed"))


def made(asked: Server, resource: str, obj: Wire, **request: Any) -> tuple[Wire, list[str]]:
    answer = asked.ask("/mutate/workloads", obj, resource=resource, **request)
    assert answer.allowed, answer.message
    return applied(answer.patch, obj), answer.warnings


def gang_in_template(
    resource: str, annotations: dict[str, str], of_template: dict[str, str] | None = None
) -> Any:
    obj = workload(
        resource, "web", template({NAMED: "research", **(of_template or {})}), annotations=annotations
    )
    spec = made(server(), resource, obj)[0]["spec"]
    inner = spec.get("template") or spec["jobTemplate"]["spec"]["template"]
    return inner["metadata"]["annotations"].get(GANG)


@each_case(
    "resource", ["deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch"]
)
def test_the_template_says_which_gang_its_pods_are_of(resource: str) -> None:
    assert gang_in_template(resource, ASKS) == "3"
    assert gang_in_template(resource, {}) is None
    assert gang_in_template(resource, ASKS, {GROUP: "mine"}) is None


def test_nobody_else_writes_that() -> None:
    assert gang_in_template("jobs.batch", {}, {GANG: "9"}) is None
    assert gang_in_template("cronjobs.batch", ASKS) is None


def admitted(asked: Server, obj: Wire) -> Wire:
    answer = asked.ask("/mutate/pods", obj)
    assert answer.allowed, answer.message
    return dict(applied(answer.patch, obj))


def of_the_gang(**more: Any) -> Wire:
    return pod("web-1-a", annotations=FROM_TEMPLATE, owner=OWNER, **more)


def test_a_pod_of_the_gang_waits_for_the_podgroup_of_its_owner() -> None:
    meta = admitted(server(), of_the_gang())["metadata"]
    assert (meta["annotations"][GROUP], meta["annotations"][GANG]) == ("podgroup-u", "research/3")
    assert meta["labels"][LABEL] == ""


def test_once_the_podgroup_is_there_the_pod_is_in_its_queue() -> None:
    asked = server().has(podgroup("podgroup-u", queue="research", minMember=3))
    after = admitted(asked, of_the_gang())
    assert after["metadata"]["annotations"][GROUP] == "podgroup-u"
    assert after["metadata"]["labels"][LABEL] == "research"
    assert GATE not in [gate["name"] for gate in after["spec"]["schedulingGates"]]


def test_a_second_call_for_the_same_pod_changes_nothing() -> None:
    """As a webhook that is called after ours brings about."""
    asked = server()
    once = admitted(asked, of_the_gang())
    assert admitted(asked, once)["metadata"] == once["metadata"]


@each_case(
    "other",
    [
        {"owner": None},
        {"owner": {**OWNER, "kind": "RayCluster", "apiVersion": "ray.io/v1"}},
        {"owner": {**OWNER, "uid": "A B"}},
        {"annotations": {**FROM_TEMPLATE, GANG: "many"}},
    ],
    ids=str,
)
def test_any_other_pod_goes_by_itself(other: Wire) -> None:
    after = admitted(server(), pod(**{"annotations": FROM_TEMPLATE, "owner": OWNER, **other}))
    assert GROUP not in after["metadata"]["annotations"]
    assert after["metadata"]["labels"][LABEL] == "research"


def test_a_pod_of_a_queue_that_takes_nothing_is_denied_where_it_is_made() -> None:
    """And not gated for a PodGroup that will be refused."""
    named = {**FROM_TEMPLATE, NAMED: "closed", LABEL: "closed"}
    answer = server().ask("/mutate/pods", pod("x", annotations=named, owner=OWNER))
    assert (answer.allowed, "takes no new pods" in answer.message) == (False, True)


@each_case(
    ("resource", "spec", "said"),
    [
        ("deployments.apps", {"replicas": 3, "strategy": {"type": "Recreate"}}, ""),
        ("deployments.apps", {"replicas": 3}, "a roll-out waits for its pods: set strategy Recreate"),
        ("deployments.apps", {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": "100%"}}}, ""),
        ("deployments.apps", {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": 3}}}, ""),
        (
            "deployments.apps",
            {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": "x"}}},
            "a roll-out waits",
        ),
        (
            "deployments.apps",
            {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": "9" * 5000 + "%"}}},
            "a roll-out waits",
        ),
        ("deployments.apps", {"replicas": 2}, "its 2 pods wait for 1 more"),
        ("deployments.apps", {"replicas": 0}, "a roll-out waits for its pods: set strategy Recreate"),
        ("replicasets.apps", {}, "its 1 pods wait for 2 more"),
        ("statefulsets.apps", {"replicas": 3}, "set podManagementPolicy Parallel"),
        ("statefulsets.apps", {"replicas": 3, "podManagementPolicy": "Parallel"}, ""),
        ("jobs.batch", {"parallelism": 3}, ""),
        ("jobs.batch", {"parallelism": 1}, "its 1 pods wait for 2 more"),
        ("daemonsets.apps", {}, ""),
    ],
    ids=str,
)
def test_who_asks_for_a_gang_that_does_not_start_is_told(resource: str, spec: Wire, said: str) -> None:
    obj = workload(resource, "web", template({NAMED: "research"}), annotations=ASKS, **spec)
    _, warnings = made(server(), resource, obj)
    assert [said in warning for warning in warnings] == ([True] if said else [])


def test_in_a_queue_without_a_capability_the_pods_are_said_to_start_one_by_one() -> None:
    obj = workload("jobs.batch", "web", template({NAMED: "research"}), annotations=ASKS)
    _, warnings = made(server(capability=None), "jobs.batch", obj)
    assert warnings == [f'{GROUP_MIN_MEMBER}: queue "research" has no capability: its pods start one by one']


@each_case(
    ("least", "cpu", "said"),
    [
        ("4", "2", ""),
        ("5", "2", '5 pods request cpu 10, and capability is 8 of queue "research"'),
        ("600", "20m", '600 pods request cpu 12, and capability is 8 of queue "research"'),
        ("2", "9", ""),  # one alone never fits, which is said of each
    ],
    ids=str,
)
def test_a_gang_that_is_larger_than_its_queue_is_said_to_be(least: str, cpu: str, said: str) -> None:
    one = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}
    made_from = {**template({NAMED: "research"}), "spec": one}
    obj = workload(
        "jobs.batch", "web", made_from, annotations={GROUP_MIN_MEMBER: least}, parallelism=int(least)
    )
    _, warnings = made(server(), "jobs.batch", obj)
    ours = [text for text in warnings if text.startswith(GROUP_MIN_MEMBER)]
    assert ours == ([f"{GROUP_MIN_MEMBER}: {said}"] if said else [])


def test_a_controller_is_told_nothing() -> None:
    obj = workload("jobs.batch", "web", template({NAMED: "research"}), annotations=ASKS)
    user = "system:serviceaccount:kube-system:cronjob-controller"
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "c", "controller": True}
    obj["metadata"]["ownerReferences"] = [cron]
    after, warnings = made(server(), "jobs.batch", obj, user=user)
    assert warnings == []
    assert after["spec"]["template"]["metadata"]["annotations"][GANG] == "3"
