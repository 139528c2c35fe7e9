"""The history of a queue: the lines of an edit, which of them are new, and how a line reads."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from queues.fields.table import FIELDS
from queues.node_groups import NodeGroups
from queues.queue import DequeueStrategy, StoppedGuarantee
from queues.states import ParkedPods
from queues.status.changes import (
    HISTORY_LIMIT,
    SETTINGS_LIMIT,
    HistoryLine,
    changes_between,
    describe_change,
    history_text,
    new_changes,
    parse_history,
)
from tests.support.cases import each_case
from tests.support.rules.cases import (
    CLOSED,
    DRAIN,
    HOLD,
    NOW,
    OPEN,
    SECOND,
    SUSPENDED,
    queue,
)

BEFORE = queue("q")

#: what was, what is: field, from, to.
EDITS = [
    ({}, {"desired": SUSPENDED}, ("state", "Open", "Suspended")),
    ({"desired": CLOSED}, {"desired": OPEN}, ("state", "Closed", "Open")),
    ({}, {"stop_policy": DRAIN}, ("stopPolicy", "None", "HoldAndDrain")),
    ({"stop_policy": HOLD}, {}, ("stopPolicy", "Hold", "None")),
    ({}, {"parked": ParkedPods.RECREATE}, ("parked", "", "Recreate")),
    ({"parked": ParkedPods.RECREATE}, {"parked": ParkedPods.KEEP}, ("parked", "Recreate", "Keep")),
    ({"parked": ParkedPods.KEEP}, {}, ("parked", "Keep", "")),
    ({}, {"resume_at": NOW}, ("resumeAt", "", "2030-01-01T12:00:00Z")),
    ({"resume_at": NOW}, {}, ("resumeAt", "2030-01-01T12:00:00Z", "")),
]
#: What pods meet besides stops.
SETTING_EDITS = [
    (
        {"capability": (("cpu", 4), ("memory", 2**33))},
        {"capability": (("cpu", 2),)},
        ("capability", "cpu=4,memory=8Gi", "cpu=2"),
    ),
    ({}, {"capability": (("cpu", 0),)}, ("capability", "", "cpu=0")),
    ({"deserved": (("cpu", Fraction(1, 2)),)}, {}, ("deserved", "cpu=500m", "")),
    ({}, {"guarantee": (("nvidia.com/gpu", 8),)}, ("guarantee", "", "nvidia.com/gpu=8")),
    ({}, {"stopped_guarantee": StoppedGuarantee.LEND}, ("guaranteeWhileStopped", "Keep", "Lend")),
    ({}, {"weight": 3}, ("weight", "1", "3")),
    ({"priority": 5}, {}, ("priority", "5", "0")),
    ({}, {"dequeue": DequeueStrategy.FIFO}, ("dequeueStrategy", "traverse", "fifo")),
    ({"scheduler_policy": "packed"}, {"scheduler_policy": "wide"}, ("schedulerPolicy", "packed", "wide")),
    (
        {"node_groups": NodeGroups(is_bound=True, required=("a", "b"), avoided=("c",))},
        {"node_groups": NodeGroups()},
        ("affinity", "required a,b; avoided c", "any"),
    ),
]


@each_case(("was", "now", "told"), EDITS)
def test_a_change_tells_the_field_and_both_values(
    was: dict[str, Any], now: dict[str, Any], told: tuple[str, str, str]
) -> None:
    """One edit of one field is one line, with who, why and when."""
    field, old, new = told
    assert changes_between(queue("q", **was), queue("q", **now), by="ann", reason="disks", at=NOW) == [
        HistoryLine(by="ann", field=field, from_=old, to=new, reason="disks", at="2030-01-01T12:00:00Z")
    ]


@each_case(("was", "now", "told"), SETTING_EDITS)
def test_what_pods_meet_is_told_too_and_without_the_reason_of_a_stop(
    was: dict[str, Any], now: dict[str, Any], told: tuple[str, str, str]
) -> None:
    field, old, new = told
    assert changes_between(queue("q", **was), queue("q", **now), by="ann", reason="disks", at=NOW) == [
        HistoryLine(by="ann", field=field, from_=old, to=new, at="2030-01-01T12:00:00Z")
    ]


def test_each_field_whose_edit_changes_what_pods_meet_is_recorded() -> None:
    """All that the rules read of a spec; who is told what of a drain is in its own fields."""
    unrecorded = {row.name for row in FIELDS if row.reading and not row.history}
    assert unrecorded == {"reason"}


def test_amounts_of_any_number_are_cut_and_still_differ() -> None:
    many = tuple((f"example.com/device-{number}", 1) for number in range(99))
    before, after = (queue("q", capability=(*many, ("z", last))) for last in (1, 2))
    [told] = changes_between(before, after, by="ann", reason="", at=NOW)
    assert max(len(told.from_), len(told.to)) < 400


def test_who_edits_a_limit_all_the_time_leaves_the_lines_of_a_stop() -> None:
    stop = HistoryLine(by="ann", field="state", from_="Open", to="Suspended")
    edits = [HistoryLine(by="bot", field="weight", from_=str(number), to="x") for number in range(60)]
    kept = parse_history(history_text([stop, *edits]) or "")
    assert kept == [stop, *edits[-SETTINGS_LIMIT:]]
    fifty = [stop, *edits[: HISTORY_LIMIT - 1]]
    assert parse_history(history_text(fifty) or "") == fifty


def test_a_move_is_a_change() -> None:
    """The parent is told too; none is an empty word."""
    moved = changes_between(queue("q", None), queue("q", "lab"), by="ann", reason="", at=NOW)
    assert [(one.field, one.from_, one.to) for one in moved] == [("parent", "", "lab")]
    moved = changes_between(queue("q", "lab"), queue("q", None), by="ann", reason="", at=NOW)
    assert [(one.field, one.from_, one.to) for one in moved] == [("parent", "lab", "")]


def test_an_edit_of_everything_is_a_line_for_each_field() -> None:
    """State, stopPolicy, parked and parent, in this order; the lines that begin a stop have its end."""
    after = queue("q", "lab", desired=SUSPENDED, stop_policy=HOLD, parked=ParkedPods.RECREATE, resume_at=NOW)
    told = changes_between(BEFORE, after, by="ann", reason="", at=NOW)
    assert [one.field for one in told] == ["state", "stopPolicy", "parked", "parent"]
    assert [bool(one.until) for one in told] == [True, True, False, False]


@pytest.mark.parametrize("after", [BEFORE, queue("q", reason="other"), queue("q", generation=9)])
def test_an_edit_of_something_else_is_no_change(after: object) -> None:
    """Neither the reason nor the generation has a line of its own."""
    assert changes_between(BEFORE, after, by="ann", reason="", at=NOW) == []  # type: ignore[arg-type]


def test_the_time_of_a_change_is_in_utc() -> None:
    """The Z at the end is true wherever the clock stands."""
    east = NOW.astimezone(timezone(timedelta(hours=9)))
    [told] = changes_between(BEFORE, queue("q", desired=CLOSED), by="ann", reason="", at=east)
    assert told.at == "2030-01-01T12:00:00Z"


def test_the_same_moment_in_another_zone_is_no_change() -> None:
    """A `resumeAt` written in other words is the same wish."""
    east = NOW.astimezone(timezone(timedelta(hours=9)))
    before, after = (queue("q", desired=SUSPENDED, resume_at=at) for at in (NOW, east))
    assert changes_between(before, after, by="ann", reason="", at=NOW + SECOND) == []


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_any_time_can_be_shown(at: str) -> None:
    """A `resumeAt` that is a date where it was written and none in UTC is still a change that can be told."""
    far = queue("q", desired=SUSPENDED, resume_at=datetime.fromisoformat(at))
    told = changes_between(BEFORE, far, by="ann", reason="", at=NOW)
    assert [(one.field, bool(one.until)) for one in told] == [("state", True)]


def test_a_change_is_written_as_the_design_names_it() -> None:
    """By, from, to, reason and at, with the field; what is empty is left out."""
    told = msgspec.to_builtins(
        changes_between(BEFORE, queue("q", desired=CLOSED), by="ann", reason="r", at=NOW)
    )
    assert told == [
        {
            "by": "ann",
            "field": "state",
            "from": "Open",
            "to": "Closed",
            "reason": "r",
            "at": "2030-01-01T12:00:00Z",
        }
    ]
    assert HistoryLine(by="ann", field="parent") == HistoryLine(
        by="ann", field="parent", from_="", to="", reason="", at=""
    )
    assert msgspec.to_builtins(HistoryLine(by="ann", field="parent")) == {"by": "ann", "field": "parent"}


LATE = {"resume_at": NOW + SECOND}


@each_case(
    ("was", "now", "told"),
    [
        ({}, {"desired": SUSPENDED, **LATE}, [("state", "until")]),
        ({"desired": SUSPENDED, **LATE}, {}, [("state", "")]),
        ({"stop_policy": HOLD, **LATE}, {"stop_policy": DRAIN, **LATE}, [("stopPolicy", "until")]),
        ({"stop_policy": HOLD, **LATE}, {"stop_policy": DRAIN}, [("stopPolicy", ""), ("resumeAt", "")]),
        ({"stop_policy": HOLD, **LATE}, {}, [("stopPolicy", "")]),
        (
            {"stop_policy": HOLD, **LATE},
            {"stop_policy": HOLD, "desired": CLOSED},
            [("state", ""), ("resumeAt", "")],
        ),
        ({"desired": SUSPENDED}, {"desired": OPEN, **LATE}, [("state", ""), ("resumeAt", "")]),
        ({"desired": SUSPENDED}, {"desired": SUSPENDED, **LATE}, [("resumeAt", "")]),
    ],
)
def test_a_stop_with_a_time_takes_a_line_and_its_end_takes_one(
    was: dict[str, Any], now: dict[str, Any], told: list[tuple[str, str]]
) -> None:
    """A time that changes otherwise, or that goes while the queue stays stopped, has its line."""
    lines = changes_between(queue("q", **was), queue("q", **now), by="ann", reason="", at=NOW)
    assert [(line.field, "until" if line.until else "") for line in lines] == told
    assert all(line.until in ("", "2030-01-01T12:00:01Z") for line in lines)


def test_fifty_changes_are_kept() -> None:
    assert HISTORY_LIMIT == 50


def test_the_longest_names_and_reasons_fit_an_annotation() -> None:
    """A user's name may have any length; of annotations the API server takes 256 KiB."""
    after = queue("q", desired=SUSPENDED)

    lines = changes_between(BEFORE, after, by="u" * 100_000, reason="\u0001" * 1024, at=NOW)
    assert len(msgspec.json.encode([lines[0]] * HISTORY_LIMIT)) < 200 * 1024


EARLIER = HistoryLine(
    by="ann", field="state", from_="Open", to="Suspended", reason="disks", at="2030-01-01T12:00:00Z"
)
LATER = HistoryLine(by="bob", field="resumeAt", from_="2030-01-01T13:00:00Z", at="2030-01-01T12:00:01Z")


def test_only_the_lines_that_the_earlier_history_does_not_have_are_new() -> None:
    """The earlier history may have lines that were dropped since: the oldest go first."""
    assert new_changes([], [EARLIER]) == [EARLIER]
    assert new_changes([EARLIER], [EARLIER, LATER]) == [LATER]
    assert new_changes([EARLIER, LATER], [LATER]) == []


def test_a_line_says_who_changed_what_and_why() -> None:
    """In one sentence; an empty value is shown as none."""
    assert describe_change(EARLIER) == "spec.state by ann (disks): Suspended, it was Open"
    assert describe_change(LATER) == "spec.resumeAt by bob: none, it was 2030-01-01T13:00:00Z"
