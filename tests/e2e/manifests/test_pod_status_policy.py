"""Nobody but nodes makes a pod that a quota has released look finished, with or without our server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.manifests.bare_api import REGISTRATIONS, Api, Reply, eventually, pods

pytestmark = pytest.mark.cluster

RELEASED, QUEUE = "sluice.dev/released", "sluice.dev/queue"
#: May write statuses of pods, as others' controllers do.
STRANGER = "system:serviceaccount:others:controller"
COLLECTOR = "system:serviceaccount:kube-system:pod-garbage-collector"
DENIALS = ("is finished by its node", "are written by sluice alone")


@pytest.fixture(autouse=True, scope="module")
def may_write_statuses(api: Api) -> None:
    rule = {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch", "update"]}
    group = "/apis/rbac.authorization.k8s.io/v1"
    api.create(f"{group}/clusterroles", {"metadata": {"name": "pod-statuses"}, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pod-statuses"}
    subjects = [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        for name in (STRANGER, COLLECTOR)
    ]
    body = {"metadata": {"name": "pod-statuses"}, "roleRef": role, "subjects": subjects}
    api.create(f"{group}/clusterrolebindings", body)


@pytest.fixture(params=["released", "free"])
def pod(api: Api, request: pytest.FixtureRequest) -> Iterator[str]:
    """A pod that a quota has released, and one of no quota."""
    labels = {QUEUE: "x", RELEASED: "y"} if request.param == "released" else {"app": "x"}
    spec = {"schedulerName": "nobody", "containers": [{"name": "work", "image": "none"}]}
    body = {"kind": "Pod", "metadata": {"name": request.param, "labels": labels}, "spec": spec}
    eventually(lambda: api.create(pods("default"), body).status in (201, 409))
    yield request.param
    api.delete(f"{pods('default', request.param)}?gracePeriodSeconds=0")


def write(api: Api, name: str, body: Any, *, user: str | None = STRANGER) -> Reply:
    replies: list[Reply] = []

    def is_answered() -> bool:  # rights and policies take a moment to be known
        replies.append(api.patch(f"{pods('default', name)}/status", body, user=user, dry=True))
        return replies[-1].status != 403 or any(text in replies[-1].message for text in DENIALS)

    eventually(is_answered)
    return replies[-1]


def test_the_expressions_fit_a_pod(api: Api) -> None:
    """The API server has checked their types and has nothing to say."""
    path = f"{REGISTRATIONS}/validatingadmissionpolicies/sluice-pod-statuses"
    eventually(lambda: "typeChecking" in api.get(path).body.get("status", {}))
    assert api.get(path).body["status"]["typeChecking"] == {}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_strangers_controller_finishes_no_pod_of_a_quota(api: Api, pod: str, phase: str) -> None:
    reply = write(api, pod, {"status": {"phase": phase}})
    assert reply.status == (403 if pod == "released" else 200), reply.message


@pytest.mark.parametrize(
    "change", [{QUEUE: None}, {QUEUE: "other"}, {RELEASED: None}, {RELEASED: "z"}], ids=str
)
def test_by_a_status_no_pod_of_a_quota_loses_what_it_is_known_by(
    api: Api, pod: str, change: dict[str, str | None]
) -> None:
    """Of the others the label that says released brings the policy in, too."""
    reply = write(api, pod, {"metadata": {"labels": change}})
    is_concerned = pod == "released" or change == {RELEASED: "z"}
    assert reply.status == (403 if is_concerned else 200), reply.message


def test_all_else_of_a_status_is_free(api: Api, pod: str) -> None:
    body = {"status": {"phase": "Running", "message": "x"}, "metadata": {"labels": {"app": "z"}}}
    assert write(api, pod, body).status == 200


@pytest.mark.parametrize("user", [None, COLLECTOR], ids=["an administrator", "the garbage collector"])
def test_who_may_finishes_pods(api: Api, pod: str, user: str | None) -> None:
    assert write(api, pod, {"status": {"phase": "Failed"}}, user=user).status == 200
