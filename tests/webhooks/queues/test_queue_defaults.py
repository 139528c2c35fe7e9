"""`/mutate/queues`: defaults, spellings, the stop that `resumeAt` and `reason` belong to, and the history."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.cases import each_case, with_new
from tests.support.http.asking import (
    OWN,
    Said,
    Server,
)
from tests.support.http.wire_objects import Wire, queue
from tests.support.rules.cases import HOSTILE, MODEST
from tests.support.webhooks.json_patch import applied

CHANGES = "sluice.dev/changes"
BEHALF = "sluice.dev/on-behalf-of"
LATER = "2030-06-01T00:00:00Z"
NOW = "2030-01-01T12:00:00Z"


@pytest.fixture
def server() -> Server:
    return Server()


def created(server: Server, obj: Wire) -> Wire:
    return mutated(server, obj, operation="CREATE")


def edited(server: Server, before: Wire, after: Wire, **request: Any) -> Wire:
    return mutated(server, after, old=before, operation="UPDATE", **request)


def mutated(server: Server, obj: Wire, **request: Any) -> Wire:
    answer = server.ask("/mutate/queues", obj, **request)
    assert answer.allowed, answer.message
    result: Wire = applied(answer.patch, obj)
    return result


def with_spec(of: Wire, **spec: object) -> Wire:
    """Fields that are `...` are left out."""
    kept = {key: value for key, value in {**of["spec"], **spec}.items() if value is not ...}
    return {**of, "spec": kept}


def history(of: Wire) -> list[dict[str, str]]:
    text = (of["metadata"].get("annotations") or {}).get(CHANGES, "[]")
    read: list[dict[str, str]] = json.loads(text)
    return read


# A new queue


@each_case(
    ("status", "state"),
    [
        ({}, "Open"),
        ({"state": "Open"}, "Open"),
        ({"state": "Closed"}, "Closed"),
        ({"state": "Closing"}, "Closed"),
        ({"state": "Suspended"}, "Suspended"),
        ({"state": "Unknown"}, "Open"),
        ({"state": None}, "Open"),
        (None, "Open"),
    ],
    ids=str,
)
@with_new(server=Server)
def test_the_state_that_vcctl_writes_becomes_what_is_desired(
    server: Server, status: Wire | None, state: str
) -> None:
    before = {**with_spec(queue("research"), state=...), "status": status}
    assert created(server, before)["spec"]["state"] == state


@each_case(("state", "shown"), [("wrong", "wrong"), ("closed", "closed"), (5, "5")])
@with_new(server=Server)
def test_a_word_of_vcctl_that_is_no_state_is_refused_with_those_that_are(
    server: Server, state: object, shown: str
) -> None:
    """`vcctl queue create -S wrong` made an Open queue, and said nothing."""
    answer = server.ask(
        "/mutate/queues", {**with_spec(queue("research"), state=...), "status": {"state": state}}
    )
    known = "use one of Open, Suspended, Closed"
    assert (answer.code, answer.message) == (422, f'status.state: "{shown}" is not known; {known}')


@each_case("state", ["Open", "Suspended", "Closed"])
@with_new(server=Server)
def test_a_state_in_spec_stays(server: Server, state: str) -> None:
    before = {**queue("research", state=state), "status": {"state": "Closed"}}
    assert created(server, before)["spec"]["state"] == state


@each_case("spec", [None, {}, ...], ids=["null", "empty", "absent"])
@with_new(server=Server)
def test_a_queue_that_says_nothing_is_open_under_root(server: Server, spec: Any) -> None:
    before = {key: value for key, value in {**queue("research"), "spec": spec}.items() if value is not ...}
    assert created(server, before)["spec"] == {"state": "Open", "parent": "root"}


def test_root_gets_no_parent(server: Server) -> None:
    assert "parent" not in created(server, with_spec(queue("root"), parent=...))["spec"]


def test_what_else_is_in_spec_is_left_as_it_is(server: Server) -> None:
    before = with_spec(queue("research"), state=..., parent=..., weight=3, capability={"cpu": "1"}, extra=[1])
    after = created(server, before)["spec"]
    assert after == {"weight": 3, "capability": {"cpu": "1"}, "extra": [1], "state": "Open", "parent": "root"}


def test_the_seeds_spelling_of_the_policy_means_the_same(server: Server) -> None:
    assert created(server, queue("research", SchedulerPolicy="batch"))["spec"]["schedulerPolicy"] == "batch"


def test_the_seeds_spelling_means_the_same_in_an_edit_too(server: Server) -> None:
    """Whoever applies the seed's spelling again, changed, means the new one."""
    before = created(server, queue("research", SchedulerPolicy="batch"))
    after = edited(server, before, with_spec(before, SchedulerPolicy="batch-2"))
    assert after["spec"]["schedulerPolicy"] == "batch-2"


