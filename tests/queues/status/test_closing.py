"""What keeps a queue from Closed, in words and as it is stored."""

from __future__ import annotations

from typing import Any

import pytest

from queues.status.closing import ClosingStatus, closing_fields, closing_text, read_closing
from tests.support.cases import each_case

DEPLOYMENT = ClosingStatus(kind="Deployment", namespace="team", name="eval", queue="vision")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "kept from Closed by deployment team/eval of queue vision"),
        ({"others": 3}, "kept from Closed by deployment team/eval and others of queue vision"),
        (
            {"unreadable": "spec.replicas\n"},
            "kept from Closed by deployment team/eval (it cannot be read in full: spec.replicas)"
            " of queue vision",
        ),
        ({"name": "e\x1b[31mval"}, "kept from Closed by deployment team/e [31mval of queue vision"),
    ],
)
def test_a_live_member_is_named_in_words(more: dict[str, Any], text: str) -> None:
    fields = {"kind": "Deployment", "namespace": "team", "name": "eval", "queue": "vision", **more}
    assert closing_text(ClosingStatus(**fields)) == text


def test_without_a_live_member_something_may_still_come() -> None:
    assert closing_text(ClosingStatus()) == "what was admitted before may still come"


@pytest.mark.parametrize("closing", [DEPLOYMENT, ClosingStatus()])
def test_what_is_written_is_read_again(closing: ClosingStatus) -> None:
    """Also that no live member is known, which is another thing than a field that is absent."""
    assert closing_fields(closing)
    assert read_closing(closing_fields(closing)) == closing


@each_case("stored", [None, "x", [], {"others": "many"}, {"name": 1}])
def test_what_the_controller_does_not_write_says_nothing(stored: object) -> None:
    assert read_closing(stored) is None
