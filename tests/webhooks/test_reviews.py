"""The review codec: what every answer has, and what the routes do before a handler is asked."""

from __future__ import annotations

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    NAMED,
    member,
    pod,
    queue,
    review,
)

PATHS = [
    "/mutate/queues",
    "/validate/queues",
    "/mutate/pods",
    "/validate/pods",
    "/validate/binds",
    "/mutate/namespaces",
    "/mutate/commands",
]


def new_server() -> Server:
    return Server().has(queue("closed", state="Closed"), queue("held", stopPolicy="Hold"))


@pytest.fixture
def server() -> Server:
    return new_server()


@each_case("path", PATHS)
@with_new(server=new_server)
def test_before_the_cluster_has_been_read_the_api_server_does_as_the_failure_policy_says(
    server: Server, path: str
) -> None:
    server.readiness.synced = False
    reply = server.post(path, review(member(), old=member()))
    assert reply.status_code == 503
    assert reply.get_json()["message"] == "sluice has not read the cluster yet"


@each_case("path", [path for path in PATHS if path != "/validate/binds"])
@with_new(server=new_server)
def test_so_does_each_but_the_guard_once_the_api_server_has_been_lost(server: Server, path: str) -> None:
    server.readiness.synced = False
    server.readiness.cut_off = True
    assert server.post(path, review(member(), old=member())).status_code == 503


@each_case("path", PATHS)
@with_new(server=new_server)
def test_another_kind_or_version_of_review_is_refused(server: Server, path: str) -> None:
    for wrong in ({"kind": "Pod"}, {"apiVersion": "admission.k8s.io/v1beta1"}):
        reply = server.post(path, {**review(member()), **wrong})
        assert reply.status_code == 400
        assert "expected AdmissionReview of admission.k8s.io/v1" in reply.get_json()["message"]


@each_case("field", ["kind", "apiVersion"])
@with_new(server=new_server)
def test_what_a_caller_wrote_is_not_echoed_at_length(server: Server, field: str) -> None:
    reply = server.post("/mutate/pods", {**review(member()), field: "x\n\u202e" * 100_000})
    assert reply.status_code == 400
    message = reply.get_json()["message"]
    assert len(message) < 500
    assert message.isprintable()


@each_case("path", PATHS)
@with_new(server=new_server)
def test_an_empty_uid_is_refused(server: Server, path: str) -> None:
    reply = server.post(path, review(member(), uid=""))
    assert reply.status_code == 400
    assert reply.get_json()["message"] == "request.uid: empty"


@each_case("path", PATHS)
@each_case("obj", [None, 1, "x", [], True], ids=str)
@with_new(server=new_server)
def test_an_object_that_is_none_is_the_callers_fault(server: Server, path: str, obj: object) -> None:
    reply = server.post(path, review(obj, old=obj))
    assert reply.status_code == 400
    assert reply.get_json()["message"].startswith(("request.object: expected", "request.oldObject: expected"))


@each_case("path", [path for path in PATHS if path != "/mutate/queues"])
@with_new(server=new_server)
def test_an_object_of_the_wrong_shape_is_its_authors_fault_and_names_the_place(
    server: Server, path: str
) -> None:
    answer = server.ask(path, {"metadata": {"annotations": {"a": 1}}}, old={"metadata": {}})
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith("metadata.annotations[...]: Expected `str`")


def test_a_refusal_has_a_code_and_the_reason_of_that_code(server: Server) -> None:
    body = server.post("/mutate/pods", review(pod(annotations={NAMED: "closed"}))).get_json()
    status = body["response"]["status"]
    assert (status["status"], status["code"], status["reason"]) == ("Failure", 403, "Forbidden")
    assert "patch" not in body["response"]


def test_the_uid_is_echoed_whatever_it_is(server: Server) -> None:
    assert server.ask("/mutate/pods", pod(), uid='odd " uid \u2028').allowed


def test_a_patch_says_its_type_and_no_patch_says_nothing(server: Server) -> None:
    body = server.post("/mutate/pods", review(pod(annotations={NAMED: "held"}))).get_json()
    assert body["response"]["patchType"] == "JSONPatch"
    body = server.post("/mutate/pods", review(pod())).get_json()
    assert body["response"].keys() == {"uid", "allowed"}


def test_a_dry_run_may_be_null(server: Server) -> None:
    assert server.ask("/mutate/pods", pod(), dry_run=None).allowed