def test_an_edit_of_scheduler_policy_changes_the_other_spelling_too(server: Server) -> None:
    """Else the two would differ, which the definition refuses, and the field could not be edited."""
    before = created(server, queue("research", SchedulerPolicy="batch"))
    after = edited(server, before, with_spec(before, schedulerPolicy="batch-2"))
    assert (after["spec"]["schedulerPolicy"], after["spec"]["SchedulerPolicy"]) == ("batch-2", "batch-2")


def test_scheduler_policy_wins_over_the_other_spelling(server: Server) -> None:
    after = created(server, queue("research", SchedulerPolicy="other", schedulerPolicy="batch"))
    assert after["spec"]["schedulerPolicy"] == "batch"


@each_case("held", [{CHANGES: "[]", BEHALF: "x", "a": "b"}, {BEHALF: "x"}])
@with_new(server=Server)
def test_a_new_queue_has_no_history_whatever_is_written_on_it(server: Server, held: dict[str, str]) -> None:
    after = created(server, queue("research", annotations=held))
    assert after["metadata"]["annotations"].items() == {"a": "b"}.items() & held.items()


def test_a_close_below_a_stopped_queue_says_what_still_stops_it(server: Server) -> None:
    before = queue("imaging", state="Suspended")
    server.has(queue("root", state="Suspended"), before)
    after = with_spec(before, state="Closed")
    [text] = server.ask("/mutate/queues", after, old=before, operation="UPDATE").warnings
    assert 'what waits in it will run once queue "root" no longer stops it;' in text


def test_a_second_pass_through_the_webhook_changes_nothing(server: Server) -> None:
    once = created(server, {"kind": "Queue", "metadata": {"name": "q"}, "status": {"state": "Closed"}})
    assert server.ask("/mutate/queues", once).patch == []


@each_case(
    ("spec", "place"),
    [
        ({"state": "Closing"}, 'spec.state: "Closing" is not known; use one of Open, Suspended, Closed'),
        (
            {"stopPolicy": "Drain"},
            'spec.stopPolicy: "Drain" is not known; use one of None, Hold, HoldAndDrain',
        ),
        ({"state": 5}, "spec.state"),
        ({"stopPolicy": []}, "spec.stopPolicy"),
        ({"parent": ["root"]}, "spec.parent"),
        ({"resumeAt": "tomorrow"}, "spec.resumeAt"),
        ({"reason": {}}, "spec.reason"),
    ],
    ids=str,
)
@with_new(server=Server)
def test_what_no_field_may_be_is_refused_by_its_name(server: Server, spec: Wire, place: str) -> None:
    answer = server.ask("/mutate/queues", with_spec(queue("research"), **spec))
    assert (answer.allowed, answer.code) == (False, 422)
    assert place in answer.message


@each_case("field", ["state", "stopPolicy"])
@with_new(server=Server)
def test_an_unknown_value_is_shown_on_one_line_and_cut(server: Server, field: str) -> None:
    answer = server.ask("/mutate/queues", with_spec(queue("research"), **{field: "x\n\u202e" * 100_000}))
    assert not answer.allowed
    assert len(answer.message) < 500
    assert answer.message.isprintable()


def test_a_queue_stored_with_an_unknown_value_can_be_corrected(server: Server) -> None:
    """An older CRD may have let it in; only an edit gets it out."""
    before = queue("research", state="Halted")
    assert edited(server, before, with_spec(before, state="Open"))["spec"]["state"] == "Open"


@each_case("field", ["parent", "schedulerPolicy"])
@each_case("wrong", [[], {}, False, 0], ids=str)
@with_new(server=Server)
def test_a_wrong_type_is_not_taken_for_nothing(server: Server, field: str, wrong: object) -> None:
    """It is left as it is, for the API server to refuse."""
    obj = queue("research", SchedulerPolicy="batch")
    answer = server.ask("/mutate/queues", {**obj, "spec": {**obj["spec"], field: wrong}}, operation="CREATE")
    assert not answer.allowed or f"/spec/{field}" not in [step["path"] for step in answer.patch]


# resumeAt and reason belong to the stop they were set with


STOP: dict[str, Any] = {"state": "Suspended", "resumeAt": LATER, "reason": "disks"}


@each_case(
    "change",
    [{"state": "Open"}, {"state": "Closed"}, {"stopPolicy": "Hold"}, {"state": "Open", "stopPolicy": "Hold"}],
    ids=str,
)
@with_new(server=Server)
def test_a_change_of_the_stop_clears_the_fields_of_the_former_stop(server: Server, change: Wire) -> None:
    before = queue("research", **STOP)
    after = edited(server, before, with_spec(before, **change))
    assert "resumeAt" not in after["spec"]
    assert "reason" not in after["spec"]


