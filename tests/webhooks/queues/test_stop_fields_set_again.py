"""`/mutate/queues`: a stop that follows another with the same `reason` and `resumeAt`, by whoever sets them.

What a review looks like here was seen on a real API server (tests/e2e/stops/test_stops_that_follow_stops.py).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import OWN, Server
from tests.support.http.wire_objects import Wire, member, queue
from tests.support.webhooks.json_patch import applied

LATER = "2030-06-01T00:00:00Z"
STOP: dict[str, Any] = {"state": "Suspended", "resumeAt": LATER, "reason": "disks"}
NEXT = {**STOP, "state": "Open", "stopPolicy": "Hold"}
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.fixture
def server() -> Server:
    return Server()


def spec_after(server: Server, before: Wire, after: Wire, **request: Any) -> Wire:
    answer = server.ask("/mutate/queues", after, old=before, operation="UPDATE", **request)
    assert answer.allowed, answer.message
    spec: Wire = applied(answer.patch, after)["spec"]
    return spec


def kept(spec: Wire) -> set[str]:
    return {"resumeAt", "reason"} & spec.keys()


def with_managed(of: Wire, *entries: Wire) -> Wire:
    return {**of, "metadata": {**of["metadata"], "managedFields": list(entries)}}


def managed(*fields: str, manager: str = "gitops", operation: str = "Apply", **more: object) -> Wire:
    owned: Wire = {"f:spec": {f"f:{field}": {} for field in fields}}
    return {"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": owned, **more}


def test_our_own_writes_say_both_fields(server: Server) -> None:
    """A Command that suspends after one that closed, with the same reason, loses it no more."""
    before, after = queue("q", state="Closed", reason="disks"), queue("q", state="Suspended", reason="disks")
    assert spec_after(server, before, after, user=OWN)["reason"] == "disks"


def test_a_server_side_apply_keeps_what_it_applies(server: Server) -> None:
    before, after = queue("q", **STOP), queue("q", **NEXT)
    applies = managed("state", "stopPolicy", "resumeAt", "reason")
    assert kept(spec_after(server, before, with_managed(after, applies))) == {"resumeAt", "reason"}


def test_a_server_side_apply_of_one_of_them_keeps_that_one(server: Server) -> None:
    before, after = queue("q", **STOP), queue("q", **NEXT)
    applies = managed("state", "stopPolicy", "reason")
    assert kept(spec_after(server, before, with_managed(after, applies))) == {"reason"}


@each_case(
    "entry",
    [
        managed("resumeAt", "reason"),
        managed("state", "stopPolicy", "resumeAt", "reason", operation="Update"),
        managed("stopPolicy", "resumeAt", "reason", subresource="status"),
        {"manager": "x", "operation": "Apply"},
        {"manager": "x", "operation": "Apply", "fieldsV1": None},
        {"manager": "x", "operation": "Apply", "fieldsV1": {"f:spec": ["f:stopPolicy"]}},
        {"operation": 5},
    ],
    ids=["other-fields", "an-update", "of-the-status", "none", "null", "odd", "unreadable"],
)
@with_new(server=Server)
def test_what_another_applied_before_is_not_what_this_request_sets(server: Server, entry: Wire) -> None:
    """A patch by anybody takes the field that it changes from whoever had applied it."""
    before, after = queue("q", **STOP), queue("q", **NEXT)
    assert not kept(spec_after(server, before, with_managed(after, entry)))


def with_applied(of: Wire, text: str) -> Wire:
    annotations = {**(of["metadata"].get("annotations") or {}), APPLIED: text}
    return {**of, "metadata": {**of["metadata"], "annotations": annotations}}


def test_kubectl_apply_keeps_what_its_file_says(server: Server) -> None:
    before = with_applied(queue("q", **STOP), json.dumps({"spec": STOP}))
    after = with_applied(queue("q", **NEXT), json.dumps({"spec": NEXT}))
    assert kept(spec_after(server, before, after)) == {"resumeAt", "reason"}


def test_kubectl_apply_of_a_file_without_them_clears_both(server: Server) -> None:
    before = with_applied(queue("q", **STOP), json.dumps({"spec": {"state": "Suspended"}}))
    after = with_applied(queue("q", **NEXT), json.dumps({"spec": {"stopPolicy": "Hold"}}))
    assert not kept(spec_after(server, before, after))


@each_case("text", ["", "{", "[]", '{"spec":5}', "[" * 5000, '{"spec":null}'], ids=repr)
@with_new(server=Server)
def test_a_configuration_that_cannot_be_read_sets_nothing(server: Server, text: str) -> None:
    assert not kept(spec_after(server, queue("q", **STOP), with_applied(queue("q", **NEXT), text)))


def test_a_patch_by_hand_leaves_the_configuration_as_it_was_applied(server: Server) -> None:
    text = json.dumps({"spec": STOP})
    before, after = (with_applied(queue("q", **spec), text) for spec in (STOP, NEXT))
    assert not kept(spec_after(server, before, after))


@each_case("manager", ["kubectl-replace", "kubectl-queue"])
@with_new(server=Server)
def test_kubectl_replace_and_the_plugin_mean_all_that_is_there(server: Server, manager: str) -> None:
    options = {"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions", "fieldManager": manager}
    spec = spec_after(server, queue("q", **STOP), queue("q", **NEXT), options=options)
    assert kept(spec) == {"resumeAt", "reason"}


@each_case("options", [None, {}, {"fieldManager": None}, {"fieldManager": "kubectl-patch"}], ids=str)
@with_new(server=Server)
def test_a_patch_that_may_have_left_them_clears_them_and_says_so(
    server: Server, options: Wire | None
) -> None:
    answer = server.ask(
        "/mutate/queues", queue("q", **NEXT), old=queue("q", **STOP), operation="UPDATE", options=options
    )
    assert {step["path"] for step in answer.patch if step["op"] == "remove"} == {
        "/spec/resumeAt",
        "/spec/reason",
    }
    assert answer.warnings == [
        'queue "q" is stopped without an end now, it was until 2030-06-01T00:00:00Z; to keep that, set '
        "spec.resumeAt again",
        'the reason "disks" of queue "q" went with the stop before; to keep it, set spec.reason again',
    ]


def test_what_was_cleared_is_kept_when_it_is_set_again(server: Server) -> None:
    before, after = queue("q", state="Open", stopPolicy="Hold"), queue("q", **NEXT)
    assert kept(spec_after(server, before, after)) == {"resumeAt", "reason"}


def test_a_stop_may_be_given_its_reason_before_it_begins(server: Server) -> None:
    before, after = queue("q", resumeAt=LATER, reason="disks"), queue("q", **STOP)
    assert kept(spec_after(server, before, after)) == {"resumeAt", "reason"}


@each_case(("author", "warned"), [("ann", False), ("bob", True)])
@with_new(server=Server)
def test_the_end_of_a_stop_warns_all_but_whoever_made_it(server: Server, author: str, warned: bool) -> None:
    before = queue("q")
    made = server.ask("/mutate/queues", queue("q", **STOP), old=before, operation="UPDATE", user="ann")
    stopped = applied(made.patch, queue("q", **STOP))
    assert made.warnings == []
    after = {**stopped, "spec": {**stopped["spec"], "state": "Open"}}
    answer = server.ask("/mutate/queues", after, old=stopped, operation="UPDATE", user=author)
    assert [text.partition(" at ")[0] for text in answer.warnings] == (
        ['this ends the suspension of queue "q", made by ann'] if warned else []
    )


def test_our_own_writes_warn_nobody(server: Server) -> None:
    answer = server.ask("/mutate/queues", queue("q"), old=queue("q", **STOP), operation="UPDATE", user=OWN)
    assert answer.warnings == []


def test_a_close_says_how_many_pods_it_lets_run(server: Server) -> None:
    server.has(queue("q", state="Suspended"), *(member(name, "q") for name in ("a", "b", "c")))
    before, after = queue("q", state="Suspended"), queue("q", state="Closed")
    [told] = server.ask("/mutate/queues", after, old=before, operation="UPDATE").warnings
    assert "the 3 pods that wait in it will run" in told


def test_the_reason_of_an_opening_is_in_the_history_alone(server: Server) -> None:
    before, after = queue("q", state="Suspended", reason="disks"), queue("q", reason="repaired")
    answer = server.ask("/mutate/queues", after, old=before, operation="UPDATE")
    stored = applied(answer.patch, after)
    assert "reason" not in stored["spec"]
    [line] = json.loads(stored["metadata"]["annotations"]["sluice.dev/changes"])
    assert (line["to"], line["reason"]) == ("Open", "repaired")
