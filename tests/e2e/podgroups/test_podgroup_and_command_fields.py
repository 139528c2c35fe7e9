"""Each field of PodGroups, Commands and workloads, given wrongly: a clear refusal, and nothing is stored."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import (
    GROUPED_BY,
    NAMED_BY,
    command_body,
    podgroup_body,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.workloads import (
    KINDS,
    WorkloadKind,
    template_of,
    work_body,
)

HUGE = "x" * 300
NAMES = ["Research", "a b", "../root", HUGE, "a\nb", "a\u202eb", "-a", "a_b"]

#: What is set, by the keys that lead there, and a word of the refusal.
PODGROUP_FAULTS: list[tuple[tuple[str, ...], Any, str]] = [
    *((("spec", "queue"), name, "spec.queue") for name in NAMES),
    (("spec", "queue"), 7, "spec.queue"),
    (("spec", "queue"), ["a"], "spec.queue"),
    (("spec", "queue"), {"name": "a"}, "spec.queue"),
    (("spec", "minMember"), "two", "spec.minMember"),
    (("spec", "minMember"), 1.5, "spec.minMember"),
    (("spec", "minMember"), 2**40, "spec.minMember"),
    (("spec", "minResources"), {"cpu": "much"}, "spec.minResources"),
    (("spec", "minResources"), "1", "spec.minResources"),
    (("spec",), "none", "spec"),
    (("metadata", "name"), "A B", "metadata.name"),
    (("metadata", "labels"), {"app": "a b"}, "metadata.labels"),
    (("metadata", "annotations"), {"a": HUGE * 1000}, "metadata.annotations"),
]
COMMAND_FAULTS: list[tuple[tuple[str, ...], Any, str]] = [
    (("action",), "StopQueue", "SuspendQueue"),
    (("action",), "", "action"),
    (("action",), 7, "action"),
    (("action",), HUGE, "action"),
    (("action",), "Suspend\nQueue", "action"),
    (("target",), "research", "target"),
    (("target", "name"), 7, "target.name"),
    (("target", "uid"), ["x"], "target.uid"),
    (("reason",), {"a": "b"}, "reason"),
    (("message",), 5, "message"),
    (("metadata", "name"), "A B", "metadata.name"),
]


def changed(body: Object, keys: tuple[str, ...], value: object) -> Object:
    """A copy with that at its place."""
    made = deepcopy(body)
    at = made
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    return made


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def test_no_field_of_a_podgroup_is_taken_wrongly(sandbox: Sandbox) -> None:
    """The field is named, and no group comes of it.

    (In `default`: what we admitted and others refused may still come for a minute, as far as we know.)
    """
    for keys, value, word in PODGROUP_FAULTS:
        answer = sandbox.api.create(
            sandbox.podgroups_path, changed(podgroup_body("gang", "default"), keys, value)
        )
        assert 400 <= answer.status < 500, (keys, value, answer.message)
        assert word in answer.message, (keys, value, answer.message)
        assert "\u202e" not in answer.message
    assert sandbox.api.get(sandbox.podgroups_path).must().body["items"] == []


def test_null_is_the_same_as_absent_in_a_podgroup(sandbox: Sandbox) -> None:
    """So without a queue it is in `default`."""
    body = changed(podgroup_body("gang", "any"), ("spec", "queue"), None)
    assert sandbox.api.create(sandbox.podgroups_path, body).must(201).body["spec"]["queue"] == "default"


def test_no_field_of_a_command_is_taken_wrongly(sandbox: Sandbox, queue: str) -> None:
    """And the queue stays as it is."""
    before = sandbox.read_queue(queue)
    held = command_body("stop", "SuspendQueue", queue=queue, uid=before["metadata"]["uid"])
    for keys, value, word in COMMAND_FAULTS:
        answer = sandbox.api.create(sandbox.commands_path, changed(held, keys, value))
        assert 400 <= answer.status < 500, (keys, value, answer.message)
        assert word in answer.message, (keys, value, answer.message)
    after = sandbox.api.get(f"{QUEUES}/{queue}").must().body
    assert (after["spec"], after["metadata"]["generation"]) == (
        before["spec"],
        before["metadata"]["generation"],
    )


@pytest.mark.parametrize("made", KINDS, ids=[made.kind for made in KINDS])
def test_no_workload_names_a_queue_that_cannot_be(sandbox: Sandbox, made: WorkloadKind) -> None:
    """Neither in its template nor on itself; and no annotation may be anything but a string."""
    for name in NAMES:
        for on_itself in (False, True):
            sandbox.make(made, work_body(made, "work", name, on_itself=on_itself)).must_refuse("queue name")
    for wrong in (7, ["a"], {"a": "b"}, True):
        body = work_body(made, "work")
        template_of(body)["metadata"]["annotations"] = {NAMED_BY: wrong}
        assert sandbox.make(made, body).status == 400
    absent = work_body(made, "work", annotations={GROUPED_BY: "a b"})
    assert sandbox.make(made, absent, dry=True).status in (201, 422)
    assert sandbox.api.get(made.path(sandbox.namespace)).must().body["items"] == []
