"""What users are told of windows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from queues.windows.rules import coming, windows_on
from queues.windows.texts import author, clock, get_text, length, tree_text
from queues.windows.zones import time_zone
from tests.queues.windows.cases import utc, weekly, windows
from tests.support.cases import each_case

NIGHTLY = windows(weekly("0 2 * * *", "2h", name="nightly", stopPolicy="HoldAndDrain", reason="back\nups"))
NOW = utc(2026, 11, 1, 1, 30)


def test_a_table_says_what_holds_until_when_and_which_window_it_is() -> None:
    [on] = windows_on(NIGHTLY, NOW)
    assert get_text(on, now=NOW) == "HoldAndDrain until 04:00 CET, window nightly"


def test_below_it_and_in_the_history_it_is_named() -> None:
    assert tree_text("nightly", "research") == "window nightly of research"
    assert author("nightly") == "sluice: window nightly"


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        (weekly("0 2 * * SUN", "2h"), ("Sun 8 Nov 02:00 CET", "2h")),
        (weekly("0 2 4 7 *", "1h30m"), ("Sun 4 Jul 2027 02:00 CEST", "1h30m")),
        (weekly("0 2 * * *", "744h", "America/Sao_Paulo"), ("Sun 1 Nov 02:00 UTC-03", "31d")),
        (
            {"from": "2026-12-20T00:00Z", "until": "2027-01-04T05:30Z", "state": "Suspended"},
            ("Sun 20 Dec 00:00 UTC", "15d5h"),
        ),
    ],
)
def test_what_is_next_says_the_day_in_the_zone_of_the_window(
    given: dict[str, Any], texts: tuple[str, str]
) -> None:
    found = windows(given)
    [occurrence] = coming(found, NOW, number=1)
    start = clock(occurrence.start, found.windows[0].zone, now=NOW, with_day=True)
    assert (start, length(occurrence.end - occurrence.start)) == texts


def test_another_day_and_another_year_are_said() -> None:
    berlin = time_zone("Europe/Berlin")
    assert clock(utc(2026, 11, 1, 22, 59), berlin, now=NOW) == "23:59 CET"
    assert clock(utc(2026, 11, 1, 23), berlin, now=NOW) == "Mon 2 Nov 00:00 CET"
    assert clock(utc(2027, 1, 3, 23), berlin, now=NOW) == "Mon 4 Jan 2027 00:00 CET"
    assert clock(utc(2026, 11, 1, 4), None, now=NOW) == "04:00 UTC"


@each_case(
    ("seconds", "text"),
    [
        (-5, "0m"),
        (0, "0m"),
        (1, "1m"),
        (60, "1m"),
        (3600, "1h"),
        (5400, "1h30m"),
        (90060, "1d1h"),
        (86460, "1d1m"),
    ],
)
def test_lengths(seconds: int, text: str) -> None:
    assert length(timedelta(seconds=seconds)) == text
