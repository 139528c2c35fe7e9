"""Conditions of queues and of PodGroups: times, types of others, and the form in which they are written."""

from __future__ import annotations

from cluster.objects import Condition
from controller.status.conditions import updated_conditions, wire_conditions
from queues.status.conditions import DerivedCondition
from tests.support.cases import each_case
from tests.support.rules.cases import NOW

LONG_AGO, NOW_TEXT = "2029-01-01T00:00:00Z", "2030-01-01T12:00:00Z"


def stored(
    kind: str, status: str = "True", *, since: str | None = LONG_AGO, transition_id: str = ""
) -> Condition:
    return Condition(
        type=kind,
        status=status,
        reason="Before",
        last_transition_time=since,
        transition_id=transition_id,
    )


def derived(kind: str, status: bool | None = True) -> DerivedCondition:
    return DerivedCondition(kind, status, "Now", "now")


@each_case(
    ("before", "status", "since"),
    [
        ([], True, NOW_TEXT),
        ([stored("Active")], True, LONG_AGO),
        ([stored("Active")], False, NOW_TEXT),
        ([stored("Active")], None, NOW_TEXT),
        ([stored("Active", "Unknown")], None, LONG_AGO),
        ([stored("Active", since=None)], True, NOW_TEXT),
        ([stored("Accepting")], True, NOW_TEXT),
    ],
    ids=["new", "same", "other", "unknown", "unknown before", "without a time", "of another type"],
)
def test_the_time_changes_with_the_status_alone(
    before: list[Condition], status: bool | None, since: str
) -> None:
    conditions = updated_conditions(before, [derived("Active", status)], now=NOW, generation=3)
    [active] = [one for one in conditions if one.type == "Active"]
    expected = {True: "True", False: "False", None: "Unknown"}[status]
    assert (active.status, active.reason, active.message) == (expected, "Now", "now")
    assert (active.observed_generation, active.last_transition_time) == (3, since)


def test_conditions_of_other_types_stay_as_they_are_and_all_are_sorted() -> None:
    """Also where a type occurs twice, which the definition of PodGroups does not rule out."""
    others = [stored("Unschedulable", transition_id="b"), stored("Unschedulable", transition_id="a")]
    conditions = updated_conditions([*others, stored("Scheduled")], [derived("Scheduled")], now=NOW)
    assert [one.type for one in conditions] == ["Scheduled", "Unschedulable", "Unschedulable"]
    assert conditions[1:] == others


def test_without_derived_conditions_nothing_changes() -> None:
    before = [stored("Active"), stored("Drained")]
    assert updated_conditions(before, [], now=NOW) == before


def test_an_empty_field_is_left_out_unless_it_is_required() -> None:
    conditions = [Condition(type="Active", status="True")]
    assert wire_conditions(conditions) == [{"type": "Active", "status": "True"}]
    [required] = wire_conditions(conditions, keep_empty=True)
    assert (required["reason"], required["message"], "transitionID" in required) == ("", "", False)


def test_whatever_the_order_in_which_they_are_stored_they_are_written_by_type() -> None:
    """So the order of another writer is no difference."""
    some = [stored("Populated"), stored("Active"), stored("Scheduled")]
    assert wire_conditions(some) == wire_conditions(reversed(some))
