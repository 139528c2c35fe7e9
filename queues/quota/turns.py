"""In which turn each release is sent, so that thousands of one queue hold up nobody else's.

A pass has decided who goes; hundreds of patches may wait to be sent then. Each queue has one in each turn, in
the order in which its pods were chosen. What is chosen later for another queue goes with the turn that is the
next, and not behind all that wait.
"""

from __future__ import annotations

from collections.abc import Iterable


def turns(pending: Iterable[tuple[str, int]], chosen: Iterable[str]) -> list[int]:
    """`pending`: queue and turn of those that are not done. `chosen`: the queues of those that follow."""
    last: dict[str, int] = {}
    following: int | None = None
    for queue, turn in pending:
        last[queue] = max(turn, last.get(queue, turn))
        following = turn if following is None else min(turn, following)
    found = []
    for queue in chosen:
        turn = last[queue] + 1 if queue in last else following or 0
        last[queue] = turn
        found.append(turn)
    return found
