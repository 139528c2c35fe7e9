"""What people do to one occurrence, and that the rules then say so."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.windows.overriding import Overridden, choose, extend, skip, start
from queues.windows.reader import read_windows
from queues.windows.refusals import WindowError
from queues.windows.rules import window_on
from queues.windows.window import OVERRIDES, Windows
from tests.queues.windows.cases import utc, weekly
from tests.support.cases import each_case
from tests.support.examples import examples

#: 02:00 to 04:00 in UTC of every day.
NIGHTLY = {"name": "nightly", "stopPolicy": "Hold", **weekly("0 2 * * *", "2h", "UTC")}
FREEZE = {
    "name": "freeze",
    "stopPolicy": "Hold",
    "from": "2026-12-20T00:00:00Z",
    "until": "2027-01-04T00:00:00Z",
}
AMID, BEFORE, BEGINS, ENDS = (
    utc(2026, 11, 2, 3),
    utc(2026, 11, 1, 12),
    utc(2026, 11, 2, 2),
    utc(2026, 11, 2, 4),
)
SKIP = {"window": "nightly", "start": "2026-11-02T02:00:00Z", "skip": True}
HOUR = timedelta(hours=1)
OF_MONDAY = "window nightly of Mon 2 Nov 02:00 UTC"


def read(*overrides: Any, windows: tuple[dict[str, Any], ...] = (NIGHTLY, FREEZE)) -> Windows:
    return read_windows({"windows": list(windows), "windowOverrides": list(overrides)})


def done(
    word: str,
    *overrides: Any,
    now: datetime,
    window: str = "nightly",
    at: datetime | None = None,
    until: datetime | None = None,
) -> Overridden:
    chosen = choose(read(*overrides), window, now=now, at=at)
    if word == "skip":
        return skip(overrides, chosen, reason="why", now=now)
    if word == "extend":
        assert until is not None
        return extend(overrides, chosen, until=until, reason="why", now=now)
    return start(overrides, chosen, until=until, reason="why", now=now, is_named=at is not None)


def is_on(overrides: list[Any] | None, now: datetime, window: str = "nightly") -> datetime | None:
    """Until when."""
    given = read(*(overrides or ()))
    on = window_on(next(each for each in given.windows if each.name == window), given.overrides, now)
    return on.until if on is not None else None


@pytest.mark.parametrize(
    ("now", "outcome"),
    [
        (AMID, "edited (ended: the rest of window nightly of Mon 2 Nov 02:00 UTC is left out)"),
        (BEFORE, "edited (window nightly of Mon 2 Nov 02:00 UTC is left out)"),
    ],
)
def test_a_skip_leaves_out_the_one_that_is_on_or_the_next(now: datetime, outcome: str) -> None:
    told = done("skip", now=now)
    assert told == Overridden(outcome=outcome, overrides=[{**SKIP, "reason": "why"}])
    assert is_on(told.overrides, AMID) is None
    assert is_on(told.overrides, AMID + 24 * HOUR) == ENDS + 24 * HOUR


def test_a_skip_ends_all_that_is_on_where_occurrences_overlap_and_a_start_brings_back_its_end() -> None:
    often = {"name": "nightly", "stopPolicy": "Hold", **weekly("0,30 2 * * *", "1h", "UTC")}
    now = utc(2026, 11, 2, 2, 45)
    given = read(windows=(often,))
    told = skip([], choose(given, "nightly", now=now), reason="", now=now)
    after = read(*(told.overrides or ()), windows=(often,))
    assert [each.start.minute for each in after.overrides] == [30, 0]
    assert window_on(after.windows[0], after.overrides, now) is None
    chosen = choose(after, "nightly", now=now)
    back = start(told.overrides or [], chosen, until=None, reason="", now=now, is_named=False)
    on = window_on(after.windows[0], read(*(back.overrides or ()), windows=(often,)).overrides, now)
    assert on is not None
    assert on.until == utc(2026, 11, 2, 3, 30)


def test_a_start_undoes_the_skip_of_the_one_that_would_be_on() -> None:
    other = {"window": "gone", "start": "whatever", "unheard": [1]}
    told = done("start", other, SKIP, now=AMID)
    assert told.outcome == "edited (window nightly of Mon 2 Nov 02:00 UTC is not left out any more)"
    assert told.overrides == [other]
    assert is_on(told.overrides, AMID) == ENDS


@pytest.mark.parametrize("overrides", [(), (SKIP,)], ids=["as it is", "skipped"])
def test_a_start_begins_the_next_one_now_in_place_of_its_time_for_as_long(overrides: tuple[Any, ...]) -> None:
    told = done("start", *overrides, now=BEFORE)
    assert told.outcome == (f"edited (window nightly begins now, until 14:00 UTC, in place of {OF_MONDAY})")
    assert is_on(told.overrides, BEFORE) == BEFORE + 2 * HOUR
    assert is_on(told.overrides, AMID) is None


def test_a_start_with_an_end_lasts_until_then_and_a_freeze_to_its_own_end() -> None:
    assert is_on(done("start", now=BEFORE, until=BEFORE + HOUR).overrides, BEFORE) == BEFORE + HOUR
    told = done("start", now=BEFORE, window="freeze")
    assert is_on(told.overrides, BEFORE, "freeze") == utc(2027, 1, 4)


@pytest.mark.parametrize(("now", "end"), [(AMID, ENDS + HOUR), (BEFORE, ENDS + HOUR)])
def test_an_extension_moves_the_end(now: datetime, end: datetime) -> None:
    told = done("extend", now=now, until=end)
    assert told.outcome.startswith("edited (window nightly of Mon 2 Nov 02:00 UTC lasts until ")
    assert is_on(told.overrides, AMID) == end


def test_an_extension_keeps_an_earlier_beginning() -> None:
    early = done("start", now=BEFORE, until=AMID).overrides or []
    longer = done("extend", *early, now=BEFORE + HOUR, until=ENDS).overrides
    assert is_on(longer, BEFORE) == ENDS


@pytest.mark.parametrize(
    ("word", "overrides", "now", "at", "outcome"),
    [
        (
            "skip",
            (SKIP,),
            AMID,
            None,
            "unchanged (window nightly of Mon 2 Nov 02:00 UTC is left out already)",
        ),
        ("start", (), AMID, None, "unchanged (window nightly is on until 04:00 UTC)"),
        ("start", (), BEFORE, BEGINS, "unchanged (window nightly of Mon 2 Nov 02:00 UTC is not left out)"),
    ],
)
def test_what_is_so_already_is_said(
    word: str, overrides: tuple[Any, ...], now: datetime, at: datetime | None, outcome: str
) -> None:
    assert done(word, *overrides, now=now, at=at) == Overridden(outcome=outcome)


def test_by_its_moment_the_skip_of_one_that_comes_is_undone() -> None:
    assert done("start", SKIP, now=BEFORE, at=BEGINS).overrides == []


@each_case(
    ("word", "kwargs", "says"),
    [
        ("skip", {"window": "other"}, 'no window "other"; its own: "nightly" or "freeze"'),
        ("skip", {"at": BEGINS + HOUR}, r"does not begin at .*; it does next at 2026-11-03T02:00:00Z"),
        ("skip", {"at": BEGINS - 48 * HOUR}, "is over"),
        ("start", {"at": BEGINS - 48 * HOUR}, "is over"),
        ("extend", {"until": ENDS - HOUR / 2}, "to end it sooner, skip it"),
        ("start", {"now": BEFORE, "until": BEFORE - HOUR}, "is not in the future"),
        ("skip", {"window": "freeze", "now": utc(2027, 2, 1)}, "does not begin any more"),
    ],
)
def test_what_cannot_be_done_is_said(word: str, kwargs: dict[str, Any], says: str) -> None:
    with pytest.raises(WindowError, match=says):
        done(word, **{"now": AMID, "until": ENDS if word == "extend" else None, **kwargs})


def test_what_is_left_out_is_not_extended() -> None:
    with pytest.raises(WindowError, match="is left out; start it first"):
        done("extend", SKIP, now=AMID, until=ENDS + HOUR)


def test_where_there_is_no_room_what_is_long_over_goes_and_else_nothing_is_written() -> None:
    past: list[dict[str, Any]] = [
        {"window": "nightly", "start": f"2026-{month:02}-{day:02}T02:00:00Z", "skip": True}
        for month in (5, 6, 7)
        for day in range(1, 29)
    ][:OVERRIDES]
    assert done("skip", *past, now=AMID).overrides == [{**SKIP, "reason": "why"}]
    coming = [{**each, "start": each["start"].replace("2026", "2027")} for each in past]
    with pytest.raises(WindowError, match="64 overrides, which is the most"):
        done("skip", *coming, now=AMID)


@examples(200)
@given(
    st.lists(st.sampled_from(["skip", "start", "extend"]), max_size=6),
    st.integers(0, 60 * 48),
)
def test_done_again_it_changes_nothing_and_what_is_written_can_be_read(
    words: list[str], minutes: int
) -> None:
    now = utc(2026, 11, 1) + timedelta(minutes=minutes)
    overrides: list[Any] = []
    for word in words:
        until = choose(read(*overrides), "nightly", now=now).occurrence.end + HOUR
        try:
            told = done(word, *overrides, now=now, until=until if word == "extend" else None)
        except WindowError:
            continue
        if told.overrides is not None:
            overrides = told.overrides
            assert read(*overrides).refusals == ()
            again = done(word, *overrides, now=now, until=until if word == "extend" else None)
            assert again.overrides is None
