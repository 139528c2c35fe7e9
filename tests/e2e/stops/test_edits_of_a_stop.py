"""Edits that lose, end or widen something of a stop, by any client: whoever makes them is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from queues.apimachinery.timestamps import rfc3339
from tests.support.e2e.api_requests import Answer
from tests.support.e2e.sandbox import QUEUES, Sandbox

LATER = "2099-06-01T00:00:00Z"


def by_another(sandbox: Sandbox, queue: str, **spec: object) -> Answer:
    """An edit by a user who may edit queues, and has made none of their stops."""
    user = sandbox.named("bob")
    sandbox.user(user, "cluster-admin")
    sandbox.may(user, "patch", "queues", "scheduling.volcano.sh")
    return sandbox.api.patch(f"{QUEUES}/{queue}", {"spec": spec}, user=user).must()


def test_a_manifest_whose_stop_has_ended_is_refused(sandbox: Sandbox) -> None:
    name = sandbox.queue()
    soon = rfc3339(datetime.now(UTC) + timedelta(seconds=2))
    stop = {"state": "Suspended", "resumeAt": soon, "reason": "disks"}
    sandbox.patch_queue(name, **stop).must()
    sandbox.queue_that(name, "resume", lambda found: "resumeAt" not in found["spec"])
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    again = sandbox.kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", given=json.dumps({**head, "spec": stop})
    )
    assert again.returncode == 1
    assert f'spec.resumeAt: "{soon}" is in the past' in again.stderr
    assert sandbox.read_queue(name)["spec"]["state"] == "Open"


def test_a_stop_that_another_ends_is_named_to_them(sandbox: Sandbox) -> None:
    name = sandbox.queue()
    assert sandbox.patch_queue(name, state="Suspended", resumeAt=LATER, reason="disks").must().warnings == ()
    [told] = by_another(sandbox, name, state="Open").warnings
    assert told.startswith(f'this ends the suspension of queue "{name}", made by ')
    assert told.endswith(f'("disks"); it was until {LATER}')


def test_a_close_that_keeps_a_hold_and_an_edit_that_undoes_it_say_so(sandbox: Sandbox) -> None:
    name = sandbox.queue(stopPolicy="Hold", resumeAt=LATER, reason="audit")
    sandbox.pods("waits", 1, name)
    told = sandbox.patch_queue(name, state="Closed").must().warnings
    assert told[0].startswith(f'queue "{name}" stays held (stopPolicy Hold)')
    assert told[1].startswith(f'queue "{name}" is stopped without an end now, it was until {LATER}')
    assert 'the reason "audit"' in told[2]
    undone = sandbox.patch_queue(name, state="Suspended", stopPolicy="None", resumeAt=LATER).must().warnings
    assert undone[0].startswith(f'this undoes the close of queue "{name}"')
    assert undone[0].endswith(f"it takes new work again, and is Open at {LATER}")
