"""Which requests about workloads and PodGroups call our webhooks, in a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from admission_recorder import Recorder
from bare_api import Api

pytestmark = pytest.mark.cluster

Body = dict[str, Any]

MEMBER = ["members.workloads.sluice.dev/mutate/workloads"]
NAMESPACE = ["namespaces.workloads.sluice.dev/mutate/workloads"]
SCALE = ["scales.sluice.dev/validate/scales"]
GROUP = ["podgroups.sluice.dev/mutate/podgroups"]
VOLCANO = "scheduling.volcano.sh/queue-name"
LABEL = "volcano.sh/queue-name"


def path(resource: str, name: str = "", *, namespace: str = "plain") -> str:
    group = "batch/v1" if resource in {"jobs", "cronjobs"} else "apps/v1"
    return f"/apis/{group}/namespaces/{namespace}/{resource}" + (f"/{name}" if name else "")


def body(
    resource: str = "deployments",
    *,
    own: Body | None = None,
    labels: Body | None = None,
    template: Body | None = None,
    template_labels: Body | None = None,
    replicas: int = 1,
    **spec: Any,
) -> Body:
    pod: Body = {
        "metadata": {"labels": {"app": "work", **(template_labels or {})}, "annotations": template or {}},
        "spec": {"containers": [{"name": "main", "image": "none"}], **spec},
    }
    held: Body = {"template": pod}
    if resource in {"jobs", "cronjobs"}:
        pod["spec"]["restartPolicy"] = "Never"
    if resource == "cronjobs":
        held = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": held}}
    elif resource != "jobs":
        held["selector"] = {"matchLabels": {"app": "work"}}
    if resource in {"deployments", "replicasets", "statefulsets"}:
        held["replicas"] = replicas
    if resource == "statefulsets":
        held["serviceName"] = "work"
    return {"metadata": {"name": "work", "annotations": own or {}, "labels": labels or {}}, "spec": held}


RESOURCES = ("deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs")


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize(
    "named",
    [
        {"own": {VOLCANO: "research"}},
        {"labels": {LABEL: "research"}},
        {"template": {VOLCANO: "research"}},
        {"template": {"scheduling.k8s.io/group-name": "pair"}},
        {"template": {"sluice.dev/queue": "research"}},
        {"template_labels": {LABEL: "research"}},
        {"schedulerName": "volcano"},
    ],
    ids=str,
)
def test_one_that_names_a_queue_anywhere_is_shown(
    api: Api, recorder: Recorder, resource: str, named: Body
) -> None:
    with recorder.asked() as heard:
        reply = api.create(path(resource), body(resource, **named), dry=True)
    assert (reply.status, heard) == (201, MEMBER)


@pytest.mark.parametrize("resource", RESOURCES)
def test_any_other_costs_nothing(api: Api, recorder: Recorder, resource: str) -> None:
    with recorder.asked() as heard:
        reply = api.create(path(resource), body(resource, own={"queue-name": "x"}), dry=True)
    assert (reply.status, heard) == (201, [])


@pytest.mark.parametrize("resource", RESOURCES)
def test_each_of_a_namespace_that_names_a_queue_is_shown_once(
    api: Api, recorder: Recorder, resource: str
) -> None:
    with recorder.asked() as plain:
        api.create(path(resource, namespace="team"), body(resource), dry=True)
    with recorder.asked() as naming:
        api.create(path(resource, namespace="team"), body(resource, own={VOLCANO: "a"}), dry=True)
    assert (plain, naming) == (NAMESPACE, NAMESPACE)


@pytest.mark.parametrize("namespace", ["kube-system", "sluice-system"])
def test_none_of_the_systems_namespaces_is_shown(api: Api, recorder: Recorder, namespace: str) -> None:
    with recorder.asked() as heard:
        api.create(path("deployments", namespace=namespace), body(own={VOLCANO: "a"}), dry=True)
    assert heard == []


@pytest.fixture(scope="module")
def existing(api: Api, recorder: Recorder) -> Iterator[None]:
    """StatefulSets `member` and `stranger`, without replicas: their controller makes nothing of them."""
    del recorder  # it has to be there first: creating a member calls it
    for name, named in (("member", {VOLCANO: "research"}), ("stranger", {})):
        made = body("statefulsets", template=named, replicas=0)
        made["metadata"]["name"] = name
        assert api.create(path("statefulsets"), made).status == 201
    yield
    for name in ("member", "stranger"):
        api.delete(path("statefulsets", name))


@pytest.mark.usefixtures("existing")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"spec": {"template": {"metadata": {"annotations": {VOLCANO: "labs"}}}}}, MEMBER),
        ({"spec": {"template": {"metadata": {"annotations": {VOLCANO: None}}}}}, MEMBER),
        ({"metadata": {"annotations": {VOLCANO: "labs"}}}, MEMBER),
        ({"metadata": {"labels": {"sluice.dev/queue": "labs"}}}, MEMBER),
        ({"spec": {"replicas": 1}}, MEMBER),
        ({"spec": {"minReadySeconds": 1}}, []),
        ({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "7"}}}, []),
        ({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}, []),
    ],
    ids=str,
)
def test_an_update_of_a_member_is_shown_where_it_concerns_its_queue(
    api: Api, recorder: Recorder, change: Body, expected: list[str]
) -> None:
    with recorder.asked() as heard:
        reply = api.patch(path("statefulsets", "member"), change, dry=True)
    assert (reply.status, heard) == (200, expected)


@pytest.mark.usefixtures("existing")
def test_an_update_of_a_stranger_costs_nothing(api: Api, recorder: Recorder) -> None:
    with recorder.asked() as heard:
        api.patch(path("statefulsets", "stranger"), {"spec": {"replicas": 3}}, dry=True)
    assert heard == []


@pytest.mark.usefixtures("existing")
@pytest.mark.parametrize("name", ["member", "stranger"])
def test_a_scale_from_nought_is_shown_whoever_it_is(api: Api, recorder: Recorder, name: str) -> None:
    """A scale does not say whose it is."""
    with recorder.asked() as heard:
        reply = api.patch(path("statefulsets", name) + "/scale", {"spec": {"replicas": 2}}, dry=True)
    assert (reply.status, heard) == (200, SCALE)


@pytest.mark.usefixtures("existing")
def test_a_scale_to_nought_costs_nothing(api: Api, recorder: Recorder) -> None:
    with recorder.asked() as heard:
        api.patch(path("statefulsets", "member") + "/scale", {"spec": {"replicas": 0}}, dry=True)
    assert heard == []


def test_a_podgroup_is_shown_when_it_is_made_or_moved(api: Api, recorder: Recorder) -> None:
    groups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/plain/podgroups"
    gang = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"queue": "research"},
    }
    with recorder.asked() as made:
        assert api.create(groups, gang).status == 201
    try:
        with recorder.asked() as moved:
            api.patch(f"{groups}/gang", {"spec": {"queue": "labs"}}, dry=True)
        with recorder.asked() as grown:
            api.patch(f"{groups}/gang", {"spec": {"minMember": 3}, "status": {"phase": "Running"}}, dry=True)
    finally:
        api.delete(f"{groups}/gang")
    assert (made, moved, grown) == (GROUP, GROUP, [])
