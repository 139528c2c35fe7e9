"""Which requests about workloads and PodGroups call our webhooks, in a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.manifests.admission_recorder import Recorder
from tests.support.manifests.bare_api import (
    SERVER,
    Api,
    eventually,
)

pytestmark = pytest.mark.cluster

Body = dict[str, Any]

MEMBER = ["members.workloads.sluice.dev/mutate/workloads"]
NAMESPACE = ["namespaces.workloads.sluice.dev/mutate/workloads"]
SCALE = ["scales.sluice.dev/validate/scales"]
GROUP = ["podgroups.sluice.dev/mutate/podgroups"]
EDIT = ["edits.podgroups.sluice.dev/validate/podgroups"]
VOLCANO = "scheduling.volcano.sh/queue-name"
LABEL = "volcano.sh/queue-name"
MARK = "sluice.dev/suspended"
JOB_SET = ["members.jobsets.sluice.dev/mutate/workloads"]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/plain/jobsets"


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
def test_a_scale_that_grows_is_sent_to_us_whoever_it_is(api: Api, recorder: Recorder, name: str) -> None:
    """A scale does not say whose it is."""
    with recorder.asked() as heard:
        reply = api.patch(path("statefulsets", name) + "/scale", {"spec": {"replicas": 2}}, dry=True)
    assert (reply.status, heard) == (200, SCALE)


@pytest.mark.usefixtures("existing")
def test_a_scale_that_does_not_grow_costs_nothing(api: Api, recorder: Recorder) -> None:
    with recorder.asked() as heard:
        api.patch(path("statefulsets", "member") + "/scale", {"spec": {"replicas": 0}}, dry=True)
    assert heard == []


def change(*, mark: str | None = "", suspend: bool | None = None, **metadata: Body) -> Body:
    """A patch; an empty mark is none in it."""
    annotations = {} if mark == "" else {"annotations": {MARK: mark}}
    spec = {} if suspend is None else {"spec": {"suspend": suspend}}
    return {"metadata": {**annotations, **metadata}, **spec}


@pytest.fixture(scope="module")
def jobs(api: Api, recorder: Recorder) -> Iterator[None]:
    """Suspended Jobs: `drained` has our mark, `paused` has none; `foreign`, with a mark, is of no queue."""
    del recorder
    for name, named, own in (
        ("drained", {VOLCANO: "research"}, {MARK: "research"}),
        ("paused", {VOLCANO: "research"}, {}),
        ("foreign", {}, {MARK: "research"}),
    ):
        made = body("jobs", template=named, own=own)
        made["metadata"]["name"] = name
        made["spec"]["suspend"] = True
        assert api.create(path("jobs"), made).status == 201
    yield
    for name in ("drained", "paused", "foreign"):
        api.delete(path("jobs", name))


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("drained", change(mark="labs")),
        ("drained", change(mark=None)),
        ("drained", change(suspend=False)),
        ("drained", change(mark=None, suspend=False)),
        ("paused", change(mark="research")),
        ("paused", change(mark="research", suspend=False)),
        ("foreign", change(mark=None)),
        ("foreign", change(suspend=False)),
    ],
    ids=str,
)
def test_the_mark_of_a_suspended_job_is_guarded(
    api: Api, recorder: Recorder, name: str, written: Body
) -> None:
    """Where it changes, and where the suspension that it tells of ends."""
    with recorder.asked() as heard:
        reply = api.patch(path("jobs", name), written, dry=True)
    assert (reply.status, heard) == (200, MEMBER)


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("name", ["drained", "paused", "foreign"])
@pytest.mark.parametrize(
    "written",
    [
        change(labels={"app": "x"}),
        change(annotations={"example.com/note": "x"}),
        change(suspend=True),
        {"spec": {"activeDeadlineSeconds": 60}},
    ],
    ids=str,
)
def test_any_other_update_of_a_suspended_job_costs_nothing(
    api: Api, recorder: Recorder, name: str, written: Body
) -> None:
    with recorder.asked() as heard:
        reply = api.patch(path("jobs", name), written, dry=True)
    assert (reply.status, heard) == (200, [])


@pytest.mark.usefixtures("jobs")
def test_a_job_that_its_user_suspended_is_resumed_without_us(api: Api, recorder: Recorder) -> None:
    with recorder.asked() as heard:
        reply = api.patch(path("jobs", "paused"), change(suspend=False), dry=True)
    assert (reply.status, heard) == (200, [])


@pytest.mark.usefixtures("jobs")
def test_a_status_costs_nothing(api: Api, recorder: Recorder) -> None:
    """The Job's controller writes many of them."""
    with recorder.asked() as heard:
        reply = api.patch(path("jobs", "drained") + "/status", {"status": {"failed": 1}}, dry=True)
    assert (reply.status, heard) == (200, [])


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("paused", change(mark="research", suspend=True)),
        ("drained", change(mark=None, suspend=False)),
        ("drained", change(suspend=False)),
    ],
    ids=str,
)
def test_the_server_suspends_and_gives_back_without_asking_itself(
    api: Api, recorder: Recorder, name: str, written: Body
) -> None:
    with recorder.asked() as heard:
        reply = api.patch(path("jobs", name), written, user=SERVER, dry=True)
    assert (reply.status, heard) == (200, [])


