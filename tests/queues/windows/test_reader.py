"""Windows from the fields of a Queue; what is refused, by name, with its field and the reason."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.states import Desired, StopPolicy
from queues.windows.reader import read_windows
from queues.windows.refusals import refusals_text
from queues.windows.window import OVERRIDES, WINDOWS, Recurrence, Span
from tests.queues.windows.cases import utc, weekly, windows
from tests.support import yaml_texts
from tests.support.cases import each_case
from tests.support.examples import examples

FIVE_LINES = """
- name: nightly
  schedule: 0 2 * * SUN
  duration: 2h
  timeZone: Europe/Berlin
  stopPolicy: HoldAndDrain
"""
GOOD = {"name": "a", "stopPolicy": "Hold", "schedule": "0 2 * * *", "duration": "2h", "timeZone": "UTC"}
FREEZE = {"name": "a", "stopPolicy": "Hold", "from": "2026-12-20T00:00Z", "until": "2027-01-04T00:00Z"}


def test_five_lines_of_yaml_are_a_window() -> None:
    [window] = read_windows({"windows": yaml_texts.load(FIVE_LINES)}).windows
    assert (window.name, window.stop_policy) == ("nightly", StopPolicy.HOLD_AND_DRAIN)
    assert isinstance(window.when, Recurrence)
    assert (window.when.duration, window.when.zone.key) == (timedelta(hours=2), "Europe/Berlin")


def test_all_fields_are_read() -> None:
    [window] = windows(
        weekly("0 2 * * *", "2h")
        | {
            "from": "2026-11-01T00:00",
            "until": "2026-12-01T00:00Z",
            "except": [{"from": "2026-11-11T00:00", "until": "2026-11-12T00:00", "reason": "a fair"}],
            "state": "Suspended",
            "reason": "backups",
            "drain": {"rate": 5, "deadlineAfter": "90m"},
        }
    ).windows
    assert isinstance(window.when, Recurrence)
    assert (window.when.first, window.when.end) == (utc(2026, 10, 31, 23), utc(2026, 12, 1))
    assert window.excepts == (Span(utc(2026, 11, 10, 23), utc(2026, 11, 11, 23), "a fair"),)
    assert (window.state, window.reason) == (Desired.SUSPENDED, "backups")
    assert window.deadline_after == timedelta(minutes=90)


def test_a_queue_without_windows_has_none() -> None:
    assert (
        read_windows({})
        == read_windows({"windows": None, "windowOverrides": []})
        == read_windows({"windows": []})
    )


def refused(spec: dict[str, Any]) -> list[str]:
    return [str(refusal) for refusal in read_windows(spec).refusals]


@each_case(
    ("change", "refusal"),
    [
        ({"name": "Nightly"}, '.name of window "Nightly": "Nightly" is no name: a to z, 0 to 9 and -, 63 '),
        ({"name": None}, '.name: "" is no name'),
        ({"name": 5}, ".name: 5 is no text; put it between quotes"),
        ({"schedule": "0 25 * * *"}, '.schedule of window "a": hour 25 is not from 0 to 23'),
        ({"schedule": "@daily"}, '.schedule of window "a": @daily is not known; write five fields'),
        ({"schedule": 5}, '.schedule of window "a": 5 is no text; put it between quotes'),
        ({"duration": "5d"}, '.duration of window "a": "5d" is no duration; write it as 2h, 90m or 1h30m'),
        ({"duration": None}, ' of window "a": schedule needs duration'),
        ({"timeZone": None}, ' of window "a": schedule needs timeZone'),
        (
            {"timeZone": "Europe/Berln"},
            '.timeZone of window "a": there is no time zone "Europe/Berln"; did you',
        ),
        ({"state": "Closed"}, '.state of window "a": a window has an end, and a close has none; write Susp'),
        ({"state": "Open"}, '.state of window "a": "Open" is not Suspended'),
        ({"stopPolicy": "None"}, '.stopPolicy of window "a": "None" is not Hold or HoldAndDrain'),
        ({"stopPolicy": None}, ' of window "a": it stops nothing: write stopPolicy, or state: Suspended'),
        ({"from": "soon"}, '.from of window "a": "soon" is no time; write it as 2026-12-20T00:00'),
        (
            {"from": "2026-12-20T00:00", "until": "2026-12-20T00:00"},
            '.until of window "a": it is not after from',
        ),
        ({"except": [{"from": "2026-12-20T00:00"}]}, '.except[0] of window "a": it needs until'),
        ({"except": "never"}, '.except of window "a": it is no list'),
        ({"except": [5]}, '.except[0] of window "a": 5 has no fields'),
        ({"drain": {"deadlineAfter": "soon"}}, '.drain.deadlineAfter of window "a": "soon" is no duration'),
        (
            {"drain": {"deadline": "2026-12-20T00:00Z"}},
            '.drain.deadline of window "a": it is one moment; wri',
        ),
        ({"drain": 5}, '.drain of window "a": 5 has no fields'),
        ({"timezone": "UTC"}, ' of window "a": there is no field "timezone"'),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_field_and_the_reason(
    change: dict[str, Any], refusal: str
) -> None:
    [told] = refused({"windows": [{**GOOD, **change}]})
    assert told.startswith(f"spec.windows[0]{refusal}")
    assert read_windows({"windows": [{**GOOD, **change}]}).windows == ()


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (
            {"until": None},
            ' of window "a": it never begins: write schedule, duration and timeZone, or from and ',
        ),
        (
            {"from": "2026-12-20T00:00"},
            '.from of window "a": "2026-12-20T00:00" has no offset, and the window h',
        ),
        ({"duration": "2h"}, '.duration of window "a": it is for a schedule, and there is none'),
    ],
)
def test_a_freeze_is_from_one_moment_to_another(change: dict[str, Any], refusal: str) -> None:
    assert refused({"windows": [FREEZE]}) == []
    [told] = refused({"windows": [{**FREEZE, **change}]})
    assert told.startswith(f"spec.windows[0]{refusal}")


@each_case(
    ("override", "refusal"),
    [
        (
            {"window": "b", "start": "2026-11-01T02:00", "skip": True},
            '.window of window "b": there is no window "b"',
        ),
        (
            {"window": "a", "skip": True},
            ' of window "a": it needs start: when the occurrence begins by its sche',
        ),
        (
            {"window": "a", "start": "2026-11-01T02:00"},
            ' of window "a": it needs skip: true, or from or until',
        ),
        (
            {"window": "a", "start": "2026-11-01T02:00", "skip": True, "until": "2026-11-01T09:00"},
            ' of window "a": it needs skip: true, or from or until, and not both',
        ),
        (
            {"window": "a", "start": "2026-11-01T02:00", "from": "2026-11-01T03:00"},
            '.from of window "a": it is after start: an occurrence can begin early, not late',
        ),
        (
            {"window": "a", "start": "2026-11-01T02:00", "until": "2026-11-01T02:00"},
            '.until of window "a": it is not after from',
        ),
        (
            {"window": "a", "start": "2026-11-01T02:00", "skip": "yes"},
            '.skip of window "a": "yes" is not true or',
        ),
    ],
)
def test_overrides_are_of_an_occurrence_of_a_window(override: dict[str, Any], refusal: str) -> None:
    told = refused({"windows": [GOOD], "windowOverrides": [override]})
    assert told[0].startswith(f"spec.windowOverrides[0]{refusal}")


def test_an_occurrence_has_one_override_and_a_name_one_window() -> None:
    skip = {"window": "a", "start": "2026-11-01T02:00", "skip": True}
    assert refused({"windows": [GOOD, GOOD], "windowOverrides": [skip, skip]}) == [
        'spec.windows[1].name of window "a": another window has this name',
        'spec.windowOverrides[1].start of window "a": another override is for this occurrence',
    ]


def test_ten_faults_are_ten_refusals_and_what_is_good_is_read() -> None:
    bad = {
        "name": "B",
        "schedule": "x",
        "duration": "y",
        "timeZone": "z",
        "state": "Closed",
        "drain": 1,
        "zone": "",
    }
    read = read_windows({"windows": [bad, GOOD]})
    assert [refusal.path.removeprefix("spec.windows[0]") for refusal in read.refusals] == [
        *("", ".name", ".timeZone", ".schedule", ".duration", ".state", ".drain"),
    ]
    assert [window.name for window in read.windows] == ["a"]


@each_case(
    ("spec", "refusal"),
    [
        ({"windows": [GOOD] * 10_000}, f"spec.windows: there are 10000, and {WINDOWS} at most are allowed"),
        (
            {"windows": [GOOD], "windowOverrides": [{}] * 65},
            f"spec.windowOverrides: there are 65, and {OVERRIDES} ",
        ),
        ({"windows": {"a": GOOD}}, "spec.windows: it is no list"),
        ({"windows": "x" * 1_000_000}, "spec.windows: it is no list"),
        ({"windows": [["x"] * 100_000]}, "spec.windows[0]: ['x', 'x'"),
        (
            {"windows": [{**GOOD, "schedule": "1," * 500_000}]},
            'spec.windows[0].schedule of window "a": it has 10',
        ),
        ({"windows": [{**GOOD, "name": "\u202e" + "x" * 100_000}]}, 'spec.windows[0].name of window "xxx'),
        ({"windows": [{**GOOD, "x" * 100_000: 1}]}, 'spec.windows[0] of window "a": there is no field "xxx'),
    ],
)
def test_what_is_too_much_is_refused_in_few_words(spec: dict[str, Any], refusal: str) -> None:
    [told] = refused(spec)
    assert told.startswith(refusal)
    assert len(told) <= 300
    assert told.isprintable()


def test_of_many_refusals_some_are_listed() -> None:
    read = read_windows({"windows": [5] * 16})
    lines = refusals_text(list(read.refusals)).splitlines()
    assert lines[0] == "spec.windows[0]: 5 has no fields"
    assert lines[-1] == "and 6 more"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_NAMES = (
    "name",
    "schedule",
    "duration",
    "timeZone",
    "from",
    "until",
    "except",
    "state",
    "stopPolicy",
    "drain",
)


@given(st.lists(st.dictionaries(st.sampled_from(_NAMES), _JSON), max_size=3), _JSON)
@examples(40)
def test_any_json_is_read_or_refused(given_windows: list[dict[str, Any]], overrides: Any) -> None:
    read = read_windows(
        {"windows": [{**GOOD, **each} for each in given_windows], "windowOverrides": overrides}
    )
    assert len(read.windows) + len({refusal.path.split(".")[1] for refusal in read.refusals}) >= len(
        given_windows
    )
