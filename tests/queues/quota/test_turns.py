"""Whose release is sent when: thousands of one queue hold up nobody else's."""

from __future__ import annotations

import pytest

from queues.quota.turns import turns


@pytest.mark.parametrize(
    ("pending", "chosen", "expected"),
    [
        ([], ["a", "a", "b"], [0, 1, 0]),
        ([("a", number) for number in range(100, 500)], ["b", "a", "b"], [100, 500, 101]),
        ([("a", 7), ("b", 3)], ["b", "a", "c"], [4, 8, 3]),
    ],
)
def test_each_queue_has_one_in_a_turn(
    pending: list[tuple[str, int]], chosen: list[str], expected: list[int]
) -> None:
    assert turns(pending, chosen) == expected
