"""Frames: what was made from the frame before is what would be made anew, and windows get what differs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_queue.objects.fields import Object, name_of
from kubectl_queue.objects.queues import QueueObjects, queue_of
from kubectl_queue.ui.rows import Frame, QueueRow, difference, first_frame, next_frame
from kubectl_queue.views.problems import Problem
from queues.queue import Queue
from tests.support.plugin.harness import NOW, item, snapshot
from tests.support.ui.farms import (
    IN_WINDOW,
    STOPS,
    WINDOW,
    edited,
    pods,
    random_edits,
    random_farms,
    settled,
    with_fields,
)

END, OVER = "2030-01-01T12:15:00Z", "2030-01-01T11:00:00Z"


def frame(*items: Object) -> Frame:
    return first_frame(snapshot(*items), number=1)


def after(before: Frame, *items: Object, now: Any = NOW) -> Frame:
    """The frame once these are there instead of those of their names."""
    items_now = {**before.queues.items, **{name_of(each): each for each in items}}
    return next_frame(before, items_now, [name_of(each) for each in items], now=now)


@given(
    random_farms,
    st.lists(st.tuples(st.lists(random_edits, max_size=2), st.sampled_from([0, 0, 20, 11 * 60])), max_size=4),
)
def test_a_frame_made_from_the_one_before_is_one_made_anew(
    items: dict[str, Object], steps: list[tuple[list[tuple[str, Any]], int]]
) -> None:
    """Over random trees and edits, with cycles and missing parents, while stops end and days begin."""
    shown, now = frame(*items.values()), NOW
    for edits, minutes in steps:
        now += timedelta(minutes=minutes)
        for name, what in edits:
            items = edited(items, name, what)
        shown = next_frame(shown, items, {name for name, _ in edits}, now=now)
        anew = first_frame(QueueObjects(items.values(), now=now), number=1)
        assert shown.rows == anew.rows
        assert list(shown.rows) == list(anew.rows)


@pytest.mark.parametrize(
    "field", [{}, {"reason": "audit"}, {"resumeAt": END}, {"resumeAt": OVER}, {"parent": "c"}, {"weight": 2}]
)
@pytest.mark.parametrize("then", STOPS)
def test_whatever_stops_a_queue_in_place_of_what_did_those_below_it_are_made_anew(
    then: dict[str, Any], field: dict[str, Any]
) -> None:
    """Two of those below it: one is stopped itself, as its status has it for the specs before."""
    for first in STOPS:
        above = item("a", **with_fields(first))
        below = item("b", parent="a"), item("stopped", parent="a", stopPolicy="Hold")
        items = settled([item("root"), item("c", state="Suspended"), above, *below])
        newer = edited(items, "a", {**then, **field})
        before, now = frame(*items.values()), NOW + timedelta(minutes=1)
        anew = first_frame(QueueObjects(newer.values(), now=now), number=1)
        assert next_frame(before, newer, ["a"], now=now).rows == anew.rows, first


@given(random_farms, st.lists(random_edits, max_size=4))
def test_whoever_applies_the_differences_shows_the_frame(
    items: dict[str, Object], edits: list[tuple[str, Any]]
) -> None:
    before = frame(*items.values())
    for name, what in edits:
        items = edited(items, name, what)
    newer = frame(*items.values())
    shown: dict[str, QueueRow] = {}
    order: list[str] = []
    for each in (difference(None, before), difference(before, newer)):
        shown = {name: row for name, row in shown.items() if name not in each.gone}
        shown |= {row.name: row for row in each.rows}
        order = list(each.order) if each.order is not None else order
    assert shown == newer.rows
    assert order == list(newer.rows)


def test_a_count_changes_the_rows_of_its_queue_and_of_those_above_it_alone() -> None:
    before = frame(item("root"), item("a"), item("b", parent="a"), item("c"))
    newer = after(before, item("b", parent="a", status=pods(7)))
    change = difference(before, newer)
    assert {row.name: row.pending for row in change.rows} == {"root": 7, "a": 7, "b": 7}
    assert newer.rows["c"] is before.rows["c"]
    assert change.order is None


def made_again(before: Frame, newer: Frame) -> set[str]:
    """The queues whose rows were made, be they the same or not."""
    return {name for name, row in newer.rows.items() if before.rows.get(name) is not row}


#: 2,000 queues in 40 teams of 49.
MANY = (
    item("root"),
    *(item(f"team-{team}") for team in range(40)),
    *(item(f"team-{team}-q-{number}", parent=f"team-{team}") for team in range(40) for number in range(49)),
)
TEAM = {"team-3", *(f"team-3-q-{number}" for number in range(49))}
LEAF = "team-3-q-7"


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        (LEAF, {"parent": "team-3", "state": "Suspended"}, {LEAF, "team-3", "root"}),
        (LEAF, {"parent": "team-3", "weight": 7}, {LEAF, "team-3", "root"}),
        (LEAF, {"parent": "team-4"}, {LEAF, "team-3", "team-4", "root"}),
        ("team-3", {"stopPolicy": "Hold"}, {*TEAM, "root"}),
        ("team-3", {"weight": 7}, {"team-3", "root"}),
        ("team-3", {"parent": "team-4"}, {*TEAM, "team-4", "root"}),
        ("new", {"parent": "team-3"}, {"new", "team-3", "root"}),
        ("root", {"weight": 7}, {"root"}),
        ("root", {"state": "Suspended"}, {name_of(each) for each in MANY}),
    ],
)
def test_an_edit_has_those_rows_made_again_that_it_concerns(
    name: str, spec: dict[str, Any], expected: set[str]
) -> None:
    """Of 2,001: the queue, those above it, which count it, and those below it where they inherit."""
    before = frame(*MANY)
    newer = after(before, item(name, generation=2, **spec))
    assert made_again(before, newer) == expected


def test_an_edit_above_a_stop_has_the_rows_made_again_that_wait_for_its_acknowledgement() -> None:
    before = frame(item("root"), item("a"), item("b", parent="a", state="Suspended"), item("c", parent="a"))
    newer = after(before, item("a", generation=2, weight=7))
    assert made_again(before, newer) == {"root", "a", "b"}


def test_a_queue_that_goes_has_those_rows_made_again_that_counted_it_and_that_stood_below_it() -> None:
    before = frame(item("root"), item("a"), item("b", parent="a"), item("c"))
    items = {name: each for name, each in before.queues.items.items() if name != "a"}
    newer = next_frame(before, items, ["a"], now=NOW)
    assert made_again(before, newer) == {"root", "b"}
    assert newer.rows["b"].problem is Problem.BROKEN


def test_the_specs_that_have_not_changed_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before, read = frame(*MANY), list[str]()

    def count(each: Object) -> Queue:
        read.append(name_of(each))
        return queue_of(each)

    monkeypatch.setattr("kubectl_queue.objects.queues.queue_of", count)
    newer = after(before, item(LEAF, parent="team-3", generation=2, state="Suspended"))
    assert read == [LEAF]
    kept = [name for name in newer.rows if name != LEAF]
    assert all(
        newer.queues.decisions.decision(name) is before.queues.decisions.decision(name) for name in kept
    )


def test_a_day_that_begins_changes_how_the_end_of_a_window_is_written() -> None:
    ends = {**IN_WINDOW, "until": "2030-01-02T04:00:00Z"}
    before = frame(item("root"), item("a", windows=[WINDOW], inWindow=[ends]), item("b"))
    assert "Wed 2 Jan 05:00 CET" in before.rows["a"].cause
    newer = next_frame(before, before.queues.items, [], now=NOW + timedelta(hours=11))
    assert "until 05:00 CET" in newer.rows["a"].cause
    assert newer.rows["b"] is before.rows["b"]


def test_a_stop_that_has_ended_by_itself_is_a_change_though_nothing_was_written() -> None:
    held = item("a", state="Suspended", resumeAt="2030-01-01T12:00:30Z")
    before = frame(item("root"), held)
    assert before.rows["a"].state == "Suspended"
    assert next_frame(before, before.queues.items, [], now=NOW + timedelta(seconds=29)) is before
    ended = next_frame(before, before.queues.items, [], now=NOW + timedelta(seconds=30))
    assert ended.rows["a"].state == "Open"


def test_the_problem_of_a_row_is_the_most_pressing_one() -> None:
    conditions = [{"type": "Drained", "status": "False", "reason": "Blocked", "observedGeneration": 1}]
    shown = frame(
        item("root"),
        item("waits", state="Suspended", status={**pods(0), "stop": {"acknowledged": False}}),
        item("lost", parent="nowhere", status=pods(0)),
        item("blocked", stopPolicy="HoldAndDrain", status={**pods(0), "conditions": conditions}),
        item("well", status=pods(0)),
    ).rows
    assert {name: row.problem for name, row in shown.items()} == {
        "root": None,
        "waits": Problem.NOT_ACKNOWLEDGED,
        "lost": Problem.BROKEN,
        "blocked": Problem.BLOCKED,
        "well": None,
    }


def test_rows_go_over_the_wire_by_the_names_that_the_script_reads() -> None:
    row = msgspec.to_builtins(frame(item("root")).rows["root"])
    assert set(row) == {
        *("name", "parent", "state", "stopPolicy", "pending", "running", "quota", "cause"),
        *("drained", "stopPending", "problem"),
    }
