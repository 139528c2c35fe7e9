"""Moments of all years that the API server takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from queues.apimachinery.timestamps import (
    EARLIEST,
    parse_timestamp,
    rfc3339,
)
from tests.support.cases import each_case

EAST = timezone(timedelta(hours=14))


@each_case(
    ("moment", "text"),
    [
        (datetime(2030, 1, 1, 12, 0, 5, 999, tzinfo=UTC), "2030-01-01T12:00:05Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
        (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), "9999-12-31T23:59:59Z"),
        (datetime(800, 5, 1, 1, tzinfo=EAST), "0800-04-30T11:00:00Z"),
        (datetime(1, 1, 1, tzinfo=EAST), "0001-01-01T00:00:00+14:00"),
    ],
    ids=str,
)
def test_a_moment_is_written_with_four_digits_of_its_year(moment: datetime, text: str) -> None:
    assert rfc3339(moment) == text
    assert parse_timestamp(text) == moment.replace(microsecond=0)


@each_case("text", ["0000-01-01T00:00:00Z", "", "soon", "2030-13-01T00:00:00Z", "1-01-01T00:00:00Z"])
def test_a_text_that_is_no_time_is_the_earliest_one(text: str) -> None:
    assert parse_timestamp(text) == EARLIEST < datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC)
