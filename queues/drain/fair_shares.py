"""What one limit allows each of several that want a part of it: max-min fair shares.

Invariants
- No share is larger than what was demanded, and all shares together are no larger than the limit.
- Nothing is left over while a demand is not met.
- A share that does not meet its demand is the largest there is, or one less: nobody gets more at its expense.
- What cannot be divided goes to those that are named first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping


def fair_shares(limit: int, demands: Mapping[str, int]) -> dict[str, int]:
    """Each one's share of `limit`, in whole units. The order of `demands` decides who gets the remainder."""
    shares = dict.fromkeys(demands, 0)
    left = max(limit, 0)
    unmet = deque(sorted(demands, key=lambda name: demands[name]))
    while unmet and demands[unmet[0]] <= left // len(unmet):
        name = unmet.popleft()
        shares[name] = max(demands[name], 0)
        left -= shares[name]
    if not unmet:
        return shares
    level, remainder = divmod(left, len(unmet))
    rest = set(unmet)
    for place, name in enumerate(name for name in demands if name in rest):
        shares[name] = level + 1 if place < remainder else level
    return shares
