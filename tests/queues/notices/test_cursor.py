"""What counts as told, whatever comes in between."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.timestamps import EARLIEST
from queues.notices.cursor import MOST, OVERLAP, BadCursor, Cursor, after_sending, decode, encode
from tests.queues.notices.values import NOW, notice
from tests.support.cases import each_case
from tests.support.examples import examples

FIRST = Cursor(since=NOW - timedelta(hours=1))


@examples(200)
@given(
    st.lists(st.tuples(st.integers(0, 4000), st.booleans()), max_size=25, unique=True),
    st.data(),
)
def test_everything_is_told_once_in_whatever_parts_it_becomes_known(
    happened: list[tuple[int, bool]], data: st.DataObject
) -> None:
    """Rounds see what has happened by then, some of it late; the cursor of some is not stored.

    What is told is at least everything, and twice only where a cursor was lost.
    """
    notices = [
        notice(f"{seconds}-{late}", seconds=seconds) for seconds, late in sorted(happened)
    ]  # late: seen when the clock is minutes further
    cursor, told, lost = FIRST, [], 0
    for end in (*range(500, 5000, 500), 6000):
        seen = [
            each
            for each, (seconds, late) in zip(notices, sorted(happened), strict=True)
            if seconds + (300 if late else 0) <= end
        ]
        new = [each for each in seen if cursor.is_new(each)]
        if not new:
            continue
        told += [each.id for each in new]
        latest = max(each.at for each in seen)
        now = NOW + timedelta(seconds=end)
        if end < 6000 and data.draw(st.booleans()):
            lost += 1
        else:
            cursor = decode(encode(after_sending(cursor, new, latest=latest, now=now, standing=())))
    assert set(told) == {each.id for each in notices}
    assert lost or len(told) == len(set(told))


def test_a_drain_is_told_once_for_as_long_as_it_lasts() -> None:
    blocked = notice("blocked", stands=True, seconds=-100_000)
    assert FIRST.is_new(blocked)
    told = after_sending(FIRST, [blocked], latest=EARLIEST, now=NOW, standing=["blocked", "overdue"])
    assert not told.is_new(blocked)
    assert told.since == FIRST.since
    ended = after_sending(told, [], latest=EARLIEST, now=NOW, standing=[])
    assert ended.is_new(blocked)


def test_what_still_waits_stays_new_however_long_ago_it_was() -> None:
    """The newest was sent first, and the cursor is stored."""
    waiting = [notice("old", seconds=-3000), notice("stands", stands=True, seconds=-9000)]
    sent = notice("new", seconds=2000)
    told = after_sending(FIRST, [sent], waiting=waiting, latest=sent.at, now=sent.at, standing=())
    assert all(map(decode(encode(told)).is_new, waiting))
    assert not told.is_new(sent)


def test_a_moment_in_the_future_silences_nothing() -> None:
    """A webhook whose clock was wrong."""
    later = notice("later", seconds=1_000_000)
    told = after_sending(FIRST, [later], latest=later.at, now=NOW, standing=())
    assert told.since == NOW - OVERLAP
    assert told.is_new(notice("today"))
    assert not told.is_new(later)


def test_a_clock_that_goes_back_brings_nothing_back() -> None:
    told = after_sending(FIRST, [notice("a")], latest=NOW, now=NOW - timedelta(days=1), standing=())
    assert told.since == FIRST.since


def test_the_cursor_is_bounded_and_the_oldest_go_for_good() -> None:
    notices = [notice(f"{number}", seconds=number / 100) for number in range(MOST + 100)]
    told = after_sending(FIRST, notices, latest=NOW, now=NOW, standing=())
    assert len(told.told) == MOST
    assert not any(map(told.is_new, notices))


@each_case("text", ["", "{}", "[]", '{"since": "x", "told": {}, "standing": []}', "[" * 100_000], ids=len)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        decode(text)
