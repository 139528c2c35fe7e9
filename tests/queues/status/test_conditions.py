"""The conditions Accepting and Active, from a queue's verdict."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from queues.queue import Queue
from queues.status.closing import ClosingStatus
from queues.status.conditions import accepting_condition, active_condition
from queues.tree import Tree
from tests.support.rules.cases import (
    CLOSED,
    DRAIN,
    HOLD,
    MODEST,
    NOW,
    SUSPENDED,
    asked,
    line,
    plain,
    queue,
    random_forests,
    tree,
)

#: wishes of the parent and of the queue: Accepting, reason, Active, reason.
CASES = [
    ({}, {}, True, "Open", True, "Ready"),
    ({}, {"desired": SUSPENDED}, True, "Open", False, "Suspended"),
    ({"desired": SUSPENDED}, {}, True, "Open", False, "Suspended"),
    ({}, {"stop_policy": HOLD}, True, "Open", False, "Stopped"),
    ({"stop_policy": DRAIN}, {}, True, "Open", False, "Stopped"),
    ({}, {"desired": SUSPENDED, "stop_policy": HOLD}, True, "Open", False, "Suspended"),
    ({}, {"desired": CLOSED}, False, "Closed", True, "Ready"),
    ({"desired": CLOSED}, {}, False, "Closed", True, "Ready"),
    ({"desired": CLOSED}, {"desired": SUSPENDED}, False, "Closed", False, "Suspended"),
    ({"desired": CLOSED}, {"stop_policy": HOLD}, False, "Closed", False, "Stopped"),
]
ANY_CASE = pytest.mark.parametrize(("above", "own", "accepts", "because", "acts", "why"), CASES)


@ANY_CASE
def test_accepting_says_whether_submissions_are_accepted(
    above: dict[str, Any], own: dict[str, Any], accepts: bool, because: str, acts: bool, why: str
) -> None:
    """True with reason Open, or False with the kind of refusal."""
    found = accepting_condition(asked(line(queue("p", **above), queue("q", **own)), "q"))
    assert (found.type, found.status, found.reason) == ("Accepting", accepts, because)


@ANY_CASE
def test_active_says_whether_pods_are_scheduled(
    above: dict[str, Any], own: dict[str, Any], accepts: bool, because: str, acts: bool, why: str
) -> None:
    """True with reason Ready, or False with the kind of stop."""
    found = active_condition(asked(line(queue("p", **above), queue("q", **own)), "q"))
    assert (found.type, found.status, found.reason) == ("Active", acts, why)


def test_a_broken_chain_turns_both() -> None:
    """A queue that hangs nowhere neither accepts nor is active, for the same reason."""
    found = asked(tree(queue("q", "ghost")), "q")
    assert [(one.status, one.reason) for one in (accepting_condition(found), active_condition(found))] == [
        (False, "ChainBroken")
    ] * 2


def test_a_held_queue_says_which_policy_and_whose() -> None:
    """Active=False for a stop policy has the policy and the queue that set it in its message."""
    message = active_condition(asked(line(queue("lab", stop_policy=DRAIN), queue("q")), "q")).message
    assert "HoldAndDrain" in message
    assert '"lab"' in message


KEPT = ClosingStatus(kind="Pod", namespace="ns", name="p", queue="q")
NO_MEMBER = ClosingStatus()


def test_a_closing_queue_says_what_keeps_it() -> None:
    """What is still live is added to the message, and what may still come where nothing is."""
    found = asked(tree(queue("q", desired=CLOSED)), "q", live=True)
    plainly = accepting_condition(found).message
    assert "is Closing and takes no new work" in plainly
    kept, unknown = (accepting_condition(found, closing=closing).message for closing in (KEPT, NO_MEMBER))
    assert kept == f"{plainly}; kept from Closed by pod ns/p of queue q"
    assert unknown == f"{plainly}; what was admitted before may still come"


def test_a_queue_that_accepts_has_nothing_to_keep_it() -> None:
    """An open queue does not tell of its members."""
    found = asked(tree(queue("q")), "q", live=True)
    assert accepting_condition(found, closing=KEPT) == accepting_condition(found)


@MODEST
@given(random_forests())
def test_every_message_names_its_queue_on_one_line(queues: dict[str, Queue]) -> None:
    """In any tree the status agrees with the verdict; the message is a plain line that names the queue."""
    wood = Tree(queues)
    for name in wood:
        found = asked(wood, name, now=NOW)
        conditions = accepting_condition(found), active_condition(found)
        assert [one.status for one in conditions] == [found.accepts, found.schedules]
        assert all(f'"{name}"' in one.message and plain(one.message) for one in conditions)
