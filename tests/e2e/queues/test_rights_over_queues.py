"""A right over one queue is a right over that one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import condition, on_a_node, queue_body
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import settled, until

ANN = "ann"
FINALIZER = "example.com/wait"
VERBS = ["get", "create", "update", "patch", "delete"]


def owner_of(*queues: str) -> Object:
    """The rule of a right over these queues alone."""
    return {
        "apiGroups": ["scheduling.volcano.sh"],
        "resources": ["queues"],
        "resourceNames": list(queues),
        "verbs": VERBS,
    }


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


def test_to_delete_a_queue_and_create_it_anew_is_to_move_it(sandbox: Sandbox) -> None:
    """By who may do everything to that queue alone: below root, and where it was."""
    parent = sandbox.queue("parent")
    child = sandbox.queue("child", parent=parent, state="Closed")
    ann = sandbox.user(ANN, sandbox.role("owner", owner_of(child)))
    sandbox.suspend(parent)
    sandbox.in_state(child, "Closed")
    until(lambda: sandbox.api.delete(f"{QUEUES}/{child}", user=ANN).status == 200, "the right to count")
    for above in ({}, {"parent": "root"}, {"parent": parent}):
        given = json.dumps(queue_body(child, **above))
        applied = sandbox.kubectl("apply", "--server-side", "-f", "-", kubeconfig=ann, given=given)
        name = above.get("parent", "root")
        assert applied.returncode != 0
        assert f"to create a queue below queue {name} you need the right to update that" in applied.stderr
    sandbox.user(ANN, sandbox.role("landlord", owner_of(parent)))
    sandbox.may(ANN, "update", "queues", "scheduling.volcano.sh", name=parent)
    given = json.dumps(queue_body(child, parent=parent))
    until(
        lambda: (
            not sandbox.kubectl("apply", "--server-side", "-f", "-", kubeconfig=ann, given=given).returncode
        ),
        "who may update the parent to create queues below it",
    )


def test_a_guarantee_that_siblings_would_wait_for_is_the_parents_to_give(sandbox: Sandbox) -> None:
    """What is its own the owner edits as ever, and gives back what it has."""
    guarantee = {"resource": {"cpu": "1"}}
    parent = sandbox.queue("parent", capability={"cpu": "2"}, guarantee=guarantee)
    child = sandbox.queue("child", parent=parent, guarantee=guarantee)
    sibling = sandbox.queue("sibling", parent=parent)
    sandbox.user(ANN, sandbox.role("owner", owner_of(child)))
    path = f"{QUEUES}/{child}"
    sandbox.may(ANN, "update", "queues", "scheduling.volcano.sh", name=child)
    refused = sandbox.api.patch(path, {"spec": {"guarantee": {"resource": {"cpu": "2"}}}}, user=ANN)
    refused.must_refuse("spec.guarantee: to raise what this queue has beside its siblings", f"queue {parent}")
    until(lambda: "quota" in sandbox.read_queue(child)["status"], "the quota above to be counted")
    sandbox.api.patch(path, {"spec": {"weight": 9}}, user=ANN).must_refuse("spec.weight: to raise what")
    sandbox.api.patch(path, {"spec": {"stopPolicy": "Hold", "guarantee": None}}, user=ANN).must()
    names = sandbox.pods("work", 2, sibling, cpu="1")
    until(lambda: all(on_a_node(sandbox.read_pod(name)) for name in names), "the sibling to have all of it")


def test_a_queue_that_is_being_deleted_takes_nothing_and_is_not_opened(sandbox: Sandbox) -> None:
    """A finalizer keeps it; its owner opens it by no way, and takes the finalizer off once it is empty."""
    parent = sandbox.queue("parent", capability={"pods": "1"})
    child = sandbox.queue("child", parent=parent)
    ann = sandbox.user(ANN, sandbox.role("owner", owner_of(child)), "sluice-queue-viewer")
    path = f"{QUEUES}/{child}"
    with kept_by_a_finalizer(sandbox, child):
        sandbox.edit(child, state="Closed")
        sandbox.in_state(child, "Closed")
        sandbox.api.delete(path).must()
        read = sandbox.queue_that(child, "say so", is_terminating)
        assert f'queue "{child}" is being deleted and takes no new work' in accepting(read)["message"]
        text = f'queue "{child}" is being deleted and cannot be opened'
        sandbox.may(ANN, "update", "queues", "scheduling.volcano.sh", name=child)
        for spec in ({"state": "Open"}, {"state": None}):
            sandbox.api.patch(path, {"spec": spec}, user=ANN).must_refuse(text)
        given = json.dumps(queue_body(child, parent=parent, state="Open"))
        for command in (
            ("apply", "--server-side", "--force-conflicts", "-f", "-"),
            ("replace", "-f", "-"),
        ):
            opened = sandbox.kubectl(*command, kubeconfig=ann, given=given)
            assert opened.returncode != 0, command
            assert text in opened.stderr, command
        sandbox.command(child, "OpenQueue").must_refuse(text)
        sandbox.pod("new", child).must_refuse(f'queue "{child}" is being deleted and takes no new pods')
    sandbox.api.get(path).must(404)


@contextmanager
def kept_by_a_finalizer(sandbox: Sandbox, queue: str) -> Iterator[None]:
    def patched(finalizers: list[str] | None) -> bool:
        body = {"metadata": {"finalizers": finalizers}}
        return sandbox.api.patch(f"{QUEUES}/{queue}", body).status in (200, 404)

    assert patched([FINALIZER])
    try:
        yield
    finally:
        until(lambda: patched(None), f"queue {queue} to show Closed, and its finalizer to go")


def accepting(read: Object) -> Object:
    return condition(read, "Accepting")


def is_terminating(read: Object) -> bool:
    return accepting(read).get("reason") == "Terminating"


def test_what_runs_on_counts_above_a_queue_until_it_has_ended(sandbox: Sandbox) -> None:
    """Pods of a namespace that the queue does not select any more keep it from nothing else."""
    parent = sandbox.queue("parent", capability={"pods": "1"})
    child, sibling = (sandbox.queue(short, parent=parent) for short in ("child", "sibling"))
    sandbox.pod("runs", child).must(201)
    until(lambda: on_a_node(sandbox.read_pod("runs")), "the pod to run")
    selector = {"matchLabels": {"team": "none"}}
    sandbox.edit(child, state="Closed", namespaceSelector=selector)
    sandbox.in_state(child, "Closed")
    sandbox.api.delete(f"{QUEUES}/{child}").must_refuse("pods of it use pods 1 of a quota above it")
    sandbox.pod("waits", sibling).must(201)
    sandbox.reason_on("waits", f'the capability of its ancestor "{parent}" is used')
    assert not settled(lambda: sandbox.bound(["waits"]), "the sibling's pod")
    sandbox.api.delete(f"{sandbox.pods_path}/runs?gracePeriodSeconds=0").must(200)
    until(lambda: sandbox.api.delete(f"{QUEUES}/{child}").status == 200, "nothing of it to count")
    until(lambda: on_a_node(sandbox.read_pod("waits")), "the sibling's pod to run")


def test_a_command_of_great_length_keeps_no_other_queue_waiting(sandbox: Sandbox) -> None:
    """What one queue is commanded is cut to what its spec takes; the others are acknowledged as ever."""
    long, other = sandbox.queue("long"), sandbox.queue("other")
    body = {**sandbox.command_for(long, "SuspendQueue"), "message": "x" * 2000}
    sandbox.api.create(sandbox.commands_path, body).must(201)
    sandbox.suspend(other)
    assert len(sandbox.queue_that(long, "be stopped", is_suspended)["spec"]["reason"]) == 1024


def is_suspended(found: dict[str, dict[str, str]]) -> bool:
    return found["spec"].get("state") == "Suspended"