@each_case("field", ["resumeAt", "reason"])
@with_new(server=Server)
def test_a_change_that_sets_them_keeps_what_it_sets(server: Server, field: str) -> None:
    before = queue("research", **STOP)
    new = {"resumeAt": "2031-01-01T00:00:00Z", "reason": "network"}[field]
    after = edited(server, before, with_spec(before, stopPolicy="Hold", **{field: new}))
    other = ({"resumeAt", "reason"} - {field}).pop()
    assert after["spec"][field] == new
    assert other not in after["spec"]


@each_case(
    "change",
    [{"parent": "other"}, {"weight": 5}, {"state": "Suspended"}, {"stopPolicy": "None"}, {"resumeAt": LATER}],
    ids=str,
)
@with_new(server=Server)
def test_any_other_edit_leaves_them(server: Server, change: Wire) -> None:
    before = queue("research", **STOP)
    after = edited(server, before, with_spec(before, **change))
    assert {key: after["spec"][key] for key in STOP} == STOP


def test_a_field_that_is_set_with_the_new_stop_is_kept(server: Server) -> None:
    before = queue("research")
    assert edited(server, before, queue("research", **STOP))["spec"].items() >= STOP.items()


@each_case("absent", [None, ..., ""], ids=["null", "absent", "empty"])
@with_new(server=Server)
def test_removing_them_by_hand_is_no_fault(server: Server, absent: Any) -> None:
    before = queue("research", **STOP)
    after = edited(server, before, with_spec(before, state="Open", resumeAt=..., reason=absent))
    assert not after["spec"].get("reason")


@each_case("absent", [None, ...], ids=["null", "absent"])
@with_new(server=Server)
def test_an_edit_that_removes_the_state_makes_it_open_in_words(server: Server, absent: Any) -> None:
    """Absent, it would be that of a queue which Volcano may have closed."""
    before = queue("research", state="Closed", status={"conditions": []})  # which a patch leaves
    after = edited(server, before, with_spec(before, state=absent))
    assert after["spec"]["state"] == "Open"
    assert [line["to"] for line in history(after)] == ["Open"]


def test_an_edit_of_a_queue_that_never_had_a_state_gives_it_none(server: Server) -> None:
    before = with_spec(queue("research"), state=...)
    assert "state" not in edited(server, before, with_spec(before, weight=5))["spec"]


# The history


@each_case(
    ("change", "line"),
    [
        ({"state": "Suspended"}, {"field": "state", "from": "Open", "to": "Suspended"}),
        ({"stopPolicy": "Hold"}, {"field": "stopPolicy", "from": "None", "to": "Hold"}),
        ({"parent": "labs"}, {"field": "parent", "from": "root", "to": "labs"}),
        ({"resumeAt": LATER}, {"field": "resumeAt", "to": LATER}),
    ],
    ids=["state", "stopPolicy", "parent", "resumeAt"],
)
@with_new(server=Server)
def test_each_change_is_a_line(server: Server, change: Wire, line: dict[str, str]) -> None:
    before = queue("research")
    after = edited(server, before, with_spec(before, reason="disks", **change), user="alice")
    assert history(after) == [{"by": "alice", **line, "reason": "disks", "at": NOW}]


@each_case("change", [{"type": "batch"}, {"reason": "words"}, {"state": "Open"}], ids=str)
@with_new(server=Server)
def test_nothing_else_is(server: Server, change: Wire) -> None:
    before = queue("research")
    assert history(edited(server, before, with_spec(before, **change))) == []


def test_several_changes_at_once_are_as_many_lines(server: Server) -> None:
    before = queue("research")
    after = edited(server, before, with_spec(before, state="Suspended", stopPolicy="Hold", parent="labs"))
    assert [line["field"] for line in history(after)] == ["state", "stopPolicy", "parent"]


def test_a_stop_with_a_time_and_its_end_are_a_line_each(server: Server) -> None:
    before = edited(server, queue("research"), queue("research", **STOP))
    assert [(line["field"], line["until"]) for line in history(before)] == [("state", STOP["resumeAt"])]
    lines = history(edited(server, before, with_spec(before, state="Open")))
    assert [(line["field"], line["to"]) for line in lines] == [("state", "Suspended"), ("state", "Open")]


def test_a_resume_time_that_goes_while_the_queue_stays_stopped_is_a_line(server: Server) -> None:
    before = queue("research", **STOP, stopPolicy="Hold")
    lines = history(edited(server, before, with_spec(before, state="Open")))
    assert [line["field"] for line in lines] == ["state", "resumeAt"]


