"""`volcano.sh/preemptable`: annotation before label, as Go reads booleans."""

from __future__ import annotations

import pytest

from queues.metadata.keys import PREEMPTABLE
from queues.policies.preemptable import preemptable_in
from tests.support.cases import each_case


@pytest.mark.parametrize("value", ["1", "t", "T", "true", "True", "TRUE"])
def test_what_go_takes_for_true_is_preemptable(value: str) -> None:
    assert preemptable_in({PREEMPTABLE: value}, None) is True


@pytest.mark.parametrize(
    "value", ["0", "f", "F", "false", "False", "FALSE", "", " true", "yes", "tRUE", "on", "x" * 300_000]
)
def test_what_is_false_or_no_boolean_is_not(value: str) -> None:
    assert preemptable_in(None, {PREEMPTABLE: value}) is False


@each_case(
    ("annotations", "labels", "expected"),
    [
        (None, None, None),
        ({}, {"app": "x"}, None),
        ({PREEMPTABLE: "true"}, {PREEMPTABLE: "false"}, True),
        ({PREEMPTABLE: "x"}, {PREEMPTABLE: "true"}, False),
        ({"app": "x"}, {PREEMPTABLE: "true"}, True),
    ],
)
def test_the_annotation_comes_before_the_label(
    annotations: dict[str, str] | None, labels: dict[str, str] | None, *, expected: bool | None
) -> None:
    assert preemptable_in(annotations, labels) is expected
