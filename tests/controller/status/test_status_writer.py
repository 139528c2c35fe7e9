"""Which part of a status is written now: essential fields at once, counts when they are due."""

from __future__ import annotations

from typing import Any

import pytest

from controller.status.count_slots import COUNT_SECONDS
from controller.status.queue_status import SHARED_BYTES
from controller.status.status_writer import COUNTS, STATUS, StatusPart, StatusWrite, Wait, part_to_write
from tests.support.cases import each_case

ESSENTIAL: dict[str, Any] = {"state": "Suspended"}
FEW: dict[str, Any] = {"running": 3}
MANY: dict[str, Any] = {"allocated": {"r": "x" * SHARED_BYTES}}


def part(
    difference: dict[str, Any], *, again: float | None = None, due_in: float = 0.0, refused_for: float = 0.0
) -> StatusPart | Wait:
    write = StatusWrite(difference=difference, urgent="state" in difference, again=again)
    return part_to_write(write, counts_due_in=due_in, counts_refused_for=refused_for)


@each_case(
    ("difference", "refused_for", "kind", "fields", "fenced", "again"),
    [
        (ESSENTIAL, 0.0, STATUS, ESSENTIAL, True, None),
        (FEW, 0.0, COUNTS, FEW, False, None),
        (MANY, 0.0, COUNTS, MANY, False, None),
        ({**ESSENTIAL, **FEW}, 0.0, COUNTS, {**ESSENTIAL, **FEW}, True, None),
        ({**ESSENTIAL, **MANY}, 0.0, STATUS, ESSENTIAL, True, COUNT_SECONDS),
        ({**ESSENTIAL, **FEW}, 8.0, STATUS, ESSENTIAL, True, 8.0),
        (ESSENTIAL, 8.0, STATUS, ESSENTIAL, True, None),
    ],
    ids=[
        "essential",
        "few counts",
        "many counts",
        "both",
        "both, many counts",
        "counts refused",
        "no counts",
    ],
)
def test_the_part_that_is_written(
    difference: dict[str, Any],
    refused_for: float,
    kind: str,
    fields: dict[str, Any],
    fenced: bool,
    again: float | None,
) -> None:
    """Counts that are large or were refused are left for later; the essential fields never wait for them."""
    expected = StatusPart(kind=kind, fields=fields, fenced=fenced, again=again)
    assert part(difference, refused_for=refused_for) == expected


def test_essential_fields_do_not_wait_until_counts_are_due() -> None:
    assert isinstance(part(ESSENTIAL, due_in=0.7), StatusPart)


@pytest.mark.parametrize(
    ("due_in", "refused_for", "again", "seconds"),
    [(0.7, 0.0, None, 0.7), (0.7, 0.0, 0.1, 0.1), (0.0, 8.0, None, 8.0), (0.0, 8.0, 0.5, 0.5)],
)
def test_counts_alone_wait(due_in: float, refused_for: float, again: float | None, seconds: float) -> None:
    """Until they are due, or until the API server may take them; no longer than the queue waits anyway."""
    assert part(FEW, again=again, due_in=due_in, refused_for=refused_for) == Wait(seconds)


@pytest.mark.parametrize(
    ("again", "expected"), [(None, COUNT_SECONDS), (0.02, 0.02), (30.0, COUNT_SECONDS)], ids=str
)
def test_counts_that_are_left_follow_soon(again: float | None, expected: float) -> None:
    found = part({**ESSENTIAL, **MANY}, again=again)
    assert isinstance(found, StatusPart)
    assert found.again == expected
