"""When windows are on, and what is next: the tables of `queues.windows.rules`, and its properties."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.timestamps import rfc3339
from queues.states import Desired, StopPolicy
from queues.windows.rules import CHAIN, coming, is_start, next_edge, windows_on
from queues.windows.stops import strictest
from queues.windows.window import Windows
from tests.queues.windows import calendar_oracle as oracle
from tests.queues.windows.cases import fields, moments, utc, weekly, windows, zones
from tests.support.examples import examples

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def spans(given: Windows, after: datetime, number: int) -> list[tuple[datetime, datetime]]:
    return [(each.start, each.end) for each in coming(given, after, number=number)]


@pytest.mark.parametrize(
    ("window", "after", "expected"),
    [
        (weekly("0 2 * * SUN", "2h"), utc(2026, 3, 23), [(utc(2026, 3, 29, 1), utc(2026, 3, 29, 3))]),
        (weekly("0 2 * * SUN", "2h"), utc(2026, 10, 19), [(utc(2026, 10, 25), utc(2026, 10, 25, 2))]),
        (
            weekly("30 2 * * *", "2h"),
            utc(2026, 10, 24, 12),
            [
                (utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 2, 30)),
                (utc(2026, 10, 26, 1, 30), utc(2026, 10, 26, 3, 30)),
            ],
        ),
        (
            weekly("0 3 * * TUE#2", "4h", "Europe/London"),
            utc(2026, 10, 1),
            [
                (utc(2026, 10, 13, 2), utc(2026, 10, 13, 6)),
                (utc(2026, 11, 10, 3), utc(2026, 11, 10, 7)),
            ],
        ),
        (
            {"from": "2026-12-20T00:00", "until": "2027-01-04T00:00", "timeZone": "Europe/Berlin"},
            utc(2026, 1, 1),
            [(utc(2026, 12, 19, 23), utc(2027, 1, 3, 23))],
        ),
        (  # each hour: in both of the hours that are alike, and in none that is skipped
            weekly("0 * * * *", "30m"),
            utc(2026, 10, 24, 23, 30),
            [(utc(2026, 10, 25, hour), utc(2026, 10, 25, hour, 30)) for hour in range(3)],
        ),
    ],
)
def test_moments_of_the_table(
    window: dict[str, Any], after: datetime, expected: list[tuple[datetime, datetime]]
) -> None:
    given = windows(window)
    assert spans(given, after, len(expected)) == expected
    for start, end in expected:
        assert windows_on(given, start - SECOND) == ()
        assert [on.until for on in windows_on(given, start)] == [end]
        assert [on.until for on in windows_on(given, end - SECOND)] == [end]


def test_one_ends_where_the_next_begins() -> None:
    given = windows(weekly("0 2 * * *", "1h", "UTC"), weekly("0 3 * * *", "1h", "UTC"))
    at = utc(2026, 11, 1, 3)
    assert [on.window.name for on in windows_on(given, at - SECOND)] == ["w0"]
    assert [on.window.name for on in windows_on(given, at)] == ["w1"]


def test_what_lasts_longer_than_its_period_goes_on_and_its_end_moves_on() -> None:
    """Each ten minutes from 2 to 2:50, for a quarter of an hour: once a night."""
    given = windows(weekly("*/10 2 * * *", "15m", "UTC"))
    [on] = windows_on(given, utc(2026, 11, 1, 2, 5))
    assert on.until == utc(2026, 11, 1, 3, 5)
    each_minute = windows(weekly("* 0-22 * * *", "2m", "UTC"))
    [on] = windows_on(each_minute, utc(2026, 11, 1))
    assert on.until == utc(2026, 11, 1) + timedelta(minutes=CHAIN + 2)
    [later] = windows_on(each_minute, on.until)
    assert later.until > on.until


def test_nothing_begins_in_a_span_that_is_excepted_and_what_began_before_goes_on() -> None:
    given = windows(
        weekly(
            "0 2,4 * * *",
            "1h",
            "UTC",
            **{"except": [{"from": "2026-11-01T02:30", "until": "2026-11-02T04:00", "reason": "a fair"}]},
        )
    )
    assert [on.until for on in windows_on(given, utc(2026, 11, 1, 2, 45))] == [utc(2026, 11, 1, 3)]
    assert [start for start, _ in spans(given, utc(2026, 11, 1, 1), 3)] == [
        utc(2026, 11, 1, 2),
        utc(2026, 11, 2, 4),
        utc(2026, 11, 3, 2),
    ]


def test_beside_a_schedule_from_and_until_bound_its_beginnings() -> None:
    given = windows(
        weekly("0 2 * * *", "3h", "UTC", **{"from": "2026-11-02T02:00", "until": "2026-11-03T04:00"})
    )
    assert [start for start, _ in spans(given, utc(2026, 10, 1), 5)] == [
        utc(2026, 11, 2, 2),
        utc(2026, 11, 3, 2),
    ]
    assert [on.until for on in windows_on(given, utc(2026, 11, 3, 4, 30))] == [utc(2026, 11, 3, 5)]
    assert windows_on(given, utc(2026, 11, 1, 3)) == windows_on(given, utc(2026, 11, 4, 3)) == ()


def test_an_override_is_for_one_occurrence() -> None:
    overrides: tuple[dict[str, Any], ...] = (
        {"window": "w0", "start": "2026-11-01T02:00", "skip": True},
        {"window": "w0", "start": "2026-11-02T02:00", "from": "2026-11-01T22:00"},
        {"window": "w0", "start": "2026-11-03T02:00", "until": "2026-11-03T09:00"},
        {"window": "w0", "start": "2026-11-04T02:30", "until": "2026-11-05T00:00"},  # of no occurrence
    )
    given = windows(weekly("0 2 * * *", "2h", "UTC"), overrides=overrides)
    assert spans(given, utc(2026, 10, 31, 12), 4) == [
        (utc(2026, 11, 1, 22), utc(2026, 11, 2, 4)),
        (utc(2026, 11, 3, 2), utc(2026, 11, 3, 9)),
        (utc(2026, 11, 4, 2), utc(2026, 11, 4, 4)),
        (utc(2026, 11, 5, 2), utc(2026, 11, 5, 4)),
    ]
    assert windows_on(given, utc(2026, 11, 1, 3)) == ()
    assert [on.until for on in windows_on(given, utc(2026, 11, 1, 23))] == [utc(2026, 11, 2, 4)]
    [window] = given.windows
    assert [is_start(window, override.start) for override in given.overrides] == [True, True, True, False]


def test_a_freeze_may_be_left_out() -> None:
    freeze = {"from": "2026-12-20T00:00Z", "until": "2027-01-04T00:00Z"}
    skip = {"window": "w0", "start": "2026-12-20T00:00Z", "skip": True}
    assert next_edge(windows(freeze, overrides=(skip,)), utc(2026, 12, 1)) is None
    assert windows_on(windows(freeze, overrides=(skip,)), utc(2026, 12, 24)) == ()


@pytest.mark.parametrize(
    ("state", "policy", "given", "expected"),
    [
        ("Open", "None", [], ("Open", "", "None", "")),
        ("Open", "None", [("", "Hold")], ("Open", "", "Hold", "w0")),
        ("Open", "Hold", [("", "Hold")], ("Open", "", "Hold", "")),
        ("Open", "Hold", [("", "HoldAndDrain")], ("Open", "", "HoldAndDrain", "w0")),
        ("Open", "HoldAndDrain", [("", "Hold")], ("Open", "", "HoldAndDrain", "")),
        ("Open", "None", [("Suspended", "Hold")], ("Suspended", "w0", "Hold", "w0")),
        ("Suspended", "None", [("Suspended", "")], ("Suspended", "", "None", "")),
        ("Closed", "None", [("Suspended", "Hold")], ("Closed", "", "Hold", "w0")),
        ("Open", "None", [("", "Hold"), ("", "HoldAndDrain")], ("Open", "", "HoldAndDrain", "w1")),
        ("Open", "None", [("", "Hold"), ("", "Hold")], ("Open", "", "Hold", "w1")),  # w1 lasts longer
    ],
)
def test_the_strictest_counts(
    state: str, policy: str, given: list[tuple[str, str]], expected: tuple[str, str, str, str]
) -> None:
    freezes: list[dict[str, Any]] = [
        {
            "from": "2026-11-01T00:00Z",
            "until": f"2026-11-0{2 + number}T00:00Z",
            "state": of_window or None,
            "stopPolicy": policy_of_window or None,
        }
        for number, (of_window, policy_of_window) in enumerate(given)
    ]
    on = windows_on(windows(*freezes), utc(2026, 11, 1, 12))
    assert len(on) == len(given)
    found = strictest(Desired(state), StopPolicy(policy), on)
    assert (found.state, found.state_by, found.policy, found.policy_by) == expected


@given(st.data())
@examples(40)
def test_a_window_is_on_when_one_of_its_beginnings_is_as_near(data: st.DataObject) -> None:
    """Looking back equals going forward from edge to edge, whatever clocks do; and the oracle agrees."""
    zone, schedule = data.draw(zones()), data.draw(fields())
    duration = timedelta(minutes=data.draw(st.integers(1, 400)))
    text = f"{int(duration.total_seconds()) // 60}m"
    given = windows(weekly(schedule.text(), text, zone.key))
    at = data.draw(moments(zone))
    end = at + timedelta(days=1)
    begun = oracle.starts(schedule, zone, at - duration, end)
    moment, is_on = at, bool(windows_on(given, at))
    for _ in range(2000):
        assert is_on == any(start <= moment < start + duration for start in begun)
        edge = next_edge(given, moment)
        if edge is None or edge.at > end - SECOND:
            break
        between = moment + (edge.at - moment) / 2
        assert bool(windows_on(given, between)) == is_on
        moment, is_on = edge.at, bool(windows_on(given, edge.at))
        assert not edge.begins or is_on


@given(st.data())
@examples(40)
def test_what_is_kept_with_a_window_changes_no_answer(data: st.DataObject) -> None:
    """Of one that was asked before, at whatever moments, and of one that was not: overrides, excepts,
    occurrences that overlap."""
    zone = data.draw(zones())
    start = data.draw(moments(zone))
    hours = st.integers(0, 60).map(lambda number: start + number * timedelta(minutes=20))
    text = data.draw(st.sampled_from(["*/20 * * * *", "0 * * * *", "0,20 */2 * * *"]))
    begins = data.draw(st.lists(hours, max_size=4, unique=True))
    excepts = [
        {"from": rfc3339(each), "until": rfc3339(each + HOUR)}
        for each in data.draw(st.lists(hours, max_size=3))
    ]
    overrides = tuple(
        {"window": "w", "start": rfc3339(each), **data.draw(st.sampled_from(_overridden(each)))}
        for each in begins
    )
    duration = data.draw(st.sampled_from(["5m", "20m", "50m", "3h"]))
    window = {**weekly(text, duration, zone.key), "name": "w", "except": excepts}
    given = windows(window, overrides=overrides)
    for at in data.draw(st.lists(hours, max_size=8)):
        fresh = windows(window, overrides=overrides)
        assert windows_on(given, at) == windows_on(fresh, at)
        assert next_edge(given, at) == next_edge(fresh, at)
        assert coming(given, at, number=3) == coming(fresh, at, number=3)
        assert is_start(given.windows[0], at) == is_start(fresh.windows[0], at)


def _overridden(start: datetime) -> list[dict[str, Any]]:
    return [
        {"skip": True},
        {"until": rfc3339(start + 2 * HOUR)},
        {"from": rfc3339(start - timedelta(minutes=15))},
    ]


@given(st.data())
@examples(60)
def test_the_union_is_the_strictest(data: st.DataObject) -> None:
    policies = ("None", "Hold", "HoldAndDrain")
    given = [
        weekly(f"0 {hour} * * *", "3h", "UTC", stopPolicy=policy)
        for hour, policy in data.draw(
            st.lists(st.tuples(st.integers(0, 23), st.sampled_from(policies[1:])), max_size=5)
        )
    ]
    at = utc(2026, 11, 1) + timedelta(minutes=data.draw(st.integers(0, 1439)))
    own = data.draw(st.sampled_from(policies))
    on = windows_on(windows(*given), at)
    found = strictest(Desired.OPEN, StopPolicy(own), on)
    said = [own, *(str(each.window.stop_policy) for each in on)]
    assert found.policy == max(said, key=policies.index)
    assert (found.policy_by == "") == (found.policy == own)
