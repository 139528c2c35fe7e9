"""What stops a parent stops those below it, and undoing it gives each back what it asked for itself."""

from __future__ import annotations

import pytest

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import (
    condition,
    is_active,
    is_stopped,
    state_of,
    suspended_condition,
    suspended_text,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox


@pytest.fixture
def parent(sandbox: Sandbox) -> str:
    return sandbox.queue("team")


def child(sandbox: Sandbox, short: str, parent: str) -> str:
    return sandbox.queue(short, parent=parent)


def stopped(sandbox: Sandbox, queue: str) -> Object:
    return sandbox.queue_that(queue, "be inactive", is_stopped)


def active(sandbox: Sandbox, queue: str) -> Object:
    return sandbox.queue_that(queue, "be active", is_active)


def test_a_suspended_parent_shows_on_its_children(sandbox: Sandbox, parent: str) -> None:
    """State and condition, which names the ancestor and the way out; their spec is left alone."""
    below = child(sandbox, "below", parent)
    sandbox.suspend(parent)
    found = stopped(sandbox, below)
    told = condition(found, "Active")
    assert (state_of(found), found["spec"]["state"]) == ("Suspended", "Open")
    assert (told["reason"], told["message"]) == ("Suspended", suspended_condition(below, by=parent))


def test_pods_of_a_child_wait_for_the_parent_to_be_resumed(sandbox: Sandbox, parent: str) -> None:
    """The child's own pods, gated with the ancestor's name, are bound after the resume."""
    below = child(sandbox, "below", parent)
    sandbox.suspend(parent)
    names = sandbox.pods("late", 3, below)
    sandbox.reason_on("late-0", suspended_text(below, by=parent))
    sandbox.edit(parent, state="Open")
    sandbox.all_bound(names)


def test_a_child_is_open_again_when_its_parent_is_resumed(sandbox: Sandbox, parent: str) -> None:
    """Nothing of the parent's stop is left on it."""
    below = child(sandbox, "below", parent)
    sandbox.suspend(parent)
    stopped(sandbox, below)
    sandbox.edit(parent, state="Open")
    assert state_of(active(sandbox, below)) == "Open"


def test_a_child_closed_by_hand_stays_closed(sandbox: Sandbox, parent: str) -> None:
    """Before, during and after its parent's suspension."""
    closed = child(sandbox, "closed", parent)
    sandbox.edit(closed, state="Closed")
    states = [state_of(sandbox.in_state(closed, "Closed"))]
    sandbox.suspend(parent)
    states.append(state_of(stopped(sandbox, closed)))
    sandbox.edit(parent, state="Open")
    states.append(state_of(active(sandbox, closed)))
    assert states == ["Closed"] * 3


def test_a_child_suspended_by_hand_meanwhile_stays_suspended(sandbox: Sandbox, parent: str) -> None:
    """It names itself as the cause, once its parent is out of the way."""
    below = child(sandbox, "below", parent)
    sandbox.suspend(parent)
    sandbox.suspend(below)
    sandbox.edit(parent, state="Open")
    found = sandbox.queue_that(
        below,
        "name itself as the cause",
        lambda read: condition(read, "Active").get("message") == suspended_condition(below),
    )
    assert (state_of(found), is_stopped(found)) == ("Suspended", True)


def test_a_grandchild_is_stopped_too(sandbox: Sandbox, parent: str) -> None:
    """By the queue two levels above, which it names."""
    lowest = child(sandbox, "lowest", child(sandbox, "below", parent))
    sandbox.suspend(parent)
    assert condition(stopped(sandbox, lowest), "Active")["message"] == suspended_condition(lowest, by=parent)


def test_a_closed_parent_keeps_its_children_from_taking_pods(sandbox: Sandbox, parent: str) -> None:
    """The refusal names the queue that has to be opened."""
    below = child(sandbox, "below", parent)
    sandbox.edit(parent, state="Closed")
    sandbox.pod("new", below).must_refuse(f'queue "{below}"', f"kubectl queue open {parent}")


def test_a_parent_is_closed_only_once_no_pod_below_is_live(sandbox: Sandbox, parent: str) -> None:
    """It waits for the pods of its children, too."""
    below = child(sandbox, "below", parent)
    sandbox.all_bound(sandbox.pods("running", 1, below))
    closing = sandbox.edit(parent, state="Closed")
    sandbox.delete_pods()
    assert [state_of(closing), state_of(sandbox.in_state(parent, "Closed"))] == ["Closing", "Closed"]


def test_a_queue_with_children_cannot_be_deleted(sandbox: Sandbox, parent: str) -> None:
    """Though it is Closed."""
    child(sandbox, "below", parent)
    sandbox.edit(parent, state="Closed")
    sandbox.in_state(parent, "Closed")
    sandbox.api.delete(f"{QUEUES}/{parent}").must_refuse("child queue", "delete or move them first")