@pytest.mark.parametrize("resource", RESOURCES)
def test_one_of_no_queue_that_bears_the_mark_is_shown(api: Api, recorder: Recorder, resource: str) -> None:
    with recorder.asked() as heard:
        reply = api.create(path(resource), body(resource, own={MARK: "research"}), dry=True)
    assert (reply.status, heard) == (201, MEMBER)


@pytest.fixture(scope="module")
def job_sets(api: Api, recorder: Recorder) -> Iterator[None]:
    """JobSet `drained`, with our mark, and `stranger`, of no queue."""
    del recorder
    kind = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "jobsets.jobset.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "jobset.x-k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "JobSet", "plural": "jobsets"},
            "versions": [
                {
                    "name": "v1alpha2",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    assert api.create(DEFINITIONS, kind).status == 201
    eventually(lambda: api.get(JOB_SETS).status == 200)
    assert api.create(JOB_SETS, job_set("drained", mark="research")).status == 201
    assert api.create(JOB_SETS, job_set("stranger")).status == 201
    yield
    api.delete(f"{DEFINITIONS}/jobsets.jobset.x-k8s.io")


def job_set(name: str, *, mark: str = "") -> Body:
    """One without a mark names no queue either."""
    own = {MARK: mark, VOLCANO: mark} if mark else {}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": own},
        "spec": {"suspend": True, "replicatedJobs": []},
    }


@pytest.mark.usefixtures("job_sets")
@pytest.mark.parametrize("written", [change(mark=None), change(mark="labs"), change(suspend=False)], ids=str)
def test_the_mark_of_a_jobset_is_guarded(api: Api, recorder: Recorder, written: Body) -> None:
    with recorder.asked() as heard:
        reply = api.patch(f"{JOB_SETS}/drained", written, dry=True)
    assert (reply.status, heard) == (200, JOB_SET)


@pytest.mark.usefixtures("job_sets")
def test_a_jobset_of_no_queue_is_shown_where_it_bears_the_mark(api: Api, recorder: Recorder) -> None:
    with recorder.asked() as other:
        api.patch(f"{JOB_SETS}/stranger", change(suspend=False), dry=True)
        api.patch(f"{JOB_SETS}/drained/status", {"status": {"restarts": 1}}, dry=True)
    with recorder.asked() as marked:
        reply = api.patch(f"{JOB_SETS}/stranger", change(mark="research"), dry=True)
    assert (other, reply.status, marked) == ([], 200, JOB_SET)


def test_a_podgroup_is_shown_when_it_is_made_moved_or_asks_for_something_else(
    api: Api, recorder: Recorder
) -> None:
    """Not when its status alone changes, which is written often."""
    groups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/plain/podgroups"
    gang = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "labels": {"sluice.dev/queue": "research"}},
        "spec": {"queue": "research"},
    }
    with recorder.asked() as made:
        assert api.create(groups, gang).status == 201
    try:
        with recorder.asked() as moved:
            api.patch(f"{groups}/gang", {"spec": {"queue": "labs"}}, dry=True)
        with recorder.asked() as grown:
            api.patch(f"{groups}/gang", {"spec": {"minMember": 3}, "status": {"phase": "Running"}}, dry=True)
        with recorder.asked() as timed:
            annotations = {"sluice.dev/place-within": "soon"}
            api.patch(f"{groups}/gang", {"metadata": {"annotations": annotations}}, dry=True)
        with recorder.asked() as counted:
            api.patch(f"{groups}/gang", {"status": {"phase": "Running"}}, dry=True)
    finally:
        api.delete(f"{groups}/gang")
    assert (made, moved, grown, timed, counted) == (GROUP, [*GROUP, *EDIT], EDIT, EDIT, [])
