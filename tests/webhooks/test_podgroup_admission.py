"""`/mutate/podgroups`: their queue takes them, or they are refused; under their pods it cannot change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import (
    GROUP,
    Wire,
    member,
    namespace,
    owner,
    pod,
    podgroup,
    queue,
    review,
    with_value,
    workload,
)
from tests.support.webhooks.json_patch import applied
from tests.support.webhooks.workload_requests import (
    AFTER,
    BEFORE,
    CAME,
    QUEUE,
    queues,
)

#: Who makes the PodGroups of Volcano's Jobs.
VOLCANO = "system:serviceaccount:volcano-system:volcano-controllers"
REFUSING = each_case("name", ["closed", "below", "lost"])


def new_server() -> Server:
    return queues().has(queue("default"))


@pytest.fixture
def server() -> Server:
    return new_server()


def ask(server: Server, group: Wire, **request: Any) -> Said:
    return server.ask(
        "/mutate/podgroups",
        group,
        resource="podgroups.scheduling.volcano.sh",
        **{"name": "gang", **request},
    )


def admitted(server: Server, group: Wire, **request: Any) -> tuple[Wire, Said]:
    answer = ask(server, group, **request)
    assert answer.allowed, answer.message
    return applied(answer.patch, group), answer


def refused(server: Server, group: Wire, **request: Any) -> Said:
    answer = ask(server, group, **request)
    assert (answer.allowed, answer.patch) == (False, [])
    return answer


def updated(server: Server, before: Wire, after: Wire, **request: Any) -> tuple[Wire, Said]:
    return admitted(server, after, old=before, operation="UPDATE", **request)


def written(group: Wire, name: str, *, came: str | None = "review-1") -> Wire:
    result = copy.deepcopy(group)
    result.setdefault("spec", {})["queue"] = name
    meta = result["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), QUEUE: name}
    if came is not None:
        meta["annotations"] = {**(meta.get("annotations") or {}), CAME: came}
    return result


def stored(server: Server, group: Wire) -> Wire:
    after, _ = admitted(server, group)
    server.has(after)
    return after


def moved(group: Wire, name: str | None) -> Wire:
    return {**copy.deepcopy(group), "spec": {} if name is None else {"queue": name}}


# Made


def test_its_queue_takes_it_and_is_written_as_its_label(server: Server) -> None:
    group = podgroup("gang", queue="research")
    after, answer = admitted(server, group)
    assert after == written(group, "research")
    assert answer.warnings == []


@each_case("said", [None, "", "default"])
@each_case("space", ["", "research"])
@with_new(server=new_server)
def test_without_a_queue_it_is_in_its_namespaces_else_in_default(
    server: Server, said: str | None, space: str
) -> None:
    """`default` too is what a client writes that was told nothing."""
    server.has(namespace("team", queue=space))
    after, _ = admitted(server, podgroup("gang", queue=said))
    assert after == written(podgroup("gang"), space or "default")


def test_a_queue_that_it_names_beats_its_namespaces(server: Server) -> None:
    server.has(namespace("team", queue="labs"))
    assert admitted(server, podgroup("gang", queue="research"))[0]["spec"]["queue"] == "research"


def test_a_podgroup_without_a_spec_gets_one(server: Server) -> None:
    bare = podgroup("gang")
    del bare["spec"]
    assert admitted(server, bare)[0]["spec"] == {"queue": "default"}


@REFUSING
@with_new(server=new_server)
def test_a_queue_that_does_not_accept_refuses_it(server: Server, name: str) -> None:
    answer = refused(server, podgroup("gang", queue=name))
    assert answer.code == 403
    assert answer.message.startswith(f'queue "{name}" is ')
    assert "takes no new podgroups; " in answer.message
    assert "kubectl " in answer.message
    assert server.store.admissions.queues() == frozenset()


def test_the_queue_that_its_namespace_names_must_accept_too(server: Server) -> None:
    server.has(namespace("team", queue="closed"))
    assert refused(server, podgroup("gang")).code == 403


@each_case("name", ["stopped", "held", "absent"])
@with_new(server=new_server)
def test_in_a_stopped_queue_it_is_admitted_with_a_warning(server: Server, name: str) -> None:
    after, answer = admitted(server, podgroup("gang", queue=name))
    assert after == written(podgroup("gang"), name)
    assert [one.startswith(f'queue "{name}" ') for one in answer.warnings] == [True]


def test_a_time_that_is_none_is_taken_with_a_warning(server: Server) -> None:
    within = "sluice.dev/place-within"
    _, answer = admitted(server, podgroup("gang", queue="default", annotations={within: "soon"}))
    assert answer.warnings == [f'{within} "soon" is no time, and has no effect: write 90, 90s, 10m or 1h30m']
    _, answer = admitted(server, podgroup("gang", queue="default", annotations={within: "10m"}))
    assert answer.warnings == []


@each_case("name", ["Research", "a b", "x" * 254, "-", "a\u202eb"], ids=lambda one: one[:8])
@with_new(server=new_server)
def test_a_name_that_no_queue_can_have_is_refused(server: Server, name: str) -> None:
    answer = refused(server, podgroup("gang", queue=name))
    assert answer.code == 422
    assert answer.message.startswith("spec.queue: ")
    assert "is not a queue name" in answer.message


@each_case("exempt", ["kube-system", "sluice-system"])
@with_new(server=new_server)
def test_namespaces_that_never_hold_members(server: Server, exempt: str) -> None:
    group = podgroup("gang", queue="closed", namespace=exempt)
    assert admitted(server, group, namespace=exempt)[0] == group
    assert updated(server, group, moved(group, "lost"), namespace=exempt)[0] == moved(group, "lost")


def test_what_a_user_writes_in_our_place_is_overwritten(server: Server) -> None:
    forged = podgroup("gang", queue="research", labels={QUEUE: "labs", "a": "b"}, annotations={CAME: "x"})
    assert admitted(server, forged)[0] == written(forged, "research")


def test_a_name_too_long_for_a_label_is_cut_there(server: Server) -> None:
    name = ".".join(["q" * 60] * 4)
    after, _ = admitted(server, podgroup("gang", queue=name))
    assert after["spec"]["queue"] == name
    assert len(after["metadata"]["labels"][QUEUE]) <= 63


# Work that a queue had accepted


@each_case(
    ("created", "user", "taken"), [(BEFORE, VOLCANO, True), (AFTER, VOLCANO, False), (BEFORE, "alice", False)]
)
@with_new(server=new_server)
def test_the_podgroup_of_accepted_work_is_admitted_from_its_controller(
    server: Server, created: str, user: str, taken: bool
) -> None:
    work = workload("jobs.batch.volcano.sh", created=created, queue="closed")
    server.has(work)
    group = podgroup("gang", queue="closed", owner=owner(work))
    assert ask(server, group, user=user).allowed is taken


def test_the_pods_of_accepted_work_come_though_their_podgroup_came_after_the_close(server: Server) -> None:
    work = workload("jobs.batch.volcano.sh", created=BEFORE, queue="closed")
    server.has(work, podgroup("gang", queue="closed", created=AFTER, owner=owner(work)))
    obj = pod(annotations={GROUP: "gang"}, owner=owner(work))
    assert server.ask("/mutate/pods", obj, user=VOLCANO).allowed
    assert not server.ask("/mutate/pods", pod(annotations={GROUP: "gang"}), user=VOLCANO).allowed


# Changed


def test_a_change_of_anything_else_changes_nothing(server: Server) -> None:
    held = stored(server, podgroup("gang", queue="research"))
    server.has(queue("research", state="Closed", version=2))
    after = {**held, "spec": {"queue": "research", "minMember": 3}}
    assert ask(server, after, old=held, operation="UPDATE").patch == []
    assert server.store.admissions.queues() == frozenset()


def test_our_label_is_put_back(server: Server) -> None:
    held = stored(server, podgroup("gang", queue="research"))
    for labels in ({QUEUE: "labs"}, {}, None):
        touched = {**held, "metadata": {**held["metadata"], "labels": labels}}
        assert updated(server, held, touched)[0] == held


def test_an_older_one_without_a_queue_stays_in_default_whatever_its_namespace_says(server: Server) -> None:
    server.has(namespace("team", queue="closed"))
    held = podgroup("gang")
    after, _ = updated(server, held, podgroup("gang", annotations={"a": "b"}))
    assert after["spec"] == {}
    assert after["metadata"]["labels"] == {QUEUE: "default"}


@each_case("pods", ["written", "waiting", "done"])
@with_new(server=new_server)
def test_it_cannot_be_moved_while_pods_name_it(server: Server, pods: str) -> None:
    named: dict[str, Any] = {"annotations": {GROUP: "gang"}}
    server.has(
        {
            "written": member("work", queue="research", **named),
            "waiting": pod("work", **named),
            "done": member("work", queue="research", status={"phase": "Succeeded"}, **named),
        }[pods]
    )
    held = podgroup("gang", queue="research")
    answer = refused(server, moved(held, "labs"), old=held, operation="UPDATE")
    assert answer.code == 422
    assert answer.message.startswith('spec.queue: PodGroup "gang" has pods')
    assert "delete the pods first" in answer.message


def test_pods_that_name_another_do_not_hold_it(server: Server) -> None:
    server.has(
        member("a", annotations={GROUP: "other"}),
        member("b", annotations={GROUP: "gang"}, namespace="elsewhere"),
    )
    held = podgroup("gang", queue="research")
    assert updated(server, held, moved(held, "labs"))[0]["spec"]["queue"] == "labs"


def test_without_pods_it_can_be_moved(server: Server) -> None:
    held = stored(server, podgroup("gang", queue="research"))
    after, _ = updated(server, held, moved(held, "labs"), uid="move-1")
    assert after == written(held, "labs", came="move-1")


@each_case("before", ["", None, "default"])
@with_new(server=new_server)
def test_to_name_default_where_no_queue_was_named_is_no_move(server: Server, before: str | None) -> None:
    server.has(member("work", queue="default", annotations={GROUP: "gang"}))
    held = podgroup("gang", queue=before, labels={QUEUE: "default"})
    for after in ("", None, "default"):
        assert ask(server, moved(held, after), old=held, operation="UPDATE").patch == []


@REFUSING
@with_new(server=new_server)
def test_the_queue_that_it_is_moved_to_must_accept(server: Server, name: str) -> None:
    held = stored(server, podgroup("gang", queue="research"))
    assert refused(server, moved(held, name), old=held, operation="UPDATE").code == 403
    assert server.store.admissions.queues() == frozenset()


def test_what_is_being_deleted_is_let_go(server: Server) -> None:
    held = podgroup("gang", queue="research")
    gone = moved(held, "closed")
    gone["metadata"]["deletionTimestamp"] = "2030-01-01T12:00:00Z"
    assert updated(server, held, gone)[0] == gone


# On its way


@each_case("operation", ["CREATE", "UPDATE"])
@with_new(server=new_server)
def test_it_is_on_its_way_until_it_is_seen(server: Server, operation: str) -> None:
    held, wanted = podgroup("gang", queue="research"), podgroup("gang", queue="labs", version=2)
    request = {"operation": operation, "old": held if operation == "UPDATE" else None}
    ask(server, wanted, dry_run=True, uid="dry", **request)
    assert server.store.admissions.queues() == frozenset()
    once, _ = admitted(server, wanted, uid="call-1", **request)
    assert server.store.admissions.queues() == {"labs"}
    server.has(once)
    assert server.store.admissions.queues() == frozenset()


@each_case("operation", ["CREATE", "UPDATE"])
@with_new(server=new_server)
def test_a_second_call_for_the_same_request_changes_nothing(server: Server, operation: str) -> None:
    """And leaves nothing open behind it, that nobody would ever see arrive."""
    held, wanted = podgroup("gang", queue="research"), podgroup("gang", queue="labs", version=2)
    request = {"operation": operation, "old": held if operation == "UPDATE" else None}
    once, _ = admitted(server, wanted, uid="call-1", **request)
    twice, _ = admitted(server, once, uid="call-2", **request)
    assert twice == once
    assert once["metadata"]["annotations"][CAME] == "call-1"
    server.has(twice)
    assert server.store.admissions.queues() == frozenset()


# Bad input


@each_case(
    ("place", "wrong"),
    [
        (("spec",), None),
        (("spec",), []),
        (("spec", "queue"), 1),
        (("spec", "queue"), ["research"]),
        (("spec", "minMember"), "3"),
        (("metadata", "labels"), {"a": None}),
        (("metadata", "annotations"), []),
        (("status",), "x"),
        (("status", "conditions"), [None]),
    ],
    ids=str,
)
@with_new(server=new_server)
def test_the_wrong_type_is_refused_with_its_place(server: Server, place: tuple[str, ...], wrong: Any) -> None:
    answer = ask(server, with_value(podgroup("gang", queue="research", status={}), place, wrong))
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith(".".join(place)), answer.message


def test_an_update_without_what_it_was_is_a_bad_request(server: Server) -> None:
    reply = server.post("/mutate/podgroups", review(podgroup("gang"), operation="UPDATE"))
    assert reply.status_code == 400
    assert "request.oldObject" in reply.get_json()["message"]
