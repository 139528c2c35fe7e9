"""The pages on states, stops and statuses say what the code does, cell by cell."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from typing import NamedTuple

import pytest

from cluster.coordination.leases import LEASE_SECONDS
from cluster.inflight.binds import REQUEST_SECONDS
from cluster.objects import QueueStatus, StopStatus
from controller.events import DRAIN_EVENTS
from controller.pods.pod_conditions import EVENT_REASONS
from controller.stops.resume_at import AUTHOR
from queues import namespace_access, namespace_binding, well_known
from queues.causes import Cause, CauseKind
from queues.drain.progress import DRAINED
from queues.fields.table import FIELDS
from queues.messages import remedy_command
from queues.queue import Queue
from queues.states import ACTIONS, Action, Desired, State, StopPolicy
from queues.status import changes
from queues.status.conditions import (
    ACCEPTING,
    ACTIVE,
    not_acknowledged_condition,
)
from queues.status.policy_condition import POLICY_RESOLVED
from queues.tree import Tree
from queues.verdict import Verdict, verdict
from tests.support.docs.pages import (
    Row,
    read,
    tables_of,
    text_of,
    yes,
)
from tests.support.rules.abilities import abilities

PAGE = text_of(
    "concepts/states.md",
    "concepts/stops.md",
    "concepts/namespaces.md",
    "reference/status.md",
    "reference/commands.md",
)
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def tables(section: str) -> list[list[Row]]:
    return tables_of(PAGE, section)


class Case(NamedTuple):
    """A queue under another, with all that its verdict depends on."""

    own: Desired
    above: Desired
    policy: StopPolicy
    broken: bool
    live: bool

    @property
    def asked(self) -> set[Desired]:
        return {self.own, self.above}

    @property
    def verdict(self) -> Verdict:
        queues = (
            Queue(name="root", parent=None),
            Queue(name="above", parent="gone" if self.broken else "root", desired=self.above),
            Queue(name="it", parent="above", desired=self.own, stop_policy=self.policy),
        )
        tree = Tree({queue.name: queue for queue in queues})
        return verdict("it", tree=tree, live=self.live, now=NOW)


CASES = [Case(*each) for each in product(Desired, Desired, StopPolicy, (False, True), (False, True))]
OPEN = Case(Desired.OPEN, Desired.OPEN, StopPolicy.NONE, broken=False, live=True)

RULE: dict[str, Callable[[Case], bool]] = {
    "it asks to be Open, and its chain of parents is broken": lambda case: (
        case.own is Desired.OPEN and case.broken
    ),
    "it or an ancestor asks to be Closed, and nothing is live in it or below it": lambda case: (
        Desired.CLOSED in case.asked and not case.live
    ),
    "it or an ancestor asks to be Suspended": lambda case: Desired.SUSPENDED in case.asked,
    "it or an ancestor asks to be Closed": lambda case: Desired.CLOSED in case.asked,
    "otherwise": lambda case: True,
}
UNLESS: dict[str, Callable[[Case], bool]] = {
    "it or an ancestor asks to be Closed, or the chain of parents is broken": lambda case: (
        Desired.CLOSED in case.asked or case.broken
    ),
    "it or an ancestor asks to be Suspended or has a stop policy, or the chain of parents is broken": (
        lambda case: Desired.SUSPENDED in case.asked or case.policy is not StopPolicy.NONE or case.broken
    ),
}


def state_of(rows: list[Row], case: Case) -> str:
    """The second cell of the first row that holds of the case."""
    return next(row[1] for row in rows if RULE[row[0]](case))


def test_each_state_has_its_abilities() -> None:
    """All states in their order, all five columns."""
    told = {row[0]: row[1:] for row in tables("States")[0]}
    assert told == {state.value: [yes(one) for one in abilities(state)] for state in State}


def test_the_rule_of_the_states_is_the_verdicts() -> None:
    """The first row that holds is the state, whatever the queue, its ancestor and its members are."""
    rows = tables("States")[1]
    for case in CASES:
        assert state_of(rows, case) == case.verdict.state, case
    assert [row[0] for row in rows] == list(RULE)


@pytest.mark.parametrize("question", ["accepts", "schedules"])
def test_the_two_questions_are_answered_as_by_the_verdict(question: str) -> None:
    """Each apart from the state's name."""
    told = {row[0]: row[1] for row in tables("States")[2]}
    assert told.keys() == {"accepts", "schedules"}
    for case in CASES:
        assert UNLESS[told[question]](case) is not getattr(case.verdict, question), case


def test_each_action_has_its_row() -> None:
    """Cell by cell, the states in their order."""
    told = {row[0]: row[1:] for row in tables("Actions")[0]}
    assert told == {
        action.value: [str(ACTIONS[action][state] or "nothing") for state in State] for action in Action
    }


