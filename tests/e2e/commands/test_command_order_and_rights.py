"""Several Commands at once, and what the history says of their authors."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import history, queue_body
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until

ANN = "ann@example.com"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
CHANGES, BEHALF = "sluice.dev/changes", "sluice.dev/on-behalf-of"


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


@pytest.fixture
def ann(sandbox: Sandbox) -> str:
    """A user who may do all this."""
    sandbox.user(ANN, "sluice-queue-admin")
    sandbox.may(ANN, "update", "queues", "scheduling.volcano.sh")
    sandbox.may(ANN, "create", "commands", "bus.volcano.sh")
    return ANN


def test_commands_of_two_namespaces_act_in_one_order(sandbox: Sandbox, queue: str) -> None:
    """The order is that of their creation, wherever they lie, and each queue has its own."""
    other = sandbox.queue("other")
    for number, action in enumerate(("SuspendQueue", "CloseQueue", "OpenQueue", "SuspendQueue")):
        path = (sandbox.commands_path, COMMANDS)[number % 2]
        sandbox.api.create(path, sandbox.command_for(queue, action)).must(201)
        sandbox.api.create(path, sandbox.command_for(other, "CloseQueue" if number else "OpenQueue")).must(
            201
        )
    carried_out(sandbox)
    assert [line[2:] for line in history(sandbox.answered(queue))] == [
        ("Open", "Suspended"),
        ("Suspended", "Closed"),
        ("Closed", "Open"),
        ("Open", "Suspended"),
    ]
    assert [line[2:] for line in history(sandbox.answered(other))] == [("Open", "Closed")]


def test_a_command_for_a_job_is_left_alone(sandbox: Sandbox, queue: str) -> None:
    """Its Job has the name of a queue, and its action is one of ours. The server does not give it an author,
    act on it or delete it."""
    body = sandbox.command_for(queue, "SuspendQueue")
    body["target"] = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": queue, "uid": "1"}
    made = sandbox.api.create(sandbox.commands_path, body).must(201).body
    sandbox.command(queue, "CloseQueue").must(201)
    until(lambda: len(sandbox.commands()) == 1, "the Command for the queue to be carried out")
    assert sandbox.commands() == [made]
    assert "annotations" not in made["metadata"]
    assert [line[1:] for line in history(sandbox.answered(queue))] == [("state", "Open", "Closed")]


def test_a_command_for_the_queue_that_was_there_before_is_dropped(sandbox: Sandbox, queue: str) -> None:
    """Closed, deleted and made again under its name: it is none of the new one's."""
    meant = sandbox.command_for(queue, "SuspendQueue")
    sandbox.remove_queue(queue)
    until(lambda: sandbox.api.get(f"{QUEUES}/{queue}").status == 404, "the queue to be gone")
    sandbox.api.create(QUEUES, queue_body(queue)).must(201)
    made = sandbox.api.create(sandbox.commands_path, meant).must(201).body
    sandbox.event(made["metadata"]["name"], "Warning CommandDropped", "was deleted and made again since")
    carried_out(sandbox)
    found = sandbox.answered(queue)
    assert found["spec"]["state"] == "Open"
    assert history(found) == []


def test_a_command_leaves_its_author_action_reason_and_time(sandbox: Sandbox, queue: str, ann: str) -> None:
    """In the history and in an event."""
    began = now()
    body = {**sandbox.command_for(queue, "SuspendQueue"), "message": "disks are full"}
    sandbox.api.create(sandbox.commands_path, body, user=ann).must(201)
    carried_out(sandbox)
    assert told(sandbox.answered(queue), since=began) == [
        (ann, "state", "Open", "Suspended", "disks are full")
    ]
    text = f"SuspendQueue by {ann} (disks are full): spec.state is Suspended now"
    sandbox.event(queue, f"Normal SuspendQueue: {text}", namespace="default")


def test_an_edit_leaves_its_author_reason_and_time(sandbox: Sandbox, queue: str, ann: str) -> None:
    """Those of the request, whatever the user wrote down about it."""
    began = now()
    forged = json.dumps([{"by": "root", "field": "state", "to": "Closed", "at": "2020-01-01T00:00:00Z"}])
    body = {
        "metadata": {"annotations": {CHANGES: forged, BEHALF: "root"}},
        "spec": {"state": "Suspended", "reason": "disks are full"},
    }
    sandbox.api.patch(f"{QUEUES}/{queue}", body, user=ann).must()
    found = sandbox.answered(queue)
    assert told(found, since=began) == [(ann, "state", "Open", "Suspended", "disks are full")]
    event = f"Normal QueueChanged: spec.state by {ann} (disks are full): Suspended, it was Open"
    sandbox.event(queue, event, namespace="default")
    assert BEHALF not in found["metadata"]["annotations"]


def test_the_history_cannot_be_rewritten(sandbox: Sandbox, queue: str, ann: str) -> None:
    """Neither by removing the annotation, nor by writing the status, which is derived again."""
    sandbox.suspend(queue)
    before = sandbox.read_queue(queue)["status"]["changes"]
    sandbox.api.patch(f"{QUEUES}/{queue}", {"metadata": {"annotations": {CHANGES: None}}}, user=ann).must()
    sandbox.api.patch(f"{QUEUES}/{queue}/status", {"status": {"changes": []}}).must()
    sandbox.queue_that(queue, "tell its history", lambda read: read["status"].get("changes") == before)


def carried_out(sandbox: Sandbox) -> None:
    until(
        lambda: not sandbox.commands() and not sandbox.api.get(COMMANDS).must().body["items"],
        "the Commands to be carried out",
    )


def now() -> datetime:
    """The server's notion of the API server's time is late: by the second that an answer names, and by as
    long as that answer took to be read. On a busy machine that is seconds.
    """
    return datetime.now(UTC) - timedelta(seconds=60)


def told(queue: Object, *, since: datetime) -> list[tuple[str, ...]]:
    """Its changes with their reasons, all of them made since then and not in the future."""
    lines = queue["status"]["changes"]
    assert all(since <= datetime.fromisoformat(line["at"]) <= datetime.now(UTC) for line in lines)
    return [(line["by"], line["field"], line["from"], line["to"], line["reason"]) for line in lines]
