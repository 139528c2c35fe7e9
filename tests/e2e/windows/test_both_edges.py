"""Both edges of change windows, as pods and users meet them. Windows here last for seconds."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queues.apimachinery.timestamps import rfc3339
from server.settings import Settings
from tests.support.e2e.api_requests import Object, watched
from tests.support.e2e.objects import GROUPED_BY, condition, is_active, is_answered, is_stopped, on_a_node
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.plugin.harness import plugin_in_process

pytestmark = pytest.mark.cluster

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
#: More than are written at once.
MANY = 10


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def freeze(start: datetime, end: datetime, *, name: str = "freeze", **more: Any) -> Object:
    window = {"name": name, "from": rfc3339(start), "until": rfc3339(end), "stopPolicy": "Hold"}
    return {**window, "reason": "the end of the year", **more}


def ends_at(window: Object, end: datetime) -> Object:
    return {"window": window["name"], "start": window["from"], "until": rfc3339(end)}


def plugin(sandbox: Sandbox, *words: str) -> str:
    done = plugin_in_process(*words, kubeconfig=sandbox.cluster.layout.kubeconfig)
    assert done.returncode == 0, done.stderr
    return done.stdout


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


def test_of_many_that_begin_together_the_edges_come_before_the_statuses(sandbox: Sandbox) -> None:
    """The last few edges are under way when the first stop may be acknowledged."""
    queues = {sandbox.queue(f"together-{number}") for number in range(MANY)}
    window = freeze(now() + 8 * SECOND, now() + HOUR)
    for queue in queues:
        sandbox.patch_queue(queue, windows=[window]).must()
    for queue in queues:
        assert not is_in(sandbox.answered(queue), "freeze")
    since = sandbox.api.get(QUEUES).must().body["metadata"]["resourceVersion"]
    written: set[str] = set()
    answered: dict[str, int] = {}
    with closing(watched(sandbox.cluster, QUEUES, since=since)) as states:
        while answered.keys() != queues:
            found = next(states)
            if (name := found["metadata"]["name"]) in queues and is_in(found, "freeze"):
                written.add(name)
                if is_answered(found) and is_stopped(found):
                    answered.setdefault(name, len(written))
    assert min(answered.values()) >= MANY - Settings().writers
    by = {line["by"] for queue in queues for line in sandbox.read_queue(queue)["status"]["changes"]}
    assert "sluice: window freeze" in by


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


def test_a_resume_leaves_out_the_window_that_is_on_and_its_undoing_brings_it_back(sandbox: Sandbox) -> None:
    """A Command leaves out what suspends the queue, kubectl queue what holds it as well."""
    span = (now() - HOUR, now() + HOUR)
    windows = [freeze(*span, state="Suspended", stopPolicy=None), freeze(*span, name="held")]
    queue = sandbox.queue(windows=[{key: value for key, value in each.items() if value} for each in windows])
    assert is_in(sandbox.queue_that(queue, "be stopped", is_stopped), "freeze", "held")
    sandbox.command(queue, "ResumeQueue").must(201)
    found = sandbox.queue_that(queue, "be held alone", lambda read: is_in(read, "held"))
    assert found["spec"]["windowOverrides"] == [
        {"window": "freeze", "start": windows[0]["from"], "skip": True}
    ]
    sandbox.event(queue, "ResumeQueue", "left out until they begin again: window freeze", namespace="default")
    said = plugin(sandbox, "resume", queue)
    assert "resumed (window held is left out until the next beginning)" in said
    names = sandbox.pods("late", 1, queue)
    sandbox.all_bound(names)
    assert plugin(sandbox, "windows", "start", queue, "held")
    assert is_in(sandbox.queue_that(queue, "be stopped again", is_stopped), "held")


def test_what_a_window_holds_goes_at_its_end_in_order_within_the_quota_and_gangs_whole(
    sandbox: Sandbox,
) -> None:
    """Inside it nothing is released, though there is room. That it begins was said before."""
    queue = sandbox.queue(capability={"cpu": "4"})
    window = freeze(now() + 2 * SECOND, now() + HOUR)
    sandbox.patch_queue(queue, windows=[window]).must()
    begins = f"WindowSoon: window freeze begins at {window['from']}, in 1m, until {window['until']}: Hold"
    sandbox.event(queue, begins, namespace="default")
    sandbox.queue_that(queue, "be in its window", is_stopped)
    sandbox.podgroup("gang", queue, minMember=3)
    gang = [f"gang-{number}" for number in range(3)]
    for name in gang:
        sandbox.pod(name, annotations={GROUPED_BY: "gang"}, cpu="1").must(201)
    last = datetime.fromisoformat(sandbox.read_pod(gang[-1])["metadata"]["creationTimestamp"])
    until(lambda: now() > last, "the next second")  # the age of pods is in seconds
    later = sandbox.pods("later", 2, queue, cpu="1")
    sandbox.reason_on(later[0], "of window freeze")
    assert settled(lambda: sandbox.waiting() == {*gang, *later}, "the pods")
    end = now() + 3 * SECOND
    sandbox.patch_queue(queue, windowOverrides=[ends_at(window, end)]).must()
    until(lambda: len(sandbox.bound([*gang, *later])) == 4, "as many to be bound as there is room for")
    [left] = sandbox.waiting()
    assert left in later
    sandbox.reason_on(left, f'queue "{queue}" has no room for this pod now')
    binds = sandbox.binds_of({*gang, *later} - {left})
    assert min(bind.received for bind in binds) >= end


def test_a_closing_queue_closes_when_its_window_lets_its_pods_go(sandbox: Sandbox) -> None:
    """A window holds what waits in it, and no window closes or opens a queue."""
    queue = sandbox.queue()
    names = sandbox.pods("last", 1, queue, gated=True)
    sandbox.patch_queue(queue, state="Closed").must()
    window = freeze(now() - HOUR, now() + HOUR)
    sandbox.patch_queue(queue, windows=[window]).must()
    found = sandbox.queue_that(queue, "be stopped", is_stopped)
    assert (found["status"]["state"], condition(found, "Accepting")["status"]) == ("Closing", "False")
    sandbox.ungate(names)
    sandbox.reason_on(names[0], "window freeze")
    sandbox.patch_queue(queue, windows=None).must()
    sandbox.all_bound(names)
    sandbox.delete_pods()
    sandbox.in_state(queue, "Closed")
