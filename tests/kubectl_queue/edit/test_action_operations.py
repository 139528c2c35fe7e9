"""Each verb in each own state: the table of actions, and what an edit carries with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kubectl_queue.edit.action_operation import ActionOperation
from kubectl_queue.edit.operation import MANY_UNGATED, Decision, StopFields, apply_patch
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.queues import QueueObjects
from queues.states import ACTIONS, Action, State
from tests.support.cases import each_case
from tests.support.plugin.harness import (
    NOW,
    item,
    snapshot,
)

SHOWN = {
    State.OPEN: item("b"),
    State.SUSPENDED: item("b", state="Suspended", reason="why"),
    State.CLOSING: item("b", state="Closed", status={"state": "Closing"}),
    State.CLOSED: item("b", state="Closed", status={"state": "Closed"}),
    State.UNKNOWN: item("b", parent="gone"),
}


def decide(operation: ActionOperation, queue: Object, *others: Object) -> Decision:
    return operation.decide(item=queue, queues=snapshot(queue, *others))


def patch(action: Action, queue: Object, **given: Any) -> dict[str, Any]:
    return dict(decide(ActionOperation(action=action, stop=StopFields(**given)), queue).patch)


@each_case("action", Action)
@each_case("own", State)
def test_each_cell_of_the_table_of_actions(action: Action, own: State) -> None:
    decision = decide(ActionOperation(action=action), SHOWN[own])
    target = ACTIONS[action][own]
    assert decision.patch.get("state") == target
    assert decision.outcome.startswith("unchanged (it ") == (target is None)


@pytest.mark.parametrize("own", [State.CLOSING, State.CLOSED])
def test_resume_of_a_closed_queue_names_the_way_out(own: State) -> None:
    said = decide(ActionOperation(action=Action.RESUME), SHOWN[own]).outcome
    assert said.endswith("which resume does not undo; reopen it with: kubectl queue open b)")


def test_suspend_of_a_closed_queue_is_refused_and_names_the_way_out() -> None:
    decision = decide(ActionOperation(action=Action.SUSPEND), SHOWN[State.CLOSED])
    assert decision.refusal == (
        'queue "b" is Closed and cannot be suspended; open it first: kubectl queue open b'
    )
    assert decide(ActionOperation(action=Action.SUSPEND), SHOWN[State.CLOSING]).refusal == ""


@each_case("state", ["Open", "Suspended", "Closed"])
@each_case("action", Action)
def test_no_action_opens_what_is_being_deleted(action: Action, state: str) -> None:
    leaving = item("b", state=state)
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    decision = decide(ActionOperation(action=action), leaving)
    assert decision.patch.get("state") != "Open"
    opens = action is Action.OPEN or (action is Action.RESUME and state == "Suspended")
    said = 'queue "b" is being deleted and cannot be opened; once it is gone, create it with: '
    assert decision.refusal == (f"{said}kubectl queue create b" if opens else "")


@each_case(
    "status",
    [{}, {"pods": {"running": 0, "pending": 0}}, {"pods": {"running": 1}}, {"pods": {}, "inqueue": 1}],
)
def test_what_was_open_is_closing_whatever_its_status_counts(status: dict[str, Any]) -> None:
    close = ActionOperation(action=Action.CLOSE)
    assert decide(close, item("b", status=status)).outcome == "closing"
    below = item("c", parent="b", status=status)
    assert decide(close, item("b"), below).outcome == "closing"


def test_a_queue_without_a_status_is_closing() -> None:
    decision = decide(ActionOperation(action=Action.CLOSE), item("b", state="Closed"))
    assert "Closing already" in decision.outcome


def test_suspend_writes_reason_and_time_in_utc() -> None:
    given = {"reason": "quota", "resume_at": NOW + timedelta(minutes=30)}
    assert patch(Action.SUSPEND, item("b"), **given) == {
        "state": "Suspended",
        "reason": "quota",
        "resumeAt": "2030-01-01T12:30:00Z",
    }


def test_suspend_without_a_reason_removes_the_reason_of_the_earlier_stop() -> None:
    assert patch(Action.SUSPEND, item("b", state="Closed", reason="old")) == {
        "state": "Suspended",
        "reason": None,
    }


def test_suspend_of_a_suspended_queue_takes_a_new_reason_or_time() -> None:
    queue = item("b", state="Suspended", reason="old", resumeAt="2030-01-01T12:10:00Z")
    assert patch(Action.SUSPEND, queue, reason="new") == {"reason": "new"}
    later = patch(Action.SUSPEND, queue, resume_at=NOW + timedelta(hours=1))
    assert later == {"resumeAt": "2030-01-01T13:00:00Z"}
    assert patch(Action.SUSPEND, queue, reason="old") == {}


def test_suspend_sets_what_becomes_of_parked_pods() -> None:
    """It outlasts the stop: neither a resume nor another suspend removes it."""
    recreate: dict[str, Any] = {"settings": {"parked": "Recreate"}}
    assert patch(Action.SUSPEND, item("b"), **recreate) == {"state": "Suspended", "parked": "Recreate"}
    queue = item("b", state="Suspended", parked="Keep")
    assert patch(Action.SUSPEND, queue, **recreate) == {"parked": "Recreate"}
    assert patch(Action.SUSPEND, queue, settings={"parked": None}) == {"parked": None}
    assert patch(Action.SUSPEND, queue, settings={"parked": "Keep"}) == {}
    assert "parked" not in patch(Action.RESUME, queue)
    assert "parked" not in patch(Action.SUSPEND, item("b", parked="Recreate"))


def test_the_time_to_resume_can_be_taken_away() -> None:
    queue = item("b", state="Suspended", reason="old", resumeAt="2030-01-01T12:10:00Z")
    decision = decide(ActionOperation(action=Action.SUSPEND, stop=StopFields(clear_resume_at=True)), queue)
    assert (decision.outcome, decision.patch) == ("edited (resumeAt)", {"resumeAt": None})
    assert patch(Action.SUSPEND, item("b", state="Suspended"), clear_resume_at=True) == {}


def test_a_suspension_whose_time_has_passed_counts_as_open_and_can_be_set_again() -> None:
    queue = item("b", state="Suspended", reason="old", resumeAt="2030-01-01T11:59:59Z")
    decision = decide(ActionOperation(action=Action.SUSPEND), queue)
    assert (decision.outcome, dict(decision.patch)) == ("suspended", {"reason": None, "resumeAt": None})


def test_close_removes_the_time_to_resume() -> None:
    queue = item("b", state="Suspended", resumeAt="2030-01-01T13:00:00Z")
    assert patch(Action.CLOSE, queue, reason="done") == {
        "state": "Closed",
        "reason": "done",
        "resumeAt": None,
    }


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_resume_undoes_a_stop_policy(policy: str) -> None:
    queue = item("b", stopPolicy=policy, reason="why", resumeAt="2030-01-01T13:00:00Z")
    assert patch(Action.RESUME, queue) == {"stopPolicy": "None", "reason": None, "resumeAt": None}


def test_resume_of_a_suspended_and_held_queue_undoes_both() -> None:
    queue = item("b", state="Suspended", stopPolicy="Hold", reason="why")
    assert patch(Action.RESUME, queue) == {"state": "Open", "stopPolicy": "None", "reason": None}


def test_resume_of_a_closed_and_held_queue_undoes_the_policy_alone() -> None:
    queue = item("b", state="Closed", stopPolicy="Hold", reason="why")
    assert patch(Action.RESUME, queue) == {"stopPolicy": "None"}


def test_open_leaves_a_stop_policy_and_says_that_it_still_stops() -> None:
    before, after = item("b", state="Closed", stopPolicy="Hold"), item("b", state="Open", stopPolicy="Hold")
    assert patch(Action.OPEN, before) == {"state": "Open"}
    assert warnings_after(Action.OPEN, snapshot(after)) == [
        'queue "b" is stopped by stopPolicy Hold; resume it with: kubectl queue resume b'
    ]


def warnings_after(action: Action, after: QueueObjects, **given: Any) -> list[str]:
    return ActionOperation(action=action, stop=StopFields(**given)).warnings("b", before=after, after=after)


def test_an_ancestor_that_still_stops_the_queue_is_named() -> None:
    queues = snapshot(item("a", state="Suspended", reason="why"), item("b", parent="a"))
    text = 'queue "b" is Suspended by its ancestor "a" (why); resume it with: kubectl queue resume a'
    assert warnings_after(Action.RESUME, queues) == [text]
    assert warnings_after(Action.OPEN, queues) == [text]
    assert warnings_after(Action.CLOSE, queues) == []


def test_a_suspend_does_not_warn_of_its_own_stop() -> None:
    assert warnings_after(Action.SUSPEND, snapshot(item("b", state="Suspended"))) == []


def test_open_warns_of_a_closed_ancestor_and_resume_does_not() -> None:
    queues = snapshot(item("a", state="Closed"), item("b", parent="a"))
    assert [("kubectl queue open a" in text) for text in warnings_after(Action.OPEN, queues)] == [True]
    assert warnings_after(Action.RESUME, queues) == []


def test_a_broken_chain_gives_one_warning() -> None:
    texts = warnings_after(Action.OPEN, snapshot(item("b", parent="gone")))
    assert len(texts) == 1
    assert 'parent "gone" of queue "b" does not exist' in texts[0]


def test_a_time_to_resume_that_also_ends_a_stop_policy_gives_a_warning() -> None:
    queues = snapshot(item("b", state="Suspended", stopPolicy="Hold"))
    assert warnings_after(Action.SUSPEND, queues, resume_at=NOW + timedelta(hours=1)) == [
        'stopPolicy Hold of queue "b" ends at the same time'
    ]


MANY = {"pods": {"pending": MANY_UNGATED + 5, "gated": 5}}
FEWER = {"pods": {"pending": MANY_UNGATED + 4, "gated": 5}}
WAY_OUT = "created again with the gate: kubectl queue suspend b --parked=Recreate"


@each_case(
    ("queues", "expected"),
    [
        ([item("b", status=MANY)], f"{MANY_UNGATED} pending pods have no gate"),
        ([item("b"), item("c", parent="b", status=MANY)], f"{MANY_UNGATED} pending pods have no gate"),
        ([item("b", status=MANY), item("c", parent="b", status=MANY)], f"{2 * MANY_UNGATED} pending pods"),
        ([item("b", status=FEWER)], ""),
        ([item("b", parked="Recreate", status=MANY)], ""),
        ([item("b", parked="Keep", status=MANY)], ""),
        ([item("b", parent="a", status=MANY), item("a", parked="Keep")], ""),
        ([item("b"), item("c", parent="b", parked="Keep", status=MANY)], ""),
        ([item("b", parent="a", status=MANY), item("a", state="Closed")], ""),
    ],
    ids=[
        "of the queue",
        "of a queue below",
        "of both",
        "few",
        "to be created again",
        "to stay",
        "to stay, by a queue above",
        "to stay, by the queue below",
        "nothing is created in a queue that is to be closed",
    ],
)
def test_a_stop_that_leaves_many_pods_without_the_gate_says_what_that_costs_and_the_way_out(
    queues: list[Object], expected: str
) -> None:
    stopped, *others = queues
    stopped = apply_patch(stopped, {"spec": {"state": "Suspended"}})
    found = warnings_after(Action.SUSPEND, snapshot(stopped, *others))
    assert [(expected in text, WAY_OUT in text) for text in found] == ([(True, True)] if expected else [])


def test_a_resume_says_nothing_of_pods_without_the_gate() -> None:
    assert warnings_after(Action.RESUME, snapshot(item("b", status=MANY))) == []


def test_ancestors_that_may_not_be_read_count_as_open() -> None:
    queues = QueueObjects([item("b", parent="unseen")], now=NOW, complete=False)
    assert queues.own_state("b") is State.OPEN
    assert warnings_after(Action.OPEN, queues) == []


FREEZE = {
    "name": "freeze",
    "from": "2030-01-01T11:00:00Z",
    "until": "2030-01-01T13:00:00Z",
    "stopPolicy": "Hold",
}
SKIP = {"window": "freeze", "start": "2030-01-01T11:00:00Z", "skip": True}
ENTRY = {"name": "freeze", "start": "2030-01-01T11:00:00Z", "until": "2030-01-01T13:00:00Z"}
IN_WINDOW: dict[str, Any] = {"windows": [FREEZE], "inWindow": [ENTRY]}


def test_resume_leaves_out_the_window_that_is_on_and_says_so() -> None:
    decision = decide(ActionOperation(action=Action.RESUME), item("b", **IN_WINDOW))
    assert decision.outcome == "resumed (window freeze is left out until the next beginning)"
    assert dict(decision.patch) == {"windowOverrides": [SKIP]}
    simulated = decide(ActionOperation(action=Action.RESUME, simulates=True), item("b", **IN_WINDOW))
    assert dict(simulated.patch) == {"windowOverrides": [SKIP], "inWindow": None}


def test_resume_ends_the_stop_of_the_spec_and_the_windows_in_one_edit() -> None:
    held = item("b", stopPolicy="HoldAndDrain", reason="disks", **IN_WINDOW)
    found = patch(Action.RESUME, held)
    assert (found["stopPolicy"], found["reason"], found["windowOverrides"]) == ("None", None, [SKIP])


def test_resume_touches_no_window_of_an_ancestor_and_no_other_action_touches_one() -> None:
    above = item("a", **IN_WINDOW)
    assert decide(ActionOperation(action=Action.RESUME), item("b", parent="a"), above).patch == {}
    for action in set(Action) - {Action.RESUME}:
        assert "windowOverrides" not in patch(action, above)
