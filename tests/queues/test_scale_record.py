"""What a drain remembers of what it brought to zero: the table of `queues.scale_record`, as values."""

from __future__ import annotations

from itertools import product

import pytest

from queues.scale_record import (
    MANAGER,
    MAX_REPLICAS,
    RecordStep,
    ScaleRecord,
    is_set_by_others,
    kept_at_zero,
    parse_scale_record,
    record_step,
)
from tests.support.cases import each_case

RECORD = "research/3"


@pytest.mark.parametrize("replicas", [1, 3, MAX_REPLICAS])
def test_a_record_is_read_as_it_was_written(replicas: int) -> None:
    record = ScaleRecord("research", replicas)
    assert parse_scale_record(str(record)) == record


@each_case(
    "mark",
    [
        "research",
        "research/",
        "/3",
        "research/0",
        "research/-1",
        "research/+3",
        "research/3.0",
        "research/ 3",
        "research/\u0663",
        "research/3/4",
        f"research/{MAX_REPLICAS + 1}",
        "research/" + "9" * 5000,
    ],
)
def test_what_spec_replicas_cannot_be_is_no_record(mark: str) -> None:
    assert parse_scale_record(mark) is None
    assert kept_at_zero(mark, replicas=0, controlled=False) == 0
    step = record_step(mark, replicas=0, controlled=False, set_by_others=False, schedules=True)
    assert step is RecordStep.DROP


def test_where_there_is_no_record_nothing_is_done() -> None:
    for replicas, schedules in product([0, 3], [False, True]):
        step = record_step("", replicas=replicas, controlled=False, set_by_others=True, schedules=schedules)
        assert step is RecordStep.NONE
    assert kept_at_zero("", replicas=0, controlled=False) == 0


@each_case(("replicas", "controlled"), list(product([0, 1, 3, None], [False, True])))
def test_a_record_counts_at_zero_and_on_what_nobody_controls(replicas: int | None, controlled: bool) -> None:
    counts = 3 if (replicas, controlled) == (0, False) else 0
    assert kept_at_zero(RECORD, replicas=replicas, controlled=controlled) == counts


@each_case("schedules", [False, True])
@each_case(
    ("replicas", "controlled", "others"), list(product([0, 1, 3, 4, None], [False, True], [False, True]))
)
def test_only_what_is_still_ours_is_put_back(
    replicas: int | None, controlled: bool, others: bool, schedules: bool
) -> None:
    step = record_step(
        RECORD, replicas=replicas, controlled=controlled, set_by_others=others, schedules=schedules
    )
    if (replicas, controlled, others) != (0, False, False):
        assert step is RecordStep.DROP
    else:
        assert step is (RecordStep.PUT_BACK if schedules else RecordStep.NONE)


def entry(manager: str, *fields: str) -> dict[str, object]:
    return {"manager": manager, "fieldsV1": {"f:spec": {f"f:{field}": {} for field in fields}}}


def test_whoever_manages_spec_replicas_has_set_it() -> None:
    ours, template = entry(MANAGER, "replicas"), entry("kubectl", "template")
    assert not is_set_by_others([template, ours])
    assert is_set_by_others([template, ours, entry("kubectl", "template", "replicas")])


def test_a_scale_to_zero_leaves_spec_replicas_without_a_manager() -> None:
    assert is_set_by_others([entry("kubectl", "template")])
    assert is_set_by_others([{"manager": MANAGER, "fieldsV1": {"f:spec": 3}}])


@pytest.mark.parametrize("fields", [None, []])
def test_where_there_are_no_managed_fields_nobody_has(fields: list[dict[str, object]] | None) -> None:
    """A user can empty them."""
    assert not is_set_by_others(fields)
