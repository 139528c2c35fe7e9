"""stopPolicy, which stops a queue beside its state, and resumeAt, which undoes a stop by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.e2e.shapes import (
    condition,
    gates,
    is_active,
    is_stopped,
    on_a_node,
    state_of,
)
from tests.support.e2e.stage import Stage

SOON = timedelta(seconds=3)


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def held_text(queue: str) -> str:
    return f'queue "{queue}" is stopped by stopPolicy Hold; resume it with: kubectl queue resume {queue}'


def soon() -> str:
    return (datetime.now(UTC) + SOON).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_hold_makes_a_queue_inactive_and_leaves_its_state(stage: Stage, queue: str) -> None:
    """Active=False with reason Stopped, and the policy and the queue that set it."""
    found = stage.edit(queue, stopPolicy="Hold")
    told = condition(found, "Active")
    assert (state_of(found), told["status"], told["reason"]) == ("Open", "False", "Stopped")
    assert told["message"] == held_text(queue)


def test_pods_of_a_held_queue_are_parked_and_none_lets_them_go(stage: Stage, queue: str) -> None:
    """Those from before the hold, by filter, and those from after it, by the gate."""
    early = stage.pods("early", 2, queue, gated=True)
    stage.edit(queue, stopPolicy="Hold")
    stage.ungate(early)
    late = stage.pods("late", 2, queue)
    for name in [*early, *late]:
        stage.reason_on(name, held_text(queue))
    stage.edit(queue, stopPolicy="None")
    stage.all_bound([*early, *late])


def test_a_pod_submitted_to_a_held_queue_is_taken_with_a_warning(stage: Stage, queue: str) -> None:
    """Submissions stay welcome."""
    stage.edit(queue, stopPolicy="Hold")
    taken = stage.pod("late", queue).must(201)
    assert [warning.startswith(f'queue "{queue}" is stopped') for warning in taken.warnings] == [True]


def test_what_runs_in_a_held_queue_goes_on(stage: Stage, queue: str) -> None:
    """Hold evicts nobody."""
    names = stage.pods("running", 2, queue)
    stage.all_bound(names)
    stage.edit(queue, stopPolicy="Hold")
    assert stage.bound(names) == set(names)


def test_a_held_parent_stops_its_children(stage: Stage, queue: str) -> None:
    """The strictest of the chain wins, and its queue is named."""
    below = stage.queue("below", parent=queue)
    stage.edit(queue, stopPolicy="Hold")
    found = stage.queue_that(below, "be inactive", is_stopped)
    assert f'of its ancestor "{queue}"' in condition(found, "Active")["message"]


def test_a_suspension_undoes_itself_at_its_time(stage: Stage, queue: str) -> None:
    """Parked pods of both kinds are bound, and the spec says what is true."""
    early = stage.pods("early", 2, queue, gated=True)
    stage.edit(queue, state="Suspended", resumeAt=soon())
    stage.ungate(early)
    late = stage.pods("late", 2, queue)
    stage.all_bound([*early, *late])
    found = stage.queue_that(queue, "be open by its spec", lambda read: read["spec"]["state"] == "Open")
    assert "resumeAt" not in found["spec"]


def test_a_hold_undoes_itself_at_its_time(stage: Stage, queue: str) -> None:
    """resumeAt is for stopPolicy as well."""
    stage.edit(queue, stopPolicy="Hold", resumeAt=soon())
    stage.queue_that(queue, "be active", is_active)
    stage.queue_that(queue, "have no stop policy", lambda read: read["spec"]["stopPolicy"] == "None")


def test_nothing_is_bound_before_the_time_to_resume(stage: Stage, queue: str) -> None:
    """The time is the API server's, and so are those of the audit log."""
    at = datetime.fromisoformat(soon())
    stage.edit(queue, state="Suspended", resumeAt=at.isoformat())
    stage.all_bound(stage.pods("late", 3, queue))
    assert min(bind.received for bind in stage.binds() if bind.bound) >= at


def test_a_time_to_resume_goes_with_its_stop(stage: Stage, queue: str) -> None:
    """Resumed by hand and suspended again, without a time: the old one is forgotten."""
    stage.suspend(queue, resumeAt="2099-01-01T00:00:00Z")
    assert "resumeAt" not in stage.edit(queue, state="Open")["spec"]
    assert "resumeAt" not in stage.suspend(queue)["spec"]


def test_a_closed_queue_takes_no_time_to_resume(stage: Stage, queue: str) -> None:
    """No time undoes Closed."""
    stage.patch_queue(queue, state="Closed", resumeAt=soon()).must_refuse("spec.resumeAt")


def test_a_pod_with_a_gate_of_its_own_keeps_it_over_a_resume(stage: Stage, queue: str) -> None:
    """We lift our gate and nobody else's."""
    stage.suspend(queue)
    stage.pod("late", queue, gated=True).must(201)
    others = gates(stage.read_pod("late"))[:1]
    stage.edit(queue, state="Open")
    stage.queue_that(queue, "have lifted its gate", lambda _: gates(stage.read_pod("late")) == others)
    assert not on_a_node(stage.read_pod("late"))
