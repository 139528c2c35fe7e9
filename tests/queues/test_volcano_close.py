"""Which queues count as closed by Volcano: by their spec, status and annotations."""

from __future__ import annotations

from typing import Any

from queues.volcano_close import CLOSED_BY_PARENT, is_closed_by_volcano
from tests.support.cases import each_case

_BY_VOLCANO: dict[str, Any] = {
    "name": "q",
    "spec_state": None,
    "status_state": "Closed",
    "is_ours": False,
    "annotations": None,
}


@each_case(
    ("difference", "expected"),
    [
        ({}, True),
        ({"status_state": "Closing"}, True),
        ({"annotations": {CLOSED_BY_PARENT: "false"}}, True),
        ({"annotations": {CLOSED_BY_PARENT: "true"}}, False),
        ({"status_state": "Open"}, False),
        ({"status_state": "Unknown"}, False),
        ({"status_state": ""}, False),
        ({"spec_state": "Open"}, False),
        ({"spec_state": "Closed"}, False),
        ({"spec_state": "Suspended"}, False),
        ({"is_ours": True}, False),
        ({"name": "root"}, False),
        ({"name": "default"}, True),
    ],
    ids=str,
)
def test_a_close_is_volcanos_where_only_its_status_says_so(
    difference: dict[str, Any], expected: bool
) -> None:
    assert is_closed_by_volcano(**{**_BY_VOLCANO, **difference}) is expected
