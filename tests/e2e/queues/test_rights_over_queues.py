"""A right over one queue is a right over that one."""

from __future__ import annotations

from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until

ANN = "ann"


def test_a_queue_is_not_moved_from_under_its_ancestors_stop(sandbox: Sandbox) -> None:
    """Whoever may update the child alone may stop it, but not take it out of the tree."""
    parent = sandbox.queue("parent")
    child = sandbox.queue("child", parent=parent)
    sandbox.suspend(parent)
    rule = {
        "apiGroups": ["scheduling.volcano.sh"],
        "resources": ["queues"],
        "resourceNames": [child],
        "verbs": ["get", "update", "patch"],
    }
    sandbox.user(ANN, sandbox.role("owner", rule))
    path = f"{QUEUES}/{child}"
    until(
        lambda: sandbox.api.patch(path, {"spec": {"weight": 2}}, user=ANN).status == 200, "the right to count"
    )
    refused = sandbox.api.patch(path, {"spec": {"parent": "root"}}, user=ANN)
    assert refused.status == 403
    assert "the right to update both parents" in refused.message
    assert sandbox.api.patch(path, {"spec": {"parent": "root"}}).status == 200


def test_a_command_of_great_length_keeps_no_other_queue_waiting(sandbox: Sandbox) -> None:
    """What one queue is commanded is cut to what its spec takes; the others are acknowledged as ever."""
    long, other = sandbox.queue("long"), sandbox.queue("other")
    body = {**sandbox.command_for(long, "SuspendQueue"), "message": "x" * 2000}
    sandbox.api.create(sandbox.commands_path, body).must(201)
    sandbox.suspend(other)
    assert len(sandbox.queue_that(long, "be stopped", is_suspended)["spec"]["reason"]) == 1024


def is_suspended(found: dict[str, dict[str, str]]) -> bool:
    return found["spec"].get("state") == "Suspended"
