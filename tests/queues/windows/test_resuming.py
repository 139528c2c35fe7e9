"""What a resume does to the windows that are on."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from queues.windows.edges import read_calendar, settle
from queues.windows.entries import CurrentWindow, read_entries, to_wire
from queues.windows.refusals import WindowError
from queues.windows.resuming import resume_windows
from tests.queues.windows.cases import utc, weekly
from tests.support.cases import each_case

NOW = utc(2026, 11, 1, 3)
HOUR = timedelta(hours=1)
NIGHTLY = weekly("0 2 * * *", "2h", "UTC", name="nightly", stopPolicy="Hold")
WEEKLY = weekly("0 2 * * SUN", "4h", "UTC", name="weekly", stopPolicy="", state="Suspended")
LONG = weekly("0 */2 * * SUN", "3h", "UTC", name="long", stopPolicy="Hold")


def spec(*windows: Any, at: datetime = NOW, **more: Any) -> dict[str, Any]:
    given = {"windows": list(windows), **more}
    return {**given, "inWindow": to_wire(settle(read_calendar(given), (), at).entries)}


def on(of: dict[str, Any], at: datetime) -> list[str]:
    found = settle(read_calendar(of), read_entries(of.get("inWindow")), at)
    return [entry.name for entry in found.entries]


def skip_of(name: str, hour: int = 2) -> dict[str, Any]:
    return {"window": name, "start": f"2026-11-01T{hour:02}:00:00Z", "skip": True}


@each_case(
    ("windows", "suspended_only", "ended"),
    [
        ([NIGHTLY], False, ["nightly"]),
        ([NIGHTLY], True, []),
        ([NIGHTLY, WEEKLY], False, ["nightly", "weekly"]),
        ([NIGHTLY, WEEKLY], True, ["weekly"]),
        ([weekly("0 12 * * *", "2h", "UTC", name="noon")], False, []),
    ],
)
def test_what_is_on_is_left_out_until_its_next_beginning(
    windows: list[Any], suspended_only: bool, ended: list[str]
) -> None:
    before = spec(*windows)
    found = resume_windows(before, now=NOW, suspended_only=suspended_only)
    assert list(found.ended) == ended
    assert found.overrides == ([skip_of(name) for name in ended] or None)
    after = {**before, "windowOverrides": found.overrides or []}
    assert not set(on(after, NOW)) & set(ended)
    assert set(on(after, NOW + 24 * HOUR)) >= set(ended) - {"weekly"}
    assert resume_windows({**after, "inWindow": []}, now=NOW, suspended_only=suspended_only).overrides is None


def test_occurrences_that_overlap_are_left_out_together() -> None:
    before = spec(LONG, at=utc(2026, 11, 1, 4, 30))
    found = resume_windows(before, now=utc(2026, 11, 1, 4, 30))
    assert found.overrides == [skip_of("long", 4), skip_of("long", 2)]
    assert on({**before, "windowOverrides": found.overrides}, utc(2026, 11, 1, 4, 30)) == []


def test_a_window_whose_end_nobody_wrote_is_ended_by_the_edit() -> None:
    """No leader came: a resume is the way out, since any edit of the windows says what is on."""
    late = NOW + 9 * HOUR
    before = spec(NIGHTLY)
    found = resume_windows(before, now=late)
    assert found.overrides == [skip_of("nightly")]
    assert on({**before, "windowOverrides": found.overrides}, late) == []


def test_one_that_cannot_be_read_is_named_and_stays() -> None:
    entry = CurrentWindow(name="nightly", start=NOW - HOUR, until=NOW + HOUR)
    broken = {"windows": [{**NIGHTLY, "timeZone": "Europe/Bonn"}], "inWindow": to_wire([entry])}
    found = resume_windows(broken, now=NOW)
    assert (found.overrides, found.left) == (None, ("nightly",))


def test_other_overrides_stay_and_no_room_is_said() -> None:
    others = [
        {"window": "nightly", "start": f"2027-{month:02}-{day:02}T02:00:00Z", "skip": True}
        for month in range(1, 5)
        for day in range(1, 17)
    ]
    found = resume_windows(spec(NIGHTLY, windowOverrides=others[1:]), now=NOW)
    assert found.overrides == [*others[1:], skip_of("nightly")]
    with pytest.raises(WindowError, match="which is the most"):
        resume_windows(spec(NIGHTLY, windowOverrides=others), now=NOW)
