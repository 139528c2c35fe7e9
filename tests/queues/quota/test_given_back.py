"""The lines that say what was given back: one for a minute, and no more than are kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from queues.quota.given_back import GIVEN_BACK_LIMIT, GivenBack, with_one_more

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def told(*steps: tuple[int, str, str]) -> tuple[GivenBack, ...]:
    """Each after so many seconds, from this queue to that."""
    lines: tuple[GivenBack, ...] = ()
    for seconds, from_, to in steps:
        at = NOW + timedelta(seconds=seconds)
        lines = with_one_more(lines, from_=from_, to=to, action="reclaim", at=at)
    return lines


def test_all_of_a_minute_is_one_line_for_each_pair_of_queues() -> None:
    lines = told((0, "a", "b"), (10, "a", "c"), (60, "a", "b"), (61, "a", "b"))
    assert [(line.to, line.pods, line.at[-6:], line.until[-6:]) for line in lines] == [
        ("b", 2, "00:00Z", "01:00Z"),
        ("c", 1, "00:10Z", "00:10Z"),
        ("b", 1, "01:01Z", "01:01Z"),
    ]


def test_the_oldest_lines_go_first() -> None:
    lines = told(*((number, "a", f"q{number}") for number in range(GIVEN_BACK_LIMIT + 2)))
    assert [line.to for line in lines] == [f"q{number}" for number in range(2, GIVEN_BACK_LIMIT + 2)]
