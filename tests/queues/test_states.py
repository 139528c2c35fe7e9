"""The two tables of the design's section 3, cell by cell, and edits held to the second."""

from __future__ import annotations

import pytest

from queues.queue import Queue
from queues.states import (
    ACTION_OF_EDIT,
    ACTIONS,
    Action,
    Desired,
    State,
    StopPolicy,
    edit_allowed,
    own_state,
)
from tests.support.cases import each_case
from tests.support.rules.abilities import abilities
from tests.support.rules.cases import (
    CLOSED,
    OPEN,
    SUSPENDED,
    asked,
    queue,
    tree,
)

#: state: default, may be set, accepts submissions, may be deleted, its pods are scheduled.
STATES = """
Open      | yes | yes | yes | no  | yes
Suspended | no  | yes | yes | no  | no
Closing   | no  | no  | no  | no  | yes
Closed    | no  | yes | no  | yes | yes
Unknown   | no  | no  | no  | no  | no
"""
QUESTIONS = ("default", "may_be_set", "accepts", "may_be_deleted", "schedules")

#: action: Open, Suspended, Closing, Closed, Unknown.
DEEDS = """
OpenQueue    | nothing   | Open    | Open      | Open    | nothing
CloseQueue   | Closed    | Closed  | nothing   | nothing | Closed
SuspendQueue | Suspended | nothing | Suspended | nothing | Suspended
ResumeQueue  | nothing   | Open    | nothing   | nothing | nothing
"""
COLUMNS = ("Open", "Suspended", "Closing", "Closed", "Unknown")

#: spec.state written in an own state: what is refused; all else passes.
REFUSED_EDITS = {("Closed", "Suspended")}


def rows(table: str) -> dict[str, list[str]]:
    """A table of the design as its first column and the others."""
    lines = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    return {first: rest for first, *rest in lines}


STATE_CELLS = [
    (state, question, answer == "yes")
    for state, answers in rows(STATES).items()
    for question, answer in zip(QUESTIONS, answers, strict=True)
]
DEED_CELLS = [
    (action, state, result)
    for action, results in rows(DEEDS).items()
    for state, result in zip(COLUMNS, results, strict=True)
]

#: The desired state behind each own state.
BEHIND = {"Open": OPEN, "Suspended": SUSPENDED, "Closing": CLOSED, "Closed": CLOSED, "Unknown": OPEN}


@each_case(("state", "question", "answer"), STATE_CELLS)
def test_the_table_of_states_is_the_designs(state: str, question: str, answer: bool) -> None:
    """What the verdict, deletions, `Desired` and a queue that says nothing allow is what the design says."""
    assert getattr(abilities(State(state)), question) is answer


@each_case(("action", "state", "result"), DEED_CELLS)
def test_the_table_of_actions_is_the_designs(action: str, state: str, result: str) -> None:
    """Each cell of what an action makes of a state is the one of the design."""
    expected = None if result == "nothing" else Desired(result)
    assert ACTIONS[Action(action)][State(state)] is expected


def test_the_tables_know_no_other_states_and_actions() -> None:
    """States, desired states, actions and stop policies are these, spelt as Volcano and Kueue do."""
    assert [state.value for state in State] == list(COLUMNS)
    assert [state.value for state in Desired] == ["Open", "Suspended", "Closed"]
    assert [action.value for action in Action] == list(rows(DEEDS))
    assert [policy.value for policy in StopPolicy] == ["None", "Hold", "HoldAndDrain"]


def test_the_tables_are_read_only() -> None:
    """A table is a value: writing to it fails."""
    for table in (ACTIONS, ACTION_OF_EDIT):
        with pytest.raises(TypeError):
            table[next(iter(table))] = None  # type: ignore[index]


def test_a_queue_that_says_nothing_has_no_stop_policy() -> None:
    """Beside the default state, which the table has."""
    assert Queue(name="q").stop_policy is StopPolicy.NONE


OWN_STATES = [
    # desired, chain broken, a member is live: the state without its ancestors
    ("Open", False, False, "Open"),
    ("Open", False, True, "Open"),
    ("Open", True, False, "Unknown"),
    ("Open", True, True, "Unknown"),
    ("Suspended", False, False, "Suspended"),
    ("Suspended", False, True, "Suspended"),
    ("Suspended", True, False, "Suspended"),
    ("Suspended", True, True, "Suspended"),
    ("Closed", False, False, "Closed"),
    ("Closed", False, True, "Closing"),
    ("Closed", True, False, "Closed"),
    ("Closed", True, True, "Closing"),
]


@each_case(("desired", "broken", "live", "expected"), OWN_STATES)
def test_the_column_of_an_action_is_the_own_state(
    desired: str, broken: bool, live: bool, expected: str
) -> None:
    """Own desired state; Closing while that is Closed with live members; Unknown where Open and broken."""
    assert own_state(Desired(desired), broken=broken, live=live) == expected


@each_case(("desired", "broken", "live", "expected"), OWN_STATES)
def test_without_ancestors_the_own_state_is_the_state(
    desired: str, broken: bool, live: bool, expected: str
) -> None:
    """For a queue right under `root`, or under nothing at all, both functions say the same."""
    alone = tree(queue("q", "ghost" if broken else "root", desired=Desired(desired)))
    assert asked(alone, "q", live=live).state == expected


@each_case("own", COLUMNS)
@each_case("after", list(Desired))
def test_edits_of_the_state_follow_the_table_of_actions(own: str, after: Desired) -> None:
    """Of all edits one is refused: Closed to Suspended, which must be opened first."""
    assert edit_allowed(BEHIND[own], after, own=State(own)) is ((own, after.value) not in REFUSED_EDITS)


@each_case("own", COLUMNS)
def test_writing_what_is_there_already_is_always_allowed(own: str) -> None:
    """A manifest applied twice is refused in no state."""
    assert edit_allowed(BEHIND[own], BEHIND[own], own=State(own))


@pytest.mark.parametrize("own", ["Open", "Unknown"])
def test_a_stop_whose_time_is_over_may_be_written_as_open(own: str) -> None:
    """Past `resumeAt` a queue is Open or Unknown though Suspended is written: Open may be written.

    The controller itself makes this edit once the time has come.
    """
    assert edit_allowed(SUSPENDED, OPEN, own=State(own))


@each_case("own", ["Open", "Unknown"])
@each_case("after", list(Desired))
def test_a_stop_whose_time_is_over_may_be_edited_to_anything(own: str, after: Desired) -> None:
    """Past `resumeAt` a queue may be suspended anew or closed, as any open one."""
    if after is not OPEN:
        assert edit_allowed(SUSPENDED, after, own=State(own))


def test_the_stricter_policy_has_the_greater_strictness() -> None:
    """None, Hold and HoldAndDrain are ordered, strictest last."""
    assert sorted(StopPolicy, key=lambda policy: policy.strictness) == list(StopPolicy)
    assert len({policy.strictness for policy in StopPolicy}) == 3


@pytest.mark.parametrize(
    ("after", "action"), [("Open", "OpenQueue"), ("Closed", "CloseQueue"), ("Suspended", "SuspendQueue")]
)
def test_an_edit_amounts_to_an_action(after: str, action: str) -> None:
    """Each value of `spec.state` has the action that would have written it."""
    assert ACTION_OF_EDIT[Desired(after)] == action
