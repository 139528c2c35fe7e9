"""`/validate/scales`: the first replicas are new work, which a closing queue refuses; more bring a warning
where the queue is stopped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import (
    NAMED,
    Wire,
    owner,
    queue,
    review,
    template,
    workload,
)
from tests.support.webhooks.workload_requests import CONTROLLER, queues

SCALING = each_case("resource", ["deployments.apps", "statefulsets.apps", "replicasets.apps"])
REFUSING = each_case("name", ["closed", "below", "lost"])


@pytest.fixture
def server() -> Server:
    return queues()


def scale(replicas: int | None) -> Wire:
    """A Scale as the API server sends it: nought is left out."""
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": 0},
    }


def scaled(server: Server, resource: str, was: int | None, now: int | None, **more: Any) -> Said:
    return server.ask(
        "/validate/scales",
        scale(now),
        old=scale(was),
        operation="UPDATE",
        resource=resource,
        sub_resource="scale",
        **{"name": "train", **more},
    )


def sleeping(resource: str, name: str, **more: Any) -> Wire:
    """A workload of a queue, of no replicas unless told otherwise."""
    return workload(resource, "train", template({NAMED: name}), **{"replicas": 0, **more})


@SCALING
@with_new(server=queues)
def test_what_a_drain_keeps_at_zero_gets_back_what_it_had_and_no_more(server: Server, resource: str) -> None:
    kept = sleeping(resource, "closed")
    kept["metadata"]["annotations"] = {"sluice.dev/suspended": "closed/3"}
    server.has(kept)
    assert scaled(server, resource, 0, 3).allowed
    answer = scaled(server, resource, 0, 4)
    assert (answer.allowed, answer.code) == (False, 403)
    assert "replicas beyond the 3 that this" in answer.message


@SCALING
@REFUSING
@with_new(server=queues)
def test_what_had_no_replicas_gets_none_where_its_queue_takes_nothing_new(
    server: Server, resource: str, name: str
) -> None:
    server.has(sleeping(resource, name))
    answer = scaled(server, resource, 0, 3)
    assert (answer.allowed, answer.code, answer.patch) == (False, 403, [])
    assert answer.message.startswith(f'spec.replicas: queue "{name}" takes no new work, and a ')
    assert "that had no replicas is new; " in answer.message
    assert answer.message.endswith(("kubectl queue open closed", "kubectl edit queue lost"))


@SCALING
@REFUSING
@with_new(server=queues)
def test_what_has_replicas_gets_no_more_where_its_queue_takes_nothing_new(
    server: Server, resource: str, name: str
) -> None:
    """Autoscalers neither; those that it has are replaced as ever."""
    server.has(sleeping(resource, name, replicas=3))
    for more in ({}, {"user": CONTROLLER}):
        answer = scaled(server, resource, 3, 4, **more)
        assert (answer.allowed, answer.code) == (False, 403)
        assert answer.message.startswith(
            f'spec.replicas: queue "{name}" takes no new work, and replicas beyond the 3 '
        )
        assert answer.message.endswith(("kubectl queue open closed", "kubectl edit queue lost"))


@SCALING
@each_case(("was", "now"), [(3, 0), (3, 3), (9, 3), (0, 0), (None, None)])
@with_new(server=queues)
def test_every_other_scale_is_allowed(
    server: Server, resource: str, was: int | None, now: int | None
) -> None:
    server.has(sleeping(resource, "closed", replicas=was or 0))
    assert scaled(server, resource, was, now).allowed


@SCALING
@with_new(server=queues)
def test_what_it_wanted_is_read_from_the_request_and_not_from_what_was_seen(
    server: Server, resource: str
) -> None:
    """It went to nought a moment ago, and the server has not seen that yet."""
    server.has(sleeping(resource, "closed", replicas=5))
    assert not scaled(server, resource, 0, 1).allowed


@SCALING
@each_case("name", ["research", "stopped", "held", "absent"])
@with_new(server=queues)
def test_where_its_queue_accepts_it_wakes(server: Server, resource: str, name: str) -> None:
    server.has(sleeping(resource, name))
    assert scaled(server, resource, 0, 1).allowed


@SCALING
@with_new(server=queues)
def test_of_no_queue_it_wakes(server: Server, resource: str) -> None:
    server.has(workload(resource, "train", replicas=0))
    assert scaled(server, resource, 0, 1).allowed


@SCALING
@with_new(server=queues)
def test_workloads_of_the_same_name_in_other_kinds_or_namespaces_do_not_count(
    server: Server, resource: str
) -> None:
    others = [one for one in ("deployments.apps", "statefulsets.apps") if one != resource]
    server.has(sleeping(resource, "closed", namespace="elsewhere"))
    server.has(*(sleeping(one, "closed") for one in others))
    assert scaled(server, resource, 0, 1).allowed
    assert not scaled(server, resource, 0, 1, namespace="elsewhere").allowed


@SCALING
@each_case("kind", ["Deployment", "Workflow"])
@with_new(server=queues)
def test_an_owner_wakes_nothing_for_controllers_do_not_ask_for_scales(
    server: Server, resource: str, kind: str
) -> None:
    """Else whoever can write an owner reference could wake it."""
    maker = {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "m", "uid": "m"}}
    server.has(sleeping(resource, "closed", owner=owner(maker)))
    assert not scaled(server, resource, 0, 1).allowed
    assert not scaled(server, resource, 0, 1, user=CONTROLLER).allowed


@each_case("resource", ["pods", "widgets.example.com", "", "deployments"])
@with_new(server=queues)
def test_a_scale_of_another_kind_is_allowed(server: Server, resource: str) -> None:
    server.has(sleeping("deployments.apps", "closed"))
    assert scaled(server, resource, 0, 1).allowed


@each_case("place", ["obj", "old"])
@each_case("bad", [None, [], "x", 1])
@with_new(server=queues)
def test_without_a_scale_it_is_a_bad_request(server: Server, place: str, bad: Any) -> None:
    body = review(
        **{"obj": scale(1), "old": scale(0), place: bad}, operation="UPDATE", resource="deployments.apps"
    )
    reply = server.post("/validate/scales", body)
    assert reply.status_code == 400
    assert "expected an object" in reply.get_json()["message"]


@each_case("bad", ["3", 1.5, [1], {"a": 1}, True], ids=str)
@with_new(server=queues)
def test_replicas_that_are_no_number_are_refused_with_their_place(server: Server, bad: Any) -> None:
    answer = scaled(server, "deployments.apps", 0, bad)
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith("spec.replicas: ")


@SCALING
@with_new(server=queues)
def test_one_that_is_let_grow_is_on_its_way(server: Server, resource: str) -> None:
    """A close waits until it has come, as for whatever else was taken; a refusal and a dry run are none."""
    server.has(sleeping(resource, "closed"))
    scaled(server, resource, 0, 3)
    server.has(sleeping(resource, "research"))
    scaled(server, resource, 0, 3, dry_run=True)
    assert server.store.admissions.queues() == frozenset()
    assert scaled(server, resource, 0, 3).allowed
    assert server.store.admissions.queues() == {"research"}
    server.has(queue("research", state="Closed", version=9))
    assert not scaled(server, resource, 0, 3).allowed
    assert not scaled(server, resource, 0, 3, dry_run=True).allowed
    assert server.store.admissions.queues() == {"research"}, "the first is still on its way"
    server.has(sleeping(resource, "research", replicas=0, version=8))
    assert server.store.admissions.queues() == {"research"}
    server.has(sleeping(resource, "research", replicas=3, version=9))
    assert server.store.admissions.queues() == frozenset()


@SCALING
@each_case(("was", "now"), [(0, 1), (None, 2), (3, 4)])
@each_case(
    ("name", "warning"),
    [
        ("stopped", 'queue "stopped" is Suspended (disks): new pods wait; an admin of queues can resume it'),
        (
            "held",
            'queue "held" is stopped by stopPolicy Hold: new pods wait; an admin of queues can resume it',
        ),
        (
            "child",
            'queue "child" is Suspended by its ancestor "stopped" (disks): new pods wait; '
            'an admin of queues can resume "stopped"',
        ),
        (
            "absent",
            'queue "absent" does not exist: new pods wait; '
            "name another queue, or have an admin of queues create it",
        ),
    ],
)
@with_new(server=queues)
def test_more_replicas_in_a_stopped_queue_bring_a_warning_that_names_who_stops_it(
    server: Server, resource: str, was: int | None, now: int, name: str, warning: str
) -> None:
    server.has(queue("child", parent="stopped"), sleeping(resource, name, replicas=was or 0))
    answer = scaled(server, resource, was, now)
    assert (answer.allowed, answer.warnings) == (True, [warning])


@SCALING
@each_case(("was", "now"), [(3, 0), (9, 3), (3, 3)])
@with_new(server=queues)
def test_no_more_replicas_than_before_bring_no_warning(
    server: Server, resource: str, was: int, now: int
) -> None:
    server.has(sleeping(resource, "stopped", replicas=was))
    assert scaled(server, resource, was, now).warnings == []


@SCALING
@each_case("name", ["research", "closed"])
@with_new(server=queues)
def test_more_replicas_where_the_queue_schedules_bring_no_warning(
    server: Server, resource: str, name: str
) -> None:
    server.has(sleeping(resource, name, replicas=3))
    assert scaled(server, resource, 3, 4).warnings == []


@SCALING
@with_new(server=queues)
def test_an_autoscaler_reads_no_warnings_and_gets_none(server: Server, resource: str) -> None:
    server.has(sleeping(resource, "stopped", replicas=3))
    autoscaler = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
    answer = scaled(server, resource, 3, 4, user=autoscaler)
    assert (answer.allowed, answer.warnings) == (True, [])