def test_each_stop_policy_has_its_row() -> None:
    """Nominations go where nothing is scheduled; what runs goes where the verdict drains."""
    rows = tables("Stop policies")[0]
    assert [row[0] for row in rows] == [policy.value for policy in StopPolicy]
    for name, scheduled, reservations, running in rows:
        found = OPEN._replace(policy=StopPolicy(name)).verdict
        assert (scheduled, found.state) == (yes(found.schedules), State.OPEN)
        assert reservations == ("stay" if found.schedules else "are cancelled")
        assert running == ("is evicted, but for what stays by rule" if found.drains else "goes on")


def test_the_times_are_those_of_the_code() -> None:
    """Six seconds and a minute."""
    assert (LEASE_SECONDS, REQUEST_SECONDS) == (6, 60.0)


#: A queue of each cause; for a PodGroup that is not there nobody asks a queue.
CAUSED: dict[CauseKind, Verdict] = {
    CauseKind.SUSPENDED: OPEN._replace(own=Desired.SUSPENDED).verdict,
    CauseKind.STOPPED: OPEN._replace(policy=StopPolicy.HOLD).verdict,
    CauseKind.CLOSED: OPEN._replace(own=Desired.CLOSED).verdict,
    CauseKind.TERMINATING: verdict(
        "it", tree=Tree({"it": Queue(name="it", terminating=True)}), live=True, now=NOW
    ),
    CauseKind.BROKEN: OPEN._replace(broken=True).verdict,
    CauseKind.NOT_FOUND: verdict("missing", tree=Tree({}), live=False, now=NOW),
}


def test_each_cause_has_its_row() -> None:
    """What it does to the queue, the event that tells of it, and what to type."""
    rows = {row[0]: row[1:] for row in tables("Causes")[0]}
    assert list(rows) == [why.value for why in CauseKind]
    for why in CauseKind:
        schedules, accepts, event, way_out = rows[why.value]
        stops = schedules == "no"
        assert event == (EVENT_REASONS[why] if stops else "none")
        if why is CauseKind.NOT_SELECTED:
            assert (schedules, accepts) == ("no", "no")  # tests/queues/test_namespace_access.py shows both
            continue
        assert way_out.replace("NAME", "it") == remedy_command(Cause(kind=why, queue="it", by="it"))
        if why is CauseKind.NO_PODGROUP:
            assert (schedules, accepts) == (
                "no",
                "yes",
            )  # tests/webhooks/pods/test_pod_admission.py
            continue
        found = CAUSED[why]
        assert (schedules, accepts) == (yes(found.schedules), yes(found.accepts))
        assert why in {cause.kind for cause in (found.stop, found.refusal) if cause}


def test_each_event_on_queues_and_commands_is_told_of() -> None:
    """Those of the reference, no other; and the fields and conditions that are named are there."""
    reference = read(text_of("reference/events.md"))[0]
    rows = tables("What is written where")[0]
    told = {name for row in rows for name in row[2].split(", ") if name}
    assert told <= {row[0] for row in reference}
    ours = {row[0] for row in reference if {"queues", "Commands"} & set(row[1].split(", "))}
    assert ours <= told | set(re.findall(r"`(\w+)`", PAGE))
    assert {*Action, *(f"Queue{state}" for state in State)} <= told
    assert {f"{ACTIVE}True", f"{ACTIVE}False"} <= told
    assert set(DRAIN_EVENTS.values()) <= told
    places = " ".join(row[1] for row in rows)
    assert set(re.findall(r"`status\.(\w+)`", places)) <= set(QueueStatus.__struct_fields__)
    assert set(re.findall(r"condition `(\w+)`", places)) == {ACTIVE, ACCEPTING, DRAINED, POLICY_RESOLVED}
    assert f"`{well_known.SUSPENDED}`" in places


def test_each_field_of_the_stop_in_a_status_is_told() -> None:
    [fields, *_] = tables("When a stop holds")
    assert {row[0] for row in fields} == {to_camel(each) for each in StopStatus.__struct_fields__}
    assert f"`{not_acknowledged_condition(OPEN.verdict).reason}`" in PAGE


def to_camel(field: str) -> str:
    first, *more = field.split("_")
    return first + "".join(map(str.capitalize, more))


def test_each_field_whose_changes_are_kept_is_named() -> None:
    """In the order of the history, with how many are kept and who undoes a stop in time."""
    fields = [row.name for row in FIELDS if row.history]
    what, where, _ = tables("What is written where")[0][0]
    assert re.findall(r"\w+", what.partition(" is ")[0].replace(" or ", " ")) == fields
    assert f"the last {changes.HISTORY_LIMIT}, " in where
    assert f"`{AUTHOR}`" in PAGE


def test_the_tables_of_bound_namespaces_are_the_rules() -> None:
    """Word for word; `tests/webhooks/test_binding_namespaces.py` holds each row."""
    page = text_of("operating/keep-users-apart.md")
    assert tables_of(page, "Bind a namespace to its queue") == read(namespace_binding.__doc__ or "")


def test_the_table_of_namespaces_is_the_rules() -> None:
    """Word for word; `tests/webhooks/test_namespaces_not_selected.py` and `tests/cluster` hold each row."""
    assert tables("Whose namespaces may use a queue") == read(namespace_access.__doc__ or "")
