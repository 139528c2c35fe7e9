"""A user with `edit` in one namespace gets no pod past a quota: rows of docs/operating/security.md."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.hostile.conftest import MALLORY
from tests.e2e.hostile.test_users_with_edit import applied, patch, post
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GROUPED_BY, binding_body, gates, on_a_node, pod_body, podgroup_body
from tests.support.e2e.sandbox import RBAC, Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import DEPLOYMENT, work_body

QUOTA_GATE, RELEASED, QUEUE = "sluice.dev/quota", "sluice.dev/released", "sluice.dev/queue"


@pytest.fixture
def full(mallory: Sandbox) -> str:
    """A queue whose capability is used by `first`; `second` waits for room."""
    queue = mallory.queue(capability={"cpu": "2"})
    post(mallory, pod_body("first", queue, cpu="2")).must(201)
    until(lambda: on_a_node(mallory.read_pod("first")), "the first pod to run")
    post(mallory, pod_body("second", queue, cpu="1")).must(201)
    mallory.reason_on("second", "room for this pod")
    return queue


def only_the_first_runs(sandbox: Sandbox) -> None:
    def running() -> list[str]:
        return [name for name, pod in sandbox.read_pods().items() if on_a_node(pod)]

    assert settled(running, "the pods") == ["first"]


def test_no_edit_of_a_pod_gives_it_room(mallory: Sandbox, full: str) -> None:
    """Gates, what the leader writes, owners, its queue, its status, a bind."""
    path = f"{mallory.pods_path}/second"
    uid = mallory.read_pod("second")["metadata"]["uid"]
    delete: Object = {"spec": {"schedulingGates": [{"name": QUOTA_GATE, "$patch": "delete"}]}}
    refused: list[tuple[Any, str]] = [
        ({"spec": {"schedulingGates": None}}, "merge"),
        (delete, "strategic-merge"),
        ([{"op": "remove", "path": "/spec/schedulingGates"}], "json"),
        ([{"op": "replace", "path": "/spec/schedulingGates", "value": [{"name": "a.b/c"}]}], "json"),
        ({"metadata": {"labels": {RELEASED: uid}}}, "merge"),
        ({"metadata": {"labels": {QUEUE: None}}}, "merge"),
        ({"metadata": {"annotations": {QUEUE: "root"}, "labels": {QUEUE: "root"}}}, "merge"),
    ]
    for body, kind in refused:
        assert patch(mallory, path, body, kind).status in (403, 422), body
    assert applied(mallory, path, {"metadata": {"labels": {RELEASED: uid}}})[0] == 403
    for subresource, status in (("status", {"phase": "Succeeded"}), ("ephemeralcontainers", {})):
        body = {"metadata": {"labels": {RELEASED: uid}}, "status": status}
        assert patch(mallory, f"{path}/{subresource}", body).status == 403
    assert patch(mallory, f"{mallory.pods_path}/first/status", {"status": {"phase": "Failed"}}).status == 403
    assert post(mallory, binding_body("second", mallory.namespace), f"{path}/binding").status == 403
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "first", "uid": str(uuid4()), "controller": True}
    patch(mallory, path, {"metadata": {"ownerReferences": [owner]}})
    only_the_first_runs(mallory)


def test_no_pod_is_created_past_a_quota(mallory: Sandbox, full: str) -> None:
    """Whatever is written on it: it is refused, or gated."""
    forged = {"sluice.dev/quota-term": "x", QUEUE: "root"}
    bodies = [
        pod_body("forged", full, annotations=forged, labels={RELEASED: str(uuid4())}, cpu="1"),
        pod_body("placed", full, nodeName="node-0", cpu="1"),
        pod_body("gated", full, schedulingGates=[{"name": QUOTA_GATE}], cpu="1"),
        pod_body("elsewhere", full, schedulerName="nobody", cpu="1"),
        pod_body("grouped", annotations={GROUPED_BY: "gang"}, cpu="1"),
    ]
    group = podgroup_body("gang", full, minResources={"cpu": "1"})
    group["status"] = {"phase": "Inqueue", "running": 1}
    post(mallory, group, mallory.podgroups_path).must(201)
    for body in bodies:
        answer = post(mallory, body)
        assert answer.status in (201, 403, 422), answer
        if answer.status == 201:
            assert QUOTA_GATE in gates(answer.body), body
    made = work_body(DEPLOYMENT, "many", full, cpu="1", replicas=2)
    post(mallory, made, DEPLOYMENT.path(mallory.namespace)).must(201)
    patch(mallory, f"{mallory.podgroups_path}/gang/status", {"status": {"phase": "Inqueue"}})
    only_the_first_runs(mallory)


def test_nothing_that_is_added_to_a_pod_counts_less_than_it_takes(mallory: Sandbox, full: str) -> None:
    """What runs is not made larger, what waits waits for more then; an ephemeral container takes nothing.

    `edit` includes neither right; mallory has them here.
    """
    may(mallory, "pods/resize", "pods/ephemeralcontainers")

    def resized(name: str, cpu: str) -> int:
        body = {"spec": {"containers": [{"name": "work", "resources": {"requests": {"cpu": cpu}}}]}}
        return patch(mallory, f"{mallory.pods_path}/{name}/resize", body, "strategic-merge").status

    assert resized("first", "3") in (403, 422)
    assert resized("second", "3") == 200
    mallory.reason_on("second", "never has room for this pod")
    debug = {"name": "debug", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    plain = {"name": "debug", "image": "none"}
    path = f"{mallory.pods_path}/first/ephemeralcontainers"
    statuses = [
        patch(mallory, path, {"spec": {"ephemeralContainers": [each]}}, "strategic-merge").status
        for each in (debug, plain)
    ]
    assert statuses == [422, 200]
    only_the_first_runs(mallory)


def may(sandbox: Sandbox, *resources: str) -> None:
    rule = {"apiGroups": [""], "resources": list(resources), "verbs": ["patch"]}
    name = sandbox.role("more", rule)
    body = {
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MALLORY}],
    }
    sandbox.api.create(f"{RBAC}/namespaces/{sandbox.namespace}/rolebindings", body).must(201)
    for resource in resources:
        sandbox.may(MALLORY, "patch", resource)


def test_the_book_and_the_queues_are_nothing_that_users_write(mallory: Sandbox, full: str) -> None:
    book = "/api/v1/namespaces/sluice-system/configmaps/sluice-quota"
    assert patch(mallory, book, {"data": {"book": ""}}).status == 403
    assert mallory.api.delete(book, user=MALLORY).status == 403
    queue = f"/apis/scheduling.volcano.sh/v1beta1/queues/{full}"
    for path in (queue, f"{queue}/status"):
        assert patch(mallory, path, {"spec": {"capability": None}}).status == 403
