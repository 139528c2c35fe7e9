"""Frames: what was made from the frame before is what would be made anew, and windows get what differs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kubectl_queue.objects.fields import Object, name_of
from kubectl_queue.ui.rows import Frame, Row, difference, first_frame, next_frame
from kubectl_queue.views.problems import Problem
from tests.support.plugin.harness import NOW, item, snapshot

NAMES = ("root", "a", "b", "c", "d")


def frame(*items: Object) -> Frame:
    return first_frame(snapshot(*items), number=1)


def after(before: Frame, *items: Object, now: Any = NOW) -> Frame:
    """The frame once these are there instead of those of their names."""
    merged = {**before.queues.items, **{name_of(each): each for each in items}}
    return next_frame(before, merged, [name_of(each) for each in items], now=now)


def pods(pending: int) -> dict[str, Any]:
    return {"pods": {"pending": pending, "running": 0}, "state": "Open", "observedGeneration": 1}


objects = st.builds(
    lambda name, parent, state, policy, pending, stop: item(
        name,
        **({"parent": parent} if name != "root" else {}),
        state=state,
        stopPolicy=policy,
        status={**pods(pending), **({"stop": {"acknowledged": stop}} if stop is not None else {})},
    ),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(["Open", "Suspended", "Closed"]),
    st.sampled_from(["None", "Hold", "HoldAndDrain"]),
    st.integers(0, 3),
    st.sampled_from([None, False]),
)


@given(st.lists(objects, max_size=8), st.lists(objects, max_size=8))
def test_a_frame_made_from_the_one_before_is_one_made_anew(first: list[Object], then: list[Object]) -> None:
    before = frame(item("root"), *first)
    newer = after(before, *then)
    assert newer.rows == frame(*newer.queues.items.values()).rows


@given(st.lists(objects, max_size=8), st.lists(objects, max_size=8))
def test_whoever_applies_the_differences_shows_the_frame(first: list[Object], then: list[Object]) -> None:
    before, newer = frame(*first), frame(*then)
    shown: dict[str, Row] = {}
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
        *("name", "parent", "state", "stopPolicy", "pending", "running", "cause", "drained"),
        *("stopPending", "problem"),
    }
