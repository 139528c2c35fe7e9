"""All that a queue and its parent may ask for, as values: what both tell, and what a pod is told."""

from __future__ import annotations

import re

import pytest

from queues.messages import refusal_text, waiting_warning
from queues.queue import Queue
from queues.states import Desired, StopPolicy
from queues.status.conditions import accepting_condition, active_condition
from queues.verdict import Verdict
from tests.support.rules.cases import asked, line, queue
from tests.support.rules.stop_tables import (
    ABOVE,
    ALL,
    OWN,
    PAIRWISE,
    POLICY,
    STATE,
    Told,
    Wishes,
    pairs_of,
    wanted,
)

NAMES = {OWN: "below", ABOVE: "team", "": ""}
LIVE = pytest.mark.parametrize("live", [False, True], ids=["empty", "live"])


def asking(name: str, state: str, policy: str) -> Queue:
    return queue(name, desired=Desired(state), stop_policy=StopPolicy(policy))


def decided(wishes: Wishes, name: str, *, live: bool) -> Verdict:
    team, below = asking("team", *wishes[2:]), asking("below", *wishes[:2])
    return asked(line(team, below), name, live=live)


def told_by(verdict: Verdict) -> Told:
    active, accepting = active_condition(verdict), accepting_condition(verdict)
    reopened = re.search(r"kubectl queue open ([^\s;]+)", accepting.message)
    assert (accepting.status, accepting.reason) == ((False, "Closed") if reopened else (True, "Open"))
    return Told(
        state=verdict.state,
        active=(str(active.status), active.reason, active.message),
        closed_by=reopened[1] if reopened else "",
        drained=("True", "Drained") if verdict.drains else ("", ""),
    )


@LIVE
def test_queue_and_parent_tell_what_the_tables_say(live: bool) -> None:
    """The parent as one without a parent of its own. An empty queue that drains is drained."""
    for wishes in ALL:
        assert told_by(decided(wishes, "below", live=live)) == wanted(wishes, NAMES, live=live), wishes
        parent = wanted(wishes.of_the_parent, {OWN: "team", "": ""}, live=live)
        assert told_by(decided(wishes, "team", live=live)) == parent, wishes


@LIVE
def test_a_pod_is_refused_or_warned_or_just_taken(live: bool) -> None:
    """By the name of whoever is to be reopened or resumed."""
    for wishes in ALL:
        verdict = decided(wishes, "below", live=live)
        _, _, suspended_by, closed_by = STATE[wishes.states]
        stopped_by = suspended_by or POLICY[wishes.policies][1]
        assert (verdict.accepts, verdict.schedules) == (not closed_by, not stopped_by), wishes
        if closed_by:
            assert verdict.refusal is not None
            text = refusal_text(verdict.refusal, state=verdict.state)
            assert "takes no new pods" in text, wishes
            assert text.endswith(f"reopen it with: kubectl queue open {NAMES[closed_by]}"), wishes
        if stopped_by:
            assert verdict.stop is not None
            warning = waiting_warning(verdict.stop)
            resumed = "it" if stopped_by == OWN else f'"{NAMES[stopped_by]}"'
            assert warning.endswith(f"an admin of queues can resume {resumed}"), wishes


def test_these_are_all_and_every_two_wishes_are_together_in_few() -> None:
    """Those few are asked for on a cluster."""
    assert len(set(ALL)) == len(ALL) == 81
    assert set().union(*map(pairs_of, PAIRWISE)) == set().union(*map(pairs_of, ALL))
