"""What stops a parent stops those below it, and undoing it gives each back what it asked for itself."""

from __future__ import annotations

import pytest

from tests.support.e2e.calling import Object
from tests.support.e2e.shapes import (
    condition,
    is_active,
    is_stopped,
    state_of,
    suspended_text,
)
from tests.support.e2e.stage import QUEUES, Stage


@pytest.fixture
def parent(stage: Stage) -> str:
    return stage.queue("team")


def child(stage: Stage, short: str, parent: str) -> str:
    return stage.queue(short, parent=parent)


def stopped(stage: Stage, queue: str) -> Object:
    return stage.queue_that(queue, "be inactive", is_stopped)


def active(stage: Stage, queue: str) -> Object:
    return stage.queue_that(queue, "be active", is_active)


def test_a_suspended_parent_shows_on_its_children(stage: Stage, parent: str) -> None:
    """State and condition, which names the ancestor and the way out; their spec is left alone."""
    below = child(stage, "below", parent)
    stage.suspend(parent)
    found = stopped(stage, below)
    told = condition(found, "Active")
    assert (state_of(found), found["spec"]["state"]) == ("Suspended", "Open")
    assert (told["reason"], told["message"]) == ("Suspended", suspended_text(below, by=parent))


def test_pods_of_a_child_wait_for_the_parent_to_be_resumed(stage: Stage, parent: str) -> None:
    """The child's own pods, gated with the ancestor's name, are bound after the resume."""
    below = child(stage, "below", parent)
    stage.suspend(parent)
    names = stage.pods("late", 3, below)
    stage.reason_on("late-0", suspended_text(below, by=parent))
    stage.edit(parent, state="Open")
    stage.all_bound(names)


def test_a_child_is_open_again_when_its_parent_is_resumed(stage: Stage, parent: str) -> None:
    """Nothing of the parent's stop is left on it."""
    below = child(stage, "below", parent)
    stage.suspend(parent)
    stopped(stage, below)
    stage.edit(parent, state="Open")
    assert state_of(active(stage, below)) == "Open"


def test_a_child_closed_by_hand_stays_closed(stage: Stage, parent: str) -> None:
    """Before, during and after its parent's suspension."""
    closed = child(stage, "closed", parent)
    stage.edit(closed, state="Closed")
    states = [state_of(stage.in_state(closed, "Closed"))]
    stage.suspend(parent)
    states.append(state_of(stopped(stage, closed)))
    stage.edit(parent, state="Open")
    states.append(state_of(active(stage, closed)))
    assert states == ["Closed"] * 3


def test_a_child_suspended_by_hand_meanwhile_stays_suspended(stage: Stage, parent: str) -> None:
    """It names itself as the cause, once its parent is out of the way."""
    below = child(stage, "below", parent)
    stage.suspend(parent)
    stage.suspend(below)
    stage.edit(parent, state="Open")
    found = stage.queue_that(
        below,
        "name itself as the cause",
        lambda read: condition(read, "Active").get("message") == suspended_text(below),
    )
    assert (state_of(found), is_stopped(found)) == ("Suspended", True)


def test_a_grandchild_is_stopped_too(stage: Stage, parent: str) -> None:
    """By the queue two levels above, which it names."""
    lowest = child(stage, "lowest", child(stage, "below", parent))
    stage.suspend(parent)
    assert condition(stopped(stage, lowest), "Active")["message"] == suspended_text(lowest, by=parent)


def test_a_closed_parent_keeps_its_children_from_taking_pods(stage: Stage, parent: str) -> None:
    """The refusal names the queue that has to be opened."""
    below = child(stage, "below", parent)
    stage.edit(parent, state="Closed")
    stage.pod("new", below).must_refuse(f'queue "{below}"', f"kubectl queue open {parent}")


def test_a_parent_is_closed_only_when_nobody_below_is_live(stage: Stage, parent: str) -> None:
    """Its child's pod is its own to wait for."""
    below = child(stage, "below", parent)
    stage.all_bound(stage.pods("running", 1, below))
    closing = stage.edit(parent, state="Closed")
    stage.delete_pods()
    assert [state_of(closing), state_of(stage.in_state(parent, "Closed"))] == ["Closing", "Closed"]


def test_a_queue_with_children_cannot_be_deleted(stage: Stage, parent: str) -> None:
    """Though it is Closed."""
    child(stage, "below", parent)
    stage.edit(parent, state="Closed")
    stage.in_state(parent, "Closed")
    stage.api.delete(f"{QUEUES}/{parent}").must_refuse("child queue", "delete or move them first")
