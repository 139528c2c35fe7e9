"""A stop that follows another with the same `reason` and `resumeAt`: who sets them keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.e2e.api_requests import Answer, Object
from tests.support.e2e.sandbox import QUEUES, Sandbox

LATER = "2099-06-01T00:00:00Z"
SUSPENDED = {"state": "Suspended", "resumeAt": LATER, "reason": "disks"}
HELD = {**SUSPENDED, "state": "Open", "stopPolicy": "Hold"}
WARNING = "to keep that, set spec.resumeAt again"


def manifest(name: str, spec: Object) -> str:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    return json.dumps({**head, "spec": spec})


def kubectl(*arguments: str) -> Callable[[Sandbox, str, Object], str]:
    def write(sandbox: Sandbox, name: str, spec: Object) -> str:
        done = sandbox.kubectl(*arguments, "-f", "-", given=manifest(name, spec))
        assert done.returncode == 0, done.stderr
        return str(done.stderr)

    return write


apply, apply_on_server = kubectl("apply"), kubectl("apply", "--server-side")


def replace(sandbox: Sandbox, name: str, spec: Object) -> str:
    """As a file of a whole queue, which a first `apply` may make."""
    there = sandbox.api.get(f"{QUEUES}/{name}").status == 200
    return (kubectl("replace") if there else kubectl("create"))(sandbox, name, spec)


def patch_as_plugin(sandbox: Sandbox, name: str, spec: Object) -> str:
    if sandbox.api.get(f"{QUEUES}/{name}").status == 404:
        return kubectl("create")(sandbox, name, spec)
    path = f"{QUEUES}/{name}?fieldManager=kubectl-queue"
    return " ".join(sandbox.api.patch(path, {"spec": spec}).must().warnings)


@pytest.mark.parametrize("write", [apply, apply_on_server, replace, patch_as_plugin])
def test_who_sets_both_again_keeps_both(
    sandbox: Sandbox, write: Callable[[Sandbox, str, Object], str]
) -> None:
    name = sandbox.named("research")
    sandbox.queue_names.append(name)
    write(sandbox, name, SUSPENDED)
    said = write(sandbox, name, HELD)
    assert WARNING not in said
    assert sandbox.read_queue(name)["spec"].items() >= HELD.items()


@pytest.mark.parametrize("write", [apply, apply_on_server])
def test_who_sets_neither_keeps_neither(
    sandbox: Sandbox, write: Callable[[Sandbox, str, Object], str]
) -> None:
    name = sandbox.named("research")
    sandbox.queue_names.append(name)
    write(sandbox, name, SUSPENDED)
    write(sandbox, name, {"state": "Open", "stopPolicy": "Hold"})
    assert not {"resumeAt", "reason"} & sandbox.read_queue(name)["spec"].keys()


def test_a_patch_after_an_apply_is_no_apply(sandbox: Sandbox) -> None:
    """What was applied for the first stop says nothing of the second one, which another made."""
    name = sandbox.named("research")
    sandbox.queue_names.append(name)
    apply_on_server(sandbox, name, SUSPENDED)
    answer: Answer = sandbox.patch_queue(name, stopPolicy="Hold").must()
    assert not {"resumeAt", "reason"} & answer.body["spec"].keys()
    assert WARNING in " ".join(answer.warnings)


def test_a_patch_that_repeats_them_is_told_to_set_them_again_and_may(sandbox: Sandbox) -> None:
    """A merge patch that repeats what is there leaves no trace of it in what a webhook is sent."""
    name = sandbox.queue(**SUSPENDED)
    answer = sandbox.patch_queue(name, **HELD).must()
    assert WARNING in " ".join(answer.warnings)
    sandbox.patch_queue(name, resumeAt=LATER, reason="disks").must()
    assert sandbox.read_queue(name)["spec"].items() >= HELD.items()


def test_commands_with_one_and_the_same_message_keep_it(sandbox: Sandbox) -> None:
    name = sandbox.queue(state="Closed", reason="moving house")
    for action in ("OpenQueue", "SuspendQueue"):
        body = sandbox.command_for(name, action) | {"message": "moving house"}
        sandbox.api.create(sandbox.commands_path, body).must(201)
        sandbox.queue_that(name, f"obey {action}", lambda found: not sandbox.commands())
    assert sandbox.read_queue(name)["spec"]["reason"] == "moving house"
    body = sandbox.command_for(name, "CloseQueue") | {"message": "moving house"}
    sandbox.api.create(sandbox.commands_path, body).must(201)
    closed = sandbox.queue_that(name, "close", lambda found: found["spec"]["state"] == "Closed")
    assert closed["spec"]["reason"] == "moving house"
