"""Writes of a pod's metadata that our mutating webhook does not answer.

By `pods/status`, which is the right of kubelets and controllers, and by a Binding, which is a scheduler's:
the leader undoes them, and an event says so. By a mutating webhook that is called after ours: such a pod is
not created.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.e2e.api_requests import Answer
from tests.support.e2e.objects import GATE, NAMED_BY, binding_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.slow_webhook import PatchingWebhook

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


LABEL, ANNOTATION = "/metadata/labels/sluice.dev~1queue", "/metadata/annotations/sluice.dev~1queue"
REMOVES_LABEL = {"op": "remove", "path": LABEL}


@pytest.mark.parametrize(
    ("patch", "denial"),
    [
        ([REMOVES_LABEL], "removed this label"),
        ([REMOVES_LABEL, {"op": "remove", "path": ANNOTATION}], "made this pod a member"),
        ([{"op": "add", "path": LABEL, "value": "other"}], "gave this pod another queue"),
        ([{"op": "add", "path": ANNOTATION, "value": "other"}], "gave this pod another queue"),
        ([{"op": "add", "path": "/spec/nodeName", "value": "node-0"}], "put this pod on a node"),
    ],
    ids=str,
)
def test_a_webhook_after_ours_takes_no_member_out_of_its_queue(
    sandbox: Sandbox, tmp_path: Path, patch: list[dict[str, str]], denial: str
) -> None:
    """Without the label no replica would see the pod, and its queue's stops would miss it."""
    queue = sandbox.queue()
    with PatchingWebhook(sandbox, tmp_path, patch):
        until(lambda: _is_refused(sandbox, queue), "the webhook to be called")
        sandbox.pod(NAME, queue, schedulerName=NOBODY).must_refuse(f"another webhook {denial}")


def test_a_webhook_after_ours_takes_no_pod_out_of_its_namespaces_queue(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """Once label and annotation are gone, nothing on the pod says that it was a member."""
    queue = sandbox.queue()
    sandbox.api.patch(
        f"/api/v1/namespaces/{sandbox.namespace}", {"metadata": {"annotations": {NAMED_BY: queue}}}
    ).must()
    until(
        lambda: (
            (answer := _dry_run(sandbox)).status == 201 and GATE in answer.body["metadata"].get("labels", {})
        ),
        "the namespace's pods to be members",
    )
    patch = [REMOVES_LABEL, {"op": "remove", "path": ANNOTATION}]
    with PatchingWebhook(sandbox, tmp_path, patch):
        until(lambda: _is_refused(sandbox), "the webhook to be called")
        sandbox.pod(NAME, schedulerName=NOBODY).must_refuse("another webhook made this pod a member")


def test_a_webhook_after_ours_makes_no_pod_a_member(sandbox: Sandbox, tmp_path: Path) -> None:
    queue = sandbox.queue()
    patch = [{"op": "add", "path": "/metadata/annotations", "value": {NAMED_BY: queue}}]
    with PatchingWebhook(sandbox, tmp_path, patch):
        until(lambda: _is_refused(sandbox), "the webhook to be called")
        sandbox.pod(NAME, schedulerName=NOBODY).must_refuse("another webhook made this pod a member")


def _is_refused(sandbox: Sandbox, queue: str = "") -> bool:
    """Whether such a pod would be refused for what another webhook made of it."""
    answer = _dry_run(sandbox, queue)
    return answer.status == 403 and "another webhook" in answer.message


def _dry_run(sandbox: Sandbox, queue: str = "") -> Answer:
    return sandbox.pod("probe", queue, dry=True, schedulerName=NOBODY)
