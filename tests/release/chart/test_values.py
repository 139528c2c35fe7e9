"""The schema of the chart's values has the ranges and words of the server's own table of settings."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from release.chart.values import VALUES, settings_schema
from server.settings import CHOICES, RANGES, Settings, SettingsError
from tests.server.test_settings import VALUES as SETTINGS
from tests.support.cases import each_case

SCHEMA = settings_schema(frozenset())
TAKES = jsonschema_rs.validator_for(dict(SCHEMA)).is_valid
OF_SETTINGS: dict[str, Any] = SCHEMA["properties"]


def server_takes(name: str, value: Any) -> bool:
    try:
        Settings(**{name: value})
    except SettingsError:
        return False
    return True


def test_each_number_has_a_range_and_each_range_is_of_a_number() -> None:
    numbers = {name for name in Settings.__struct_fields__ if type(getattr(Settings(), name)) is int}
    assert RANGES.keys() == numbers


@each_case("name", sorted(RANGES.keys() & OF_SETTINGS.keys()))
def test_chart_and_server_take_the_same_numbers(name: str) -> None:
    first, last = RANGES[name].first, RANGES[name].last
    tried = [first - 1, first, last, last + 1]
    assert [TAKES({name: number}) for number in tried] == [False, True, True, False]
    assert [server_takes(name, number) for number in tried] == [False, True, True, False]
    assert OF_SETTINGS[name]["description"].endswith(f"from {first} to {last}")
    assert not TAKES({name: str(first)})
    assert not TAKES({name: first + 0.5})


@pytest.mark.parametrize("name", sorted(CHOICES.keys() & OF_SETTINGS.keys()))
def test_chart_and_server_take_the_same_words(name: str) -> None:
    tried = [*CHOICES[name], "", "other"]
    assert [TAKES({name: word}) for word in tried] == [server_takes(name, word) for word in tried]


@each_case("name", sorted(OF_SETTINGS.keys() & SETTINGS.keys() - {"api_server_callers"}))
def test_the_chart_takes_what_the_server_takes(name: str) -> None:
    for _, value in SETTINGS[name]:
        assert TAKES({name: list(value) if isinstance(value, tuple) else value}), value


@each_case(
    ("name", "value"),
    [
        ("hosts", ["a_b"]),
        ("hosts", ["https://a"]),
        ("api_servers", ["http://a"]),
        ("api_servers", [""]),
        ("api_server_callers", []),
        ("controller_users", ["a,b"]),
        ("controller_users", [" "]),
    ],
)
def test_the_chart_refuses_what_would_reach_the_server_as_something_else(name: str, value: list[str]) -> None:
    """A list is given to the server with commas between its items."""
    assert not TAKES({name: value})


def test_the_image_is_the_one_value_that_has_to_be_set() -> None:
    assert [value.name for value in VALUES if value.required] == ["image.repository"]


@pytest.mark.parametrize("tag", ["v1.33.1", f"v1.33.1@sha256:{'0a' * 32}"])
def test_the_image_of_our_own_scheduler_may_have_a_digest_after_its_tag(tag: str) -> None:
    (schema,) = (value.schema for value in VALUES if value.name == "schedulerImage.tag")
    takes = jsonschema_rs.validator_for(dict(schema)).is_valid
    assert takes(tag)
    assert not takes(f"{tag}@sha256:0a")
