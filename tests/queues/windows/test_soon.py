"""Which windows begin soon, and that nobody who waits for the next moment misses one."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from queues.windows.rules import next_edge
from queues.windows.soon import next_soon, soon
from tests.queues.windows.cases import utc, weekly, windows
from tests.support.examples import examples

NOON = utc(2026, 11, 1, 12)
HALF_AN_HOUR = timedelta(minutes=30)


def test_of_a_window_that_is_off_the_next_occurrence_alone_begins_soon() -> None:
    given = windows(weekly("*/20 * * * *", "5m", "UTC"), weekly("50 11 * * *", "1h", "UTC"))
    assert [(each.window, each.start) for each in soon(given, NOON + timedelta(minutes=6), HALF_AN_HOUR)] == [
        ("w0", NOON + timedelta(minutes=20))
    ]


@examples(60)
@given(
    st.lists(st.sampled_from(["0 * * * *", "45 */2 * * *", "10 13 * * *", "*/40 * * * *"]), max_size=3),
    st.integers(1, 90),
    st.integers(0, 180),
)
def test_between_now_and_the_next_moment_no_other_one_begins_soon(
    schedules: list[str], within: int, minutes: int
) -> None:
    given, lead = windows(*(weekly(each, "25m", "UTC") for each in schedules)), timedelta(minutes=within)
    now = NOON + timedelta(minutes=minutes)
    edge = next_edge(given, now)
    moments = [
        at for at in (next_soon(given, now, lead), edge.at if edge is not None else None) if at is not None
    ]
    end = min(moments, default=now + timedelta(days=1))
    known = {(each.window, each.start) for each in soon(given, now, lead)}
    at = now
    while at < end:
        assert {(each.window, each.start) for each in soon(given, at, lead)} <= known
        at += timedelta(minutes=1)
