"""The setting `managed_namespaces`: what it selects, and what is said of namespaces that it does not."""

from __future__ import annotations

import pytest

from queues.apimachinery.label_selectors import BadSelector
from queues.managed_namespaces import (
    manages,
    no_effect_warning,
    read_selector,
    remaining_warnings,
    staying_text,
    unmanaged_text,
)
from queues.messages import WARNING_LIMIT
from tests.support.cases import each_case

MANAGED = {"sluice.dev/managed": "true"}


@each_case(
    ("text", "labels", "selected"),
    [
        ("sluice.dev/managed=true", MANAGED, True),
        ("sluice.dev/managed=true", {"sluice.dev/managed": "false"}, False),
        (" a=1, b=2 ", {"a": "1", "b": "2"}, True),
        ("a=1,b=2", {"a": "1"}, False),
        ('{"matchLabels": {"a": "1"}}', {"a": "1"}, True),
        ('{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["no"]}]}', {}, True),
        ('{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["no"]}]}', {"a": "no"}, False),
    ],
)
def test_it_selects_namespaces_by_their_labels(text: str, labels: dict[str, str], selected: bool) -> None:
    assert manages(read_selector(text), labels) is selected
    assert manages(read_selector(text), None) is None, "not known is neither"


@pytest.mark.parametrize("text", ["", "  "])
def test_without_it_every_namespace_is_managed(text: str) -> None:
    assert manages(read_selector(text), None) is True


@each_case(
    "text",
    [
        "managed",
        "a=1,a=2",
        "a b=c",
        "a=1,",
        "{",
        "{}",
        '{"matchLabels": {}}',
        '{"matchLabel": {"a": "1"}}',
        '{"matchExpressions": [{"key": "a", "operator": "In"}]}',
        "sluice.dev/guard=true",
        "sluice.dev/member-namespace=true",
    ],
)
def test_what_selects_everything_nothing_or_by_what_we_write_is_refused(text: str) -> None:
    with pytest.raises(BadSelector):
        read_selector(text)


def test_what_is_said_names_the_label_that_is_missing_and_the_way_out() -> None:
    selector = read_selector("sluice.dev/managed=true")
    assert selector is not None
    assert unmanaged_text("team", selector, {}) == (
        'namespace "team" is not managed by sluice (no sluice.dev/managed=true): nothing that is created in '
        "it is in a queue; to have it managed: "
        "kubectl label namespace team --overwrite sluice.dev/managed=true"
    )
    warning = no_effect_warning("team", selector, {})
    assert warning.endswith("(no sluice.dev/managed=true): its queue has no effect")
    assert len(warning) <= WARNING_LIMIT


def test_the_members_that_stay_are_counted_and_a_queue_is_named() -> None:
    assert [len(list(remaining_warnings("team", {}))), len(list(remaining_warnings("t", {"a": 1})))] == [1, 2]
    first, second = remaining_warnings("n" * 63, {"q" * 253: 120_000, "b": 1, "c": 2})
    assert second.startswith('120003 pods stay in queue "b" and 2 more until gone; ')
    assert max(len(first), len(second)) <= WARNING_LIMIT


def test_a_start_says_how_many_members_are_left_where_the_setting_selects_nothing() -> None:
    assert staying_text({"b": 2, "a": 1}) == (
        'namespaces that are not managed: 3 pods stay in queue "a" and 1 more until gone; '
        "stops hold for them, and them alone"
    )
