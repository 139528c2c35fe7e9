"""The calendar, as a library reads it that others use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import icalendar
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_queue.views.calendar import END, LINE, calendar, folded, uid
from kubectl_queue.views.windows import WindowRow, WindowState
from queues.states import StopPolicy
from tests.support.examples import examples
from tests.support.plugin.harness import NOW

HOSTILE = "a;b,c\\n\\d\r\nEND:VEVENT\nBEGIN:VEVENT\u2028\x00\x1b[31m é😀" * 9


def row(**fields: Any) -> WindowRow:
    start = NOW + timedelta(hours=1)
    known: dict[str, Any] = {
        "queue": "research",
        "window": "nightly",
        "zone": "Europe/Berlin",
        "scheduled": start,
        "start": start,
        "end": start + timedelta(hours=2),
        "standing": WindowState.NEXT,
        "sets": "HoldAndDrain",
        "state": None,
        "policy": StopPolicy.HOLD_AND_DRAIN,
        "reason": "backup",
    }
    return WindowRow(**{**known, **fields})


def events(*rows: WindowRow) -> list[Any]:
    read = icalendar.Calendar.from_ical(calendar(rows, now=NOW))
    assert not read.errors
    return list(read.walk("VEVENT"))


def test_an_occurrence_is_an_event_in_utc() -> None:
    [event] = events(row())
    assert event["SUMMARY"] == "research: HoldAndDrain (nightly)"
    told = 'backup\nwindow nightly of queue "research": kubectl queue windows research'
    assert event["DESCRIPTION"] == told
    assert (event["DTSTART"].dt, event["DTEND"].dt) == (NOW + timedelta(hours=1), NOW + timedelta(hours=3))
    assert b"DTSTART:20300101T130000Z\r\n" in event.to_ical()
    assert (event["STATUS"], event["TRANSP"]) == ("CONFIRMED", "TRANSPARENT")
    assert not event.errors


def test_one_that_is_left_out_is_cancelled() -> None:
    [event] = events(row(standing=WindowState.SKIPPED))
    assert event["STATUS"] == "CANCELLED"


def test_the_same_occurrence_has_the_same_uid_when_it_is_moved_and_another_has_another() -> None:
    first, later = row(), row(scheduled=NOW)
    moved = row(start=NOW, end=NOW + timedelta(hours=1), standing=WindowState.ON)
    assert uid(first) == uid(moved)
    assert len({uid(each) for each in (first, later, row(queue="other"), row(window="other"))}) == 4


@pytest.mark.parametrize("field", ["reason", "queue", "window"])
def test_texts_of_users_stay_in_their_property(field: str) -> None:
    [event] = events(row(**{field: HOSTILE}))
    assert set(event) == {
        *("UID", "DTSTAMP", "DTSTART", "DTEND", "SUMMARY", "DESCRIPTION", "CATEGORIES", "STATUS", "TRANSP")
    }
    text = event["DESCRIPTION"] if field == "reason" else event["SUMMARY"]
    assert "a;b,c\\n\\d END:VEVENT BEGIN:VEVENT [31m é😀" in text


@examples(200)
@given(st.text(max_size=400), st.text(max_size=80))
def test_whatever_is_written_is_read_again(reason: str, window: str) -> None:
    text = calendar([row(reason=reason, window=window)], now=NOW)
    assert all(len(line.encode("utf-8", "replace")) <= LINE for line in text.split(END))
    assert "\n" not in text.replace(END, "")
    [event] = events(row(reason=reason, window=window))
    assert event["UID"] == uid(row(window=window))


@examples(200)
@given(st.text(min_size=1, max_size=300).filter(lambda text: "\n" not in text))
def test_folding_is_undone_by_who_reads(text: str) -> None:
    first, *rest = folded(text)
    assert first + "".join(part.removeprefix(" ") for part in rest) == text
    assert all(part.startswith(" ") for part in rest)
