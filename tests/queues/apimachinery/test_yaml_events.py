"""Lines and depths of YAML, before values are built."""

from __future__ import annotations

import pytest
import yaml

from queues.apimachinery.yaml_events import yaml_events


def test_each_event_has_its_line_and_the_depth_after_it() -> None:
    text = "a:\n  - b\n  - {c: d}\n---\ne\n"
    scalars = [
        (each.line, each.depth) for each in yaml_events(text) if isinstance(each.event, yaml.ScalarEvent)
    ]
    assert scalars == [(1, 1), (2, 2), (3, 3), (3, 3), (5, 0)]


def test_what_is_nested_deep_is_read_as_it_comes() -> None:
    assert next(each.line for each in yaml_events("\n" + "[" * 100_000) if each.depth > 64) == 2


def test_what_is_no_yaml_is_an_error_of_the_parser() -> None:
    with pytest.raises(yaml.YAMLError):
        list(yaml_events("a: [b"))
