"""What is told of change windows before they begin, and where they do not."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.timestamps import rfc3339
from queues.notices.windows import QueueWindows, WindowNews, news_of_windows
from queues.windows.edges import read_calendar
from queues.windows.entries import read_entries
from queues.windows.stops import read_stops
from tests.queues.notices.values import NOW
from tests.support.examples import examples

MINUTE, QUARTER = timedelta(minutes=1), timedelta(minutes=15)
NIGHTLY = {
    "name": "nightly",
    "from": rfc3339(NOW),
    "until": rfc3339(NOW + 60 * MINUTE),
    "stopPolicy": "Hold",
    "reason": "backups",
}
ENTRY = {"name": "nightly", "start": NIGHTLY["from"], "until": NIGHTLY["until"]}
SKIP = {"window": "nightly", "start": NIGHTLY["from"], "skip": True, "reason": "a release"}


def windows(*given: dict[str, Any], on: Any = None, overrides: Any = None, uid: str = "uid") -> QueueWindows:
    spec = {"windows": list(given), "windowOverrides": overrides}
    return QueueWindows(
        queue="q",
        uid=uid,
        calendar=read_calendar(spec),
        written=read_entries(on),
        stops={stop.name: stop for stop in read_stops(spec["windows"])},
    )


def told(
    given: QueueWindows, minutes: float, *, within: timedelta = QUARTER, since: datetime = NOW - QUARTER
) -> WindowNews:
    """So many minutes after the window begins."""
    return news_of_windows(given, now=NOW + minutes * MINUTE, since=since, within=within)


def test_a_window_is_told_from_a_quarter_of_an_hour_before_until_it_begins() -> None:
    one = windows(NIGHTLY)
    assert told(one, -20) == WindowNews((), NOW - QUARTER)
    [early], [late] = told(one, -15).notices, told(one, -1).notices
    assert early == late
    assert early.stands
    assert early.text == (
        'queue "q": window nightly begins at 2026-11-28T14:00:00Z, until 2026-11-28T15:00:00Z: Hold (backups)'
    )
    assert told(one, -1).look_again == NOW
    assert told(windows(NIGHTLY, on=[ENTRY]), 0) == WindowNews((), NOW + 60 * MINUTE)


def test_where_nothing_is_soon_the_beginning_is_not_told() -> None:
    assert told(windows(NIGHTLY), -1, within=timedelta()) == WindowNews((), NOW)


def test_an_occurrence_that_is_left_out_is_told_when_it_would_begin() -> None:
    one = windows(NIGHTLY, overrides=[SKIP])
    assert told(one, -1) == WindowNews((), NOW)
    [notice] = told(one, 0).notices
    assert told(one, 30).notices == (notice,)
    assert (notice.at, notice.stands) == (NOW, False)
    assert notice.text == (
        'queue "q": window nightly does not begin at 2026-11-28T14:00:00Z, as spec.windowOverrides says '
        "(a release)"
    )
    assert not told(one, 30, since=NOW).notices


def test_one_that_nobody_wrote_in_time_is_told_while_it_is_on() -> None:
    one = windows(NIGHTLY)
    assert told(one, 58) == WindowNews((), NOW + 58 * MINUTE)  # it is about to be written
    [notice] = told(one, 59.5).notices
    assert notice.stands
    assert notice.text.endswith(
        "ends at 2026-11-28T15:00:00Z: nobody wrote that in time, and it stops nothing any more"
    )
    assert not told(windows(NIGHTLY, on=[ENTRY]), 59.5).notices
    assert not told(one, 60).notices


def test_ids_differ_by_queue_by_beginning_and_by_what_is_told() -> None:
    second = NIGHTLY | {"from": rfc3339(NOW + 2 * MINUTE)}
    [first] = told(windows(NIGHTLY), -1).notices
    [of_another_queue] = told(windows(NIGHTLY, uid="made again"), -1).notices
    [moved] = told(windows(second), -1).notices
    [skipped] = told(windows(NIGHTLY, overrides=[SKIP]), 0).notices
    [missed] = told(windows(NIGHTLY), 59.5).notices
    assert len({each.id for each in (first, of_another_queue, moved, skipped, missed)}) == 5


@examples(100)
@given(
    st.sampled_from(["*/20 * * * *", "7 */2 * * *", "0 14 * * *"]),
    st.integers(1, 50),
    st.integers(0, 40),
    st.lists(st.integers(-60, 200), min_size=1, max_size=5),
    st.booleans(),
)
def test_until_it_is_to_be_looked_again_the_same_is_told(
    schedule: str, lasts: int, within: int, seconds: list[int], skips: bool
) -> None:
    """So who looks then, and not in between, misses nothing."""
    window = {"name": "w", "schedule": schedule, "duration": f"{lasts}m", "stopPolicy": "Hold"}
    skip = {"window": "w", "start": rfc3339(NOW), "skip": True}
    one = windows(window, overrides=[skip] if skips else None)
    for second in seconds:
        now = NOW + timedelta(seconds=61 * second)
        found = news_of_windows(one, now=now, since=NOW - 300 * MINUTE, within=within * MINUTE)
        if found.look_again is not None and found.look_again > now:
            last = found.look_again - timedelta(seconds=1)
            again = news_of_windows(one, now=last, since=NOW - 300 * MINUTE, within=within * MINUTE)
            assert (again.notices, again.look_again) == (found.notices, found.look_again)
