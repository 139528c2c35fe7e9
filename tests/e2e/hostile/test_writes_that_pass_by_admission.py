"""Writes of a pod's metadata that no webhook is called for: by `pods/status`, which is the right of kubelets
and controllers, and by a Binding, which is a scheduler's. The leader undoes them, and an event says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.e2e.objects import GATE, NAMED_BY, binding_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

NAME = "work"
#: Nobody binds its pods but the test.
NOBODY = "nobody"


def queue_names(sandbox: Sandbox) -> tuple[str | None, str | None]:
    """The label and the annotation of the pod."""
    meta = sandbox.read_pod(NAME)["metadata"]
    return (meta.get("labels") or {}).get(GATE), (meta.get("annotations") or {}).get(GATE)


def until_restored(sandbox: Sandbox, queue: str) -> None:
    until(lambda: queue_names(sandbox) == (queue, queue), "the pod's label and annotation to come back")
    sandbox.event(NAME, "QueueLabelRestored", queue)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {GATE: None}},
        {"labels": {GATE: "other"}},
        {"labels": {GATE: ""}},
        {"annotations": {GATE: "other"}},
        {"annotations": {GATE: None}},
        {"labels": {GATE: "other"}, "annotations": {GATE: "other"}},
    ],
    ids=str,
)
def test_a_status_moves_no_pod_to_another_queue(sandbox: Sandbox, change: Any) -> None:
    queue, other = sandbox.queue(), sandbox.queue("other")
    change = {
        place: {key: other if value == "other" else value for key, value in keys.items()}
        for place, keys in change.items()
    }
    sandbox.pod(NAME, queue, schedulerName=NOBODY).must(201)
    sandbox.api.patch(f"{sandbox.pods_path}/{NAME}/status", {"metadata": change}).must()
    until_restored(sandbox, queue)
    sandbox.suspend(queue)
    sandbox.bind(NAME).must_refuse(queue)


def test_a_label_that_a_status_adds_makes_the_pod_a_member(sandbox: Sandbox) -> None:
    """It says the queue, as on every other pod: the annotation follows, and stops hold."""
    queue = sandbox.queue()
    sandbox.pod(NAME, schedulerName=NOBODY).must(201)
    body = {"metadata": {"labels": {GATE: queue}}}
    sandbox.api.patch(f"{sandbox.pods_path}/{NAME}/status", body).must()
    until(lambda: queue_names(sandbox) == (queue, queue), "the pod's annotation to be written")
    sandbox.suspend(queue)
    sandbox.bind(NAME).must_refuse(queue)


def test_an_edit_makes_no_pod_a_member(sandbox: Sandbox) -> None:
    """Nor does it move one: edits of anything but the status are shown to the webhook."""
    queue, other = sandbox.queue(), sandbox.queue("other")
    sandbox.pod(NAME, schedulerName=NOBODY).must(201)
    for change in (
        {"annotations": {NAMED_BY: queue}},
        {"annotations": {GATE: queue}},
        {"labels": {GATE: queue}},
    ):
        assert sandbox.patch_pod(NAME, {"metadata": change}).status == 403, change
    sandbox.pod("member", queue, schedulerName=NOBODY).must(201)
    moves: tuple[dict[str, Any], ...] = (
        {"annotations": {GATE: other}},
        {"labels": {GATE: other}},
        {"labels": {GATE: None}},
        {"annotations": {GATE: None}},
    )
    for change in moves:
        assert sandbox.patch_pod("member", {"metadata": change}).status == 403, change


def test_a_binding_gives_its_pod_no_other_queue(sandbox: Sandbox) -> None:
    """With the label it is refused. With the annotation the pod is bound, and stays in its queue."""
    queue, other = sandbox.queue(), sandbox.queue("other")
    sandbox.pod(NAME, queue, schedulerName=NOBODY).must(201)
    body = binding_body(NAME, sandbox.namespace)
    path = f"{sandbox.pods_path}/{NAME}/binding"
    labelled = {**body, "metadata": {**body["metadata"], "labels": {GATE: other}}}
    sandbox.api.create(path, labelled).must_refuse("a Binding cannot have label")
    annotated = {**body, "metadata": {**body["metadata"], "annotations": {GATE: other}}}
    sandbox.api.create(path, annotated).must(201)
    until_restored(sandbox, queue)
    assert sandbox.bound([NAME]) == {NAME}
