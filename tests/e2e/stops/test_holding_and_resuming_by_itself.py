"""stopPolicy, which stops a queue beside its state, and resumeAt, which undoes a stop by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.e2e.objects import (
    condition,
    gates,
    is_active,
    is_stopped,
    on_a_node,
    state_of,
)
from tests.support.e2e.sandbox import Sandbox

#: How long a stop lasts: longer where the machine is too slow to ask for it before it would end.
SOON = [timedelta(seconds=seconds) for seconds in (3, 12, 48)]


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def held_text(queue: str, *, who: str = "an admin of queues can resume it") -> str:
    return f'queue "{queue}" is stopped by stopPolicy Hold; {who}'


def stop_for_a_while(sandbox: Sandbox, queue: str, **stop: str) -> datetime:
    """Stop it; returns when that ends. A time that is past when the API server gets it is left out."""
    for seconds in SOON:
        at = datetime.now(UTC).replace(microsecond=0) + seconds
        stored = sandbox.patch_queue(queue, **stop, resumeAt=at.isoformat()).must().body
        if "resumeAt" in stored["spec"]:
            sandbox.answered(queue)
            return at
    pytest.fail("all times were past too soon")


def test_hold_makes_a_queue_inactive_and_leaves_its_state(sandbox: Sandbox, queue: str) -> None:
    """Active=False with reason Stopped, and the policy and the queue that set it."""
    found = sandbox.edit(queue, stopPolicy="Hold")
    told = condition(found, "Active")
    assert (state_of(found), told["status"], told["reason"]) == ("Open", "False", "Stopped")
    assert told["message"] == held_text(queue, who=f"resume it with: kubectl queue resume {queue}")


def test_pods_of_a_held_queue_are_parked_and_none_lets_them_go(sandbox: Sandbox, queue: str) -> None:
    """Those from before the hold, by filter, and those from after it, by the gate."""
    early = sandbox.pods("early", 2, queue, gated=True)
    sandbox.edit(queue, stopPolicy="Hold")
    sandbox.ungate(early)
    late = sandbox.pods("late", 2, queue)
    for name in [*early, *late]:
        sandbox.reason_on(name, held_text(queue))
    sandbox.edit(queue, stopPolicy="None")
    sandbox.all_bound([*early, *late])


def test_a_pod_submitted_to_a_held_queue_is_taken_with_a_warning(sandbox: Sandbox, queue: str) -> None:
    """Submissions stay welcome."""
    sandbox.edit(queue, stopPolicy="Hold")
    taken = sandbox.pod("late", queue).must(201)
    assert [warning.startswith(f'queue "{queue}" is stopped') for warning in taken.warnings] == [True]


def test_what_runs_in_a_held_queue_goes_on(sandbox: Sandbox, queue: str) -> None:
    """Hold evicts no pod."""
    names = sandbox.pods("running", 2, queue)
    sandbox.all_bound(names)
    sandbox.edit(queue, stopPolicy="Hold")
    assert sandbox.bound(names) == set(names)


def test_a_held_parent_stops_its_children(sandbox: Sandbox, queue: str) -> None:
    """The strictest of the chain wins, and its queue is named."""
    below = sandbox.queue("below", parent=queue)
    sandbox.edit(queue, stopPolicy="Hold")
    found = sandbox.queue_that(below, "be inactive", is_stopped)
    assert f'of its ancestor "{queue}"' in condition(found, "Active")["message"]


def test_a_suspension_undoes_itself_at_its_time(sandbox: Sandbox, queue: str) -> None:
    """Parked pods of both kinds are bound, and the spec says what is true."""
    early = sandbox.pods("early", 2, queue, gated=True)
    stop_for_a_while(sandbox, queue, state="Suspended")
    sandbox.ungate(early)
    late = sandbox.pods("late", 2, queue)
    sandbox.all_bound([*early, *late])
    found = sandbox.queue_that(queue, "be open by its spec", lambda read: read["spec"]["state"] == "Open")
    assert "resumeAt" not in found["spec"]


def test_a_hold_undoes_itself_at_its_time(sandbox: Sandbox, queue: str) -> None:
    """resumeAt is for stopPolicy as well."""
    stop_for_a_while(sandbox, queue, stopPolicy="Hold")
    sandbox.queue_that(queue, "be active", is_active)
    sandbox.queue_that(queue, "have no stop policy", lambda read: read["spec"]["stopPolicy"] == "None")


def test_nothing_is_bound_before_the_time_to_resume(sandbox: Sandbox, queue: str) -> None:
    """The time is the API server's, and so are those of the audit log."""
    at = stop_for_a_while(sandbox, queue, state="Suspended")
    names = sandbox.pods("late", 3, queue)
    sandbox.all_bound(names)
    assert min(bind.received for bind in sandbox.binds_of(names)) >= at


def test_a_time_to_resume_goes_with_its_stop(sandbox: Sandbox, queue: str) -> None:
    """Resumed by hand and suspended again, without a time: the old one is forgotten."""
    sandbox.suspend(queue, resumeAt="2099-01-01T00:00:00Z")
    assert "resumeAt" not in sandbox.edit(queue, state="Open")["spec"]
    assert "resumeAt" not in sandbox.suspend(queue)["spec"]


def test_a_closed_queue_takes_no_time_to_resume(sandbox: Sandbox, queue: str) -> None:
    """No time undoes Closed."""
    sandbox.patch_queue(queue, state="Closed", resumeAt="2099-01-01T00:00:00Z").must_refuse("spec.resumeAt")


def test_a_pod_with_a_gate_of_its_own_keeps_it_over_a_resume(sandbox: Sandbox, queue: str) -> None:
    """Only our gate is removed."""
    sandbox.suspend(queue)
    sandbox.pod("late", queue, gated=True).must(201)
    others = gates(sandbox.read_pod("late"))[:1]
    sandbox.edit(queue, state="Open")
    sandbox.queue_that(queue, "have lifted its gate", lambda _: gates(sandbox.read_pod("late")) == others)
    assert not on_a_node(sandbox.read_pod("late"))
