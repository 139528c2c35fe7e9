"""Durations, times, quantities and ages are read and written as kubectl does it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from kubectl_queue.cli.flag_values import (
    parse_bool,
    parse_duration,
    parse_resources,
    parse_time,
)
from kubectl_queue.edit.operation import apply_patch
from kubectl_queue.views.text import age, human_duration
from tests.support.cases import each_case
from tests.support.plugin.harness import NOW


@each_case(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("2d", 172800), ("250ms", 0.25), ("0", 0)],
)
def test_durations_are_go_s_and_days(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@each_case("text", ["", "h", "5x", "-5m", "5m5", "1h 30m", "99999999d", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"number with a unit|century"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "wrong"), [("5m5", "5"), ("1h30x", "30x")])
def test_the_part_of_a_duration_that_is_none_is_shown(text: str, wrong: str) -> None:
    with pytest.raises(
        ValueError, match=rf'^"{wrong}" is not a number with a unit; it must be a number with a unit'
    ):
        parse_duration(text)


@pytest.mark.parametrize("text", ["t", "TRUE", "1", "true"])
def test_booleans_are_go_s(text: str) -> None:
    assert parse_bool(text) is True
    with pytest.raises(ValueError, match="true or false"):
        parse_bool("yes")


@each_case(
    ("text", "wrong"),
    [
        ("", '"" is not'),
        ("cpu", '"cpu" is not'),
        ("cpu=", '"cpu=" is not'),
        ("=4", '"=4" is not'),
        ("cpu=4,", '"" is not'),
        ("memory=8Gi,cpu=four", '"four" of "cpu=four" is no quantity'),
        ("cpu=4,cpu=5", 'resource "cpu" is named twice'),
        ("cpu=4,Memory=8Gi", '"Memory": nothing counts that, since no pod can request it; did you mean "mem'),
    ],
)
def test_the_part_of_a_resource_list_that_is_wrong_is_shown(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(wrong)}"):
        parse_resources(text)


@pytest.fixture
def berlin() -> Iterator[None]:
    """A zone an hour ahead of UTC in winter."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "CET-1CEST,M3.5.0,M10.5.0/3"
    time.tzset()
    yield
    os.environ.pop("TZ")
    os.environ.update({"TZ": before} if before else {})
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2030-01-31T18:30:00Z", datetime(2030, 1, 31, 18, 30, tzinfo=UTC)),
        ("2030-01-31T18:30:00+02:00", datetime(2030, 1, 31, 16, 30, tzinfo=UTC)),
        ("2030-01-31T18:30", datetime(2030, 1, 31, 17, 30, tzinfo=UTC)),
        ("2030-01-31", datetime(2030, 1, 30, 23, tzinfo=UTC)),
        ("13:01", datetime(2030, 1, 1, 12, 1, tzinfo=UTC)),
        ("13:00", datetime(2030, 1, 2, 12, 0, tzinfo=UTC)),
    ],
)
def test_a_time_without_a_zone_is_on_the_wall_here_and_a_time_of_day_is_the_next_one(
    text: str, at: datetime
) -> None:
    assert parse_time(text)(NOW) == at


@pytest.mark.parametrize(
    ("text", "why"), [("25:00", r"hour must be in 0\.\.23"), ("2030-13-01", r"month must be in 1\.\.12")]
)
def test_the_part_of_a_time_that_is_out_of_its_range_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}.*; it must be a time such as"):
        parse_time(text)


@each_case("text", ["", "tomorrow", "25:00", "12:60", "2030-13-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it must be a time such as"):
        parse_time(text)


@each_case(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (10860, "3h1m"),
        (28800, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (176400, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (731 * 86400, "2y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages_are_rounded_as_kubectl_rounds_them(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_an_object_without_a_date_has_an_unknown_age() -> None:
    assert age(None, now=NOW) == "<unknown>"  # type: ignore[arg-type]


def test_a_merge_patch_sets_removes_and_goes_deep_and_leaves_its_target_alone() -> None:
    target = {"spec": {"a": 1, "b": {"c": 2, "d": 3}}, "kind": "Queue"}
    patch = {"spec": {"a": None, "b": {"c": 4}, "e": [5]}}
    assert apply_patch(target, patch) == {"spec": {"b": {"c": 4, "d": 3}, "e": [5]}, "kind": "Queue"}
    assert target["spec"] == {"a": 1, "b": {"c": 2, "d": 3}}
