"""What the rows of the tree say beside the words that `kubectl queue tree` prints of them."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_queue.views.queue_tree import tree_rows
from tests.support.plugin.harness import item, snapshot

BLOCKED = {"conditions": [{"type": "Drained", "status": "False", "reason": "Blocked"}]}


@pytest.mark.parametrize(
    ("policy", "status", "pending", "drained"),
    [
        ("Hold", {"stop": {"waitingFor": "PassOpen: pod ns/p"}}, True, ""),
        ("Hold", {}, False, ""),
        ("None", {"stop": {"waitingFor": "PassOpen: pod ns/p"}, **BLOCKED}, False, ""),
        ("HoldAndDrain", BLOCKED, False, "Blocked"),
    ],
    ids=["pending", "the server does not say", "it has ended", "blocked"],
)
def test_stops_that_are_pending_and_drains_that_are_blocked_are_told_without_reading_words(
    policy: str, status: dict[str, Any], *, pending: bool, drained: str
) -> None:
    (row,) = tree_rows(snapshot(item("b", stopPolicy=policy, status=status)), top="b")
    assert (row.stop_pending, row.drained) == (pending, drained)


def test_queues_of_a_cycle_and_those_without_a_parent_have_one_row_each() -> None:
    queues = snapshot(item("a", parent="b"), item("b", parent="a"), item("c", parent="none"), item("d"))
    assert [(row.name, row.parent) for row in tree_rows(queues)] == [
        ("root", ""),
        ("d", "root"),
        ("c", ""),
        ("a", ""),
        ("b", "a"),
    ]
