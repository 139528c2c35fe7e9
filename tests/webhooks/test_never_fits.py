"""Who submits what requests more than its queue ever allows is told; it is admitted, and waits."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.cache.priority_classes import PriorityClass
from cluster.objects import Metadata
from queues.messages import WARNING_LIMIT
from tests.cluster.cache.test_device_claims import claim
from tests.support.cases import each_case, with_new
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    NAMED,
    Wire,
    pod,
    podgroup,
    queue,
    template,
    templates_of,
    workload,
)
from tests.support.webhooks.workload_requests import CONTROLLER, admitted, changed, updated
from webhooks.settings import AdmissionSettings

KINDS = each_case(
    "resource",
    ["jobs.batch", "cronjobs.batch", "deployments.apps", "jobs.batch.volcano.sh", "jobsets.jobset.x-k8s.io"],
)
POD = 'this waits: it requests cpu 3, more than capability 2 of queue "lab"'
PODS = 'its pods wait: each requests cpu 3, more than capability 2 of queue "lab"'


def new_server() -> Server:
    return Server(terms=AdmissionSettings(controller_users=frozenset({CONTROLLER}))).has(
        queue("lab", capability={"cpu": "2"}), queue("team", parent="lab"), queue("free")
    )


@pytest.fixture
def server() -> Server:
    return new_server()


def cpu(amount: str, *, what: str = "requests") -> Wire:
    return {what: {"cpu": amount}}


def work(resource: str, amount: str = "3", *, name: str = "team", what: str = "requests") -> Wire:
    obj = workload(resource, "train", template({NAMED: name}))
    for each in templates_of(obj):
        each["spec"]["containers"] = [{"name": "main", "image": "none", "resources": cpu(amount, what=what)}]
    return obj


def told(server: Server, obj: Wire, **request: Any) -> list[str]:
    answer = server.ask("/mutate/pods", obj, **request)
    assert answer.allowed, answer.message
    return answer.warnings


def test_a_pod_that_never_fits_is_admitted_with_a_warning(server: Server) -> None:
    assert told(server, pod(annotations={NAMED: "team"}, resources=cpu("3"))) == [POD]
    assert told(server, pod(annotations={NAMED: "team"}, resources=cpu("2"))) == []
    assert told(server, pod(annotations={NAMED: "free"}, resources=cpu("3"))) == []


def test_claims_of_devices_that_are_limited_by_class_are_told_of(server: Server) -> None:
    server.has(queue("gpu", capability={"deviceclass/gpu": "4"}))
    devices = server.store.device_claims
    devices.classes.replace([])
    devices.claims.replace([claim("few", 4), claim("many", 5), claim("all", allocationMode="All")])

    def claiming(*names: str) -> list[Wire]:
        return [{"name": name, "resourceClaimName": name} for name in names]

    def of_a_pod(*claims: Wire) -> list[str]:
        return told(server, pod(annotations={NAMED: "gpu"}, resourceClaims=[*claims]))

    assert of_a_pod(*claiming("few", "absent"), {"name": "made", "resourceClaimTemplateName": "all"}) == []
    assert of_a_pod(*claiming("many", "absent")) == [
        'this waits: it requests deviceclass/gpu 5, more than capability 4 of queue "gpu"'
    ]
    assert of_a_pod(*claiming("all")) == [
        'this waits: it claims devices that cannot be counted, and queue "gpu" limits deviceclass/gpu'
    ]
    obj = work("jobs.batch", name="gpu")
    obj["spec"]["template"]["spec"]["resourceClaims"] = claiming("many")
    assert admitted(server, obj)[1].warnings[0].startswith("its pods wait: each requests deviceclass/gpu 5")


def test_a_stopped_queue_says_that_too(server: Server) -> None:
    server.has(queue("team", parent="lab", version=2, generation=2, stopPolicy="Hold"))
    first, second = told(server, pod(annotations={NAMED: "team"}, resources=cpu("3")))
    assert "stopPolicy Hold" in first
    assert second == POD


def test_controllers_are_told_nothing(server: Server) -> None:
    assert told(server, pod(annotations={NAMED: "team"}, resources=cpu("3")), user=CONTROLLER) == []


@KINDS
@with_new(server=new_server)
def test_a_workload_whose_pods_never_fit_is_admitted_with_a_warning(server: Server, resource: str) -> None:
    assert admitted(server, work(resource))[1].warnings == [PODS]
    assert admitted(server, work(resource, "2"))[1].warnings == []
    assert admitted(server, work(resource, name="free"))[1].warnings == []


def test_a_limit_counts_where_no_request_is(server: Server) -> None:
    """As the API server writes it into the pods."""
    assert admitted(server, work("jobs.batch", what="limits"))[1].warnings == [PODS]


def test_an_edit_says_it_once(server: Server) -> None:
    """Whoever edits something else is not told again of what was so before."""
    fits, never = work("deployments.apps", "2"), work("deployments.apps", "3")
    assert updated(server, fits, never)[1].warnings == [PODS]
    assert updated(server, never, changed(never, paused=True))[1].warnings == []
    assert updated(server, never, fits)[1].warnings == []


def test_a_move_into_the_queue_says_it(server: Server) -> None:
    was, moved = work("deployments.apps", name="free"), work("deployments.apps")
    assert updated(server, was, moved)[1].warnings == [PODS]


@each_case("spec", [None, 7, {"containers": 7}, {"containers": [{"resources": {"requests": 1}}]}])
@with_new(server=new_server)
def test_a_template_of_no_shape_is_left_to_the_api_server(server: Server, spec: object) -> None:
    obj = work("jobs.batch")
    for each in templates_of(obj):
        each["spec"] = spec
    answer = server.ask("/mutate/workloads", obj, resource="jobs.batch")
    assert answer.warnings == []


NEVER = "the pods of this PodGroup never start: "


def told_of_group(server: Server, group: Wire, **request: Any) -> list[str]:
    path = "/validate/podgroups" if "old" in request else "/mutate/podgroups"
    answer = server.ask(path, group, resource="podgroups.scheduling.volcano.sh", name="gang", **request)
    assert answer.allowed, answer.message
    return answer.warnings


@each_case(
    ("spec", "warnings"),
    [
        ({"minMember": 4}, []),
        ({"minMember": 4, "minResources": {"cpu": "2"}}, []),
        ({"minMember": 513}, [f"{NEVER}513 pods are to start together, and 512 can at most"]),
        (
            {"minMember": 2, "minResources": {"cpu": "3"}},
            [f"{NEVER}together they need more cpu than lab may use"],
        ),
        ({"minResources": {"cpu": "lots"}}, [f'{NEVER}minResources "cpu" is no quantity']),
    ],
)
@with_new(server=new_server)
def test_a_podgroup_that_can_never_start_is_admitted_with_a_warning(
    server: Server, spec: dict[str, Any], warnings: list[str]
) -> None:
    group = podgroup("gang", queue="team", **spec)
    assert told_of_group(server, group) == warnings
    assert told_of_group(server, group, user=CONTROLLER) == []
    assert told_of_group(server, podgroup("gang", queue="free", **spec)) == []
    before = podgroup("gang", queue="team", minMember=1)
    assert told_of_group(server, group, old=before, operation="UPDATE") == warnings
    assert told_of_group(server, group, old=group, operation="UPDATE") == []
    assert told_of_group(server, group, old=before, operation="UPDATE", user=CONTROLLER) == []
    elsewhere = podgroup("gang", queue="free", minMember=1)
    assert told_of_group(server, group, old=elsewhere, operation="UPDATE") == [], "the move says it"


ABSENT = 'PriorityClass "absent" does not exist: until it does, this gang goes by the priorities of its pods'


@each_case(
    ("spec", "warnings"),
    [
        ({"minMember": 2, "priorityClassName": "high"}, []),
        ({"minMember": 2, "priorityClassName": "absent"}, [ABSENT]),
        ({"minResources": {"cpu": "1"}, "priorityClassName": "absent"}, [ABSENT]),
        ({"minMember": 2}, []),
        ({"minMember": 1, "priorityClassName": "absent"}, []),
        ({"minMember": 2, "priorityClassName": ""}, []),
    ],
    ids=["there", "absent", "of resources", "none", "no gang", "empty"],
)
@with_new(server=new_server)
def test_a_gang_that_names_no_priority_class_that_exists_is_admitted_with_a_warning(
    server: Server, spec: dict[str, Any], warnings: list[str]
) -> None:
    """Only where the classes are read; and the class may come later."""
    classes = server.store.priority_classes
    group, before = podgroup("gang", queue="team", **spec), podgroup("gang", queue="team", minMember=3)
    assert told_of_group(server, group) == []
    classes.follow(needed=True)
    assert told_of_group(server, group) == []
    classes.replace([PriorityClass(metadata=Metadata(name="high", uid="uid-high"), value=9)])
    assert told_of_group(server, group) == warnings
    assert told_of_group(server, group, old=before, operation="UPDATE") == warnings
    assert told_of_group(server, group, old=group, operation="UPDATE") == []
    assert told_of_group(server, group, user=CONTROLLER) == []
    assert told_of_group(server, podgroup("gang", queue="free", **spec)) == []
    classes.upsert(PriorityClass(metadata=Metadata(name="absent", uid="uid-absent")))
    assert told_of_group(server, group) == []


def test_of_the_longest_name_of_a_class_as_much_is_said_as_clients_show(server: Server) -> None:
    server.store.priority_classes.follow(needed=True)
    server.store.priority_classes.replace([])
    [told] = told_of_group(
        server, podgroup("gang", queue="team", minMember=2, priorityClassName="\u202ex" * 2000)
    )
    assert len(told) <= WARNING_LIMIT
    assert "\u202e" not in told


def test_an_edit_to_a_time_that_is_none_is_warned_of(server: Server) -> None:
    within = "sluice.dev/place-within"
    group = podgroup("gang", queue="team", annotations={within: "soon"})
    before = podgroup("gang", queue="team", annotations={within: "90s"})
    [told] = told_of_group(server, group, old=before, operation="UPDATE")
    assert told.startswith(f'{within} "soon" is no time')
    assert told_of_group(server, group, old=group, operation="UPDATE") == []
