"""An edit, a Command and the plugin end in the same place."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import (
    condition,
    history,
    is_answered,
    state_of,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

#: Each step: what is asked for, and then spec.state, status.state, Accepting and Active with their reasons.
STORY = (
    ("suspend", "Suspended", "Suspended", ("True", "Open"), ("False", "Suspended")),
    ("resume", "Open", "Open", ("True", "Open"), ("True", "Ready")),
    ("close", "Closed", "Closing", ("False", "Closed"), ("True", "Ready")),
    ("open", "Open", "Open", ("True", "Open"), ("True", "Ready")),
)
WANTED = {verb: wanted for verb, wanted, *_ in STORY}
AUTHOR = "ann@example.com"
PLUGIN = Path(sys.executable).with_name("kubectl-queue")


class Ann:
    """A user with the right to change queues."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.kubeconfig: Path = sandbox.user(AUTHOR, "sluice-queue-admin")
        sandbox.may(AUTHOR, "update", "queues", "scheduling.volcano.sh")
        sandbox.may(AUTHOR, "create", "commands", "bus.volcano.sh")

    def patches(self, verb: str, queue: str) -> None:
        body = json.dumps({"spec": {"state": WANTED[verb]}})
        succeeded(
            self.sandbox.kubectl(
                "patch", "queue", queue, "--type=merge", f"--patch={body}", kubeconfig=self.kubeconfig
            )
        )

    def commands(self, verb: str, queue: str) -> None:
        body = self.sandbox.command_for(queue, f"{verb.capitalize()}Queue")
        succeeded(
            self.sandbox.kubectl("create", "-f", "-", given=json.dumps(body), kubeconfig=self.kubeconfig)
        )

    def uses_the_plugin(self, verb: str, queue: str) -> None:
        # A close is waited for until the queue is Closed, which it is not while a pod runs.
        wait = [] if verb == "close" else ["--wait"]
        command = [str(PLUGIN), verb, queue, *wait, f"--kubeconfig={self.kubeconfig}"]
        succeeded(subprocess.run(command, capture_output=True, text=True, check=False))


WAYS: Mapping[str, Callable[[Ann, str, str], None]] = {
    "patch": Ann.patches,
    "command": Ann.commands,
    "plugin": Ann.uses_the_plugin,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_story_ends_in_the_same_place(sandbox: Sandbox, way: str) -> None:
    """Suspended with pods parked, resumed, closed, opened: spec, status and history by the author."""
    queue, ann = sandbox.queue(), Ann(sandbox)
    spec = sandbox.read_queue(queue)["spec"]
    for verb, wanted, *told in STORY:
        WAYS[way](ann, verb, queue)
        found = acted_on(sandbox, queue, wanted)
        assert found["spec"] == {**spec, "state": wanted}
        assert summary(found) == told
        if verb == "suspend":
            sandbox.pod("parked", queue).must(201)
            assert sandbox.waiting() == {"parked"}
        if verb == "resume":
            sandbox.all_bound(["parked"])
    assert history(sandbox.read_queue(queue)) == [
        (AUTHOR, "state", "Open", "Suspended"),
        (AUTHOR, "state", "Suspended", "Open"),
        (AUTHOR, "state", "Open", "Closed"),
        (AUTHOR, "state", "Closed", "Open"),
    ]


def acted_on(sandbox: Sandbox, queue: str, wanted: str) -> Object:
    until(lambda: not sandbox.commands(), "the Command to be carried out")
    return sandbox.queue_that(
        queue, f"be asked to be {wanted}", lambda read: read["spec"]["state"] == wanted and is_answered(read)
    )


def summary(queue: Object) -> list[Any]:
    accepting, active = (condition(queue, kind) for kind in ("Accepting", "Active"))
    return [
        state_of(queue),
        (accepting["status"], accepting["reason"]),
        (active["status"], active["reason"]),
    ]


def succeeded(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
