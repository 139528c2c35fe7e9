"""What windows set, read without their calendars."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from queues.states import Desired, StopPolicy
from queues.windows.entries import CurrentWindow
from queues.windows.stops import (
    entry_lines,
    joined_lines,
    on_by,
    read_override_lines,
    read_stops,
)
from tests.queues.windows.cases import utc, weekly
from tests.support.cases import each_case
from tests.support.examples import examples

START = utc(2026, 11, 1, 2)
NIGHTLY = {**weekly("0 2 * * SUN", "2h", "UTC"), "name": "nightly", "stopPolicy": "HoldAndDrain"}


def entry(name: str) -> CurrentWindow:
    return CurrentWindow(name=name, start=START, until=START + timedelta(hours=2))


@each_case(
    ("fields", "state", "policy"),
    [
        ({"stopPolicy": "Hold"}, None, StopPolicy.HOLD),
        ({"stopPolicy": "HoldAndDrain"}, None, StopPolicy.HOLD_AND_DRAIN),
        ({"state": "Suspended", "stopPolicy": ""}, Desired.SUSPENDED, StopPolicy.NONE),
        ({"state": "Closed", "stopPolicy": None}, Desired.SUSPENDED, StopPolicy.NONE),  # never a close
        ({"stopPolicy": "Drain"}, None, StopPolicy.HOLD),  # nobody knows it
        ({"stopPolicy": 3}, None, StopPolicy.NONE),
    ],
)
def test_a_word_that_nobody_knows_stops(fields: dict[str, Any], state: Any, policy: StopPolicy) -> None:
    [stop] = read_stops([{**NIGHTLY, **fields}])
    assert (stop.state, stop.stop_policy) == (state, policy)


def test_an_entry_stops_nothing_without_its_window() -> None:
    on = on_by([entry("nightly"), entry("gone")], read_stops([NIGHTLY]))
    assert [each.window.name for each in on] == ["nightly"]
    assert entry_lines(on) == ["nightly HoldAndDrain until 2026-11-01T04:00:00Z"]


def test_a_line_says_all_of_a_window() -> None:
    """What has no room in it stands there as a number, so that an edit of it is seen."""
    [plain] = read_stops([NIGHTLY])
    assert plain.line == "nightly 0 2 * * SUN for 2h UTC HoldAndDrain"
    excepts = [[{"from": f"2026-12-2{day}", "until": "2027-01-01"}] for day in (4, 5)]
    lines = {read_stops([{**NIGHTLY, "except": spans}])[0].line for spans in excepts}
    assert len(lines) == 2
    assert all(line.startswith(f"{plain.line} #") for line in lines)
    skip = {"window": "nightly", "start": "2026-10-04T02:00", "skip": True}
    assert read_override_lines([skip]) == ("nightly 2026-10-04T02:00 skip",)


def test_long_lists_are_cut_and_still_tell_each_other_apart() -> None:
    many = [f"window-{number} 0 2 * * SUN for 2h UTC Hold" for number in range(16)]
    assert len(joined_lines(many)) < 350
    assert joined_lines(many) != joined_lines([*many[:-1], "another"])
    assert joined_lines(many[:2]) == "; ".join(many[:2])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NIGHTLY, "window", "start", "skip", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
@examples(60)
def test_any_value_is_read(value: Any) -> None:
    for text in (joined_lines([stop.line for stop in read_stops(value)]), *read_override_lines(value)):
        assert text.isprintable()