def test_the_reason_of_the_stop_before_is_not_that_of_the_change_that_cleared_it(server: Server) -> None:
    before = queue("research", **STOP)
    lines = history(edited(server, before, with_spec(before, state="Open")))
    assert "reason" not in lines[0]


def test_the_author_is_the_requests_and_not_what_the_user_wrote(server: Server) -> None:
    forged = json.dumps([{"by": "root", "field": "state", "to": "Closed", "at": NOW}])
    before = queue("research")
    after = queue("research", state="Suspended", annotations={CHANGES: forged, BEHALF: "root", "a": "b"})
    stored = edited(server, before, after, user="mallory")
    assert [line["by"] for line in history(stored)] == ["mallory"]
    assert stored["metadata"]["annotations"].keys() == {CHANGES, "a"}


def test_the_history_cannot_be_removed(server: Server) -> None:
    before = edited(server, queue("research"), queue("research", state="Suspended"), user="alice")
    stripped = {**before, "metadata": {**before["metadata"], "annotations": None}}
    assert history(edited(server, before, stripped, user="mallory")) == history(before)


def test_the_controllers_edit_is_recorded_for_the_user_it_names(server: Server) -> None:
    before = queue("research")
    after = queue("research", state="Suspended", annotations={BEHALF: "alice"})
    stored = edited(server, before, after, user=OWN)
    assert [line["by"] for line in history(stored)] == ["alice"]
    assert BEHALF not in stored["metadata"]["annotations"]


def test_the_controller_alone_writes_for_another(server: Server) -> None:
    after = queue("research", state="Suspended", annotations={BEHALF: "alice"})
    stored = edited(server, queue("research"), after, user="mallory")
    assert [line["by"] for line in history(stored)] == ["mallory"]


def test_the_last_50_lines_are_kept(server: Server) -> None:
    obj = queue("research")
    for number in range(55):
        obj = edited(server, obj, with_spec(obj, parent=f"p-{number}"), user=f"user-{number}")
    assert [line["by"] for line in history(obj)] == [f"user-{number}" for number in range(5, 55)]


@each_case("text", ["", "nonsense", "{}", "[1]", '[{"by":1}]', "[" * 5000, '"\\ud800"'])
@with_new(server=Server)
def test_a_history_that_cannot_be_read_is_begun_anew(server: Server, text: str) -> None:
    before = queue("research", annotations={CHANGES: text})
    after = with_spec(queue("research"), state="Suspended")
    assert [line["field"] for line in history(edited(server, before, after))] == ["state"]


@each_case("name", sorted(HOSTILE.keys() - {"surrogate"}))
@with_new(server=Server)
def test_whatever_a_user_gives_as_reason_is_written_down_as_json(server: Server, name: str) -> None:
    reason = HOSTILE[name]
    stored = edited(server, queue("research"), queue("research", state="Suspended", reason=reason))
    assert [line["field"] for line in history(stored)] == ["state"]


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(["Open", "Suspended", "Closed", None]),
        "stopPolicy": st.sampled_from(["None", "Hold", "HoldAndDrain", None]),
        "resumeAt": st.sampled_from([LATER, "2031-01-01T00:00:00Z", None]),
        "reason": st.sampled_from(["disks", "network", "", None]),
        "parent": st.sampled_from(["root", "labs", "", None]),
        "SchedulerPolicy": st.sampled_from(["batch", None]),
        "schedulerPolicy": st.sampled_from(["other", "", None]),
    },
)
ANNOTATIONS = st.none() | st.dictionaries(
    st.sampled_from([CHANGES, BEHALF, "a"]), st.sampled_from(["", "[]", "x"])
)


@MODEST
@given(before=FIELDS, after=FIELDS, notes=ANNOTATIONS)
@example(before={"stopPolicy": "Hold", "reason": "disks"}, after={"reason": "disks"}, notes=None)
@example(before={"stopPolicy": "Hold", "resumeAt": LATER}, after={"resumeAt": LATER}, notes=None)
def test_any_edit_gives_a_patch_that_applies_and_that_a_second_asking_finds_done(
    before: Wire, after: Wire, notes: dict[str, str] | None
) -> None:
    server = SHARED
    old = {**queue("q"), "spec": before}
    new = {**queue("q"), "spec": after}
    new["metadata"]["annotations"] = notes
    answer: Said = server.ask("/mutate/queues", new, old=old, operation="UPDATE")
    stored = applied(answer.patch, new)
    assert BEHALF not in (stored["metadata"]["annotations"] or {})
    assert stored["spec"]["parent"]
    again = server.ask("/mutate/queues", stored, old=old, operation="UPDATE")
    assert applied(again.patch, stored)["spec"] == stored["spec"]


SHARED = Server()
