"""Both edges of change windows, as pods and users meet them. Windows here last for seconds."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queues.apimachinery.timestamps import rfc3339
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import condition, is_active, is_stopped, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

pytestmark = pytest.mark.cluster

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def freeze(start: datetime, end: datetime, *, name: str = "freeze", **more: Any) -> Object:
    window = {"name": name, "from": rfc3339(start), "until": rfc3339(end), "stopPolicy": "Hold"}
    return {**window, "reason": "the end of the year", **more}


def ends_at(window: Object, end: datetime) -> Object:
    return {"window": window["name"], "start": window["from"], "until": rfc3339(end)}


def kept_by(queue: Object) -> int:
    return int((queue["status"].get("drain") or {}).get("kept", 0))


def is_in(queue: Object, *names: str) -> bool:
    return [each["name"] for each in queue["spec"].get("inWindow") or ()] == list(names)


def test_pods_wait_from_the_one_edge_to_the_other(sandbox: Sandbox) -> None:
    """The leader writes both, and the stop is acknowledged as any: nothing is bound in between."""
    queue = sandbox.queue()
    early = sandbox.pods("early", 2, queue, gated=True)
    window = freeze(now() + 3 * SECOND, now() + HOUR)
    sandbox.patch_queue(queue, windows=[window]).must()
    found = sandbox.queue_that(queue, "be in its window", is_stopped)
    assert is_in(found, "freeze")
    told = condition(found, "Active")
    assert told["reason"] == "Stopped"
    assert f'queue "{queue}" is stopped by stopPolicy Hold of window freeze until ' in told["message"]
    assert found["spec"].get("stopPolicy") == "None"  # what a user wrote is as it was
    sandbox.ungate(early)
    taken = sandbox.pod("late", queue).must(201)
    assert taken.warnings[0].startswith(f'queue "{queue}" is stopped (Hold) until ')
    sandbox.reason_on("late", "of window freeze")
    assert sandbox.waiting() == {*early, "late"}
    end = now() + 3 * SECOND
    sandbox.patch_queue(queue, windowOverrides=[ends_at(window, end)]).must()
    sandbox.all_bound([*early, "late"])
    assert min(bind.received for bind in sandbox.binds_of([*early, "late"])) >= end
    found = sandbox.queue_that(queue, "be active", is_active)
    assert is_in(found)
    lines = [
        (line["by"], line.get("to", "")) for line in found["status"]["changes"] if line["field"] == "inWindow"
    ]
    assert [by for by, _ in lines][::2] == ["sluice: window freeze", "sluice: window freeze"]
    sandbox.event(queue, "WindowStarted: window freeze is on until", namespace="default")
    sandbox.event(queue, "WindowEnded: window freeze has ended", namespace="default")


def test_a_queue_that_is_made_inside_a_window_holds_from_its_first_version_on(sandbox: Sandbox) -> None:
    """And whoever replaces it, as Git tools do, or writes what is the server's, ends nothing."""
    window = freeze(now() - HOUR, now() + HOUR)
    queue = sandbox.queue(windows=[window])
    found = sandbox.queue_that(queue, "be stopped", is_stopped)
    assert (is_in(found, "freeze"), found["metadata"]["generation"]) == (True, 1)
    del found["spec"]["inWindow"]
    answer = sandbox.kubectl("replace", "--filename=-", given=json.dumps(found))
    assert answer.returncode == 0, answer.stderr
    assert is_in(sandbox.read_queue(queue), "freeze")
    refused = sandbox.patch_queue(queue, inWindow=None).must()
    assert is_in(refused.body, "freeze")
    assert refused.warnings == ()
    forged = [{"name": "freeze", "start": window["from"], "until": rfc3339(now() + SECOND)}]
    answered = sandbox.patch_queue(queue, inWindow=forged).must()
    assert answered.body["spec"]["inWindow"][0]["until"] == window["until"]
    assert "spec.inWindow is written by the server alone" in answered.warnings[0]
    names = sandbox.pods("late", 1, queue)
    gone = sandbox.patch_queue(queue, windows=[]).must()
    assert f'this ends window freeze of queue "{queue}"' in gone.warnings[0]
    sandbox.all_bound(names)


def test_a_window_of_a_parent_drains_the_queues_below_by_its_own_deadline(sandbox: Sandbox) -> None:
    above = sandbox.queue("above")
    below = sandbox.queue("below", parent=above)
    running = sandbox.pods("running", 1, below)
    sandbox.all_bound(running)
    drain = {"deadlineAfter": "30m", "barePods": "Keep"}
    window = freeze(now() - SECOND, now() + HOUR, stopPolicy="HoldAndDrain", drain=drain)
    stops = sandbox.patch_queue(above, windows=[window]).must()
    assert f'window freeze of queue "{above}" is on from now until' in " ".join(stops.warnings)
    found = sandbox.queue_that(below, "be stopped", is_stopped)
    assert f'of window freeze of its ancestor "{above}"' in condition(found, "Active")["message"]
    sandbox.queue_that(
        below, "keep its bare pod", lambda read: (read["status"].get("drain") or {}).get("kept") == 1
    )
    assert on_a_node(sandbox.read_pod(running[0]))
    drain["barePods"] = "Evict"
    sandbox.patch_queue(above, windows=[{**window, "drain": drain}]).must()
    until(lambda: sandbox.read_pods() == {}, "its pod to be evicted")
    sandbox.patch_queue(above, windows=None).must()
