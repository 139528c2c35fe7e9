"""How the server's limits are shared by the drains that there are.

Invariants
- Each drain may use its max-min fair share of `drain_in_flight` and of `drain_rate`
  (`queues.drain.fair_shares`): of what it can use now, by its own settings and by what was planned.
- A drain that begins does not wait for the pods of others: it has its share at once. So while shares shrink
  there may be more pods in flight than the limit, twice as many at most; beyond that only a unit that is
  larger than its drain's share, and goes alone.
- Of drains that cannot have equal shares, those that sent nothing for the longest time come first.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.drain.executor import Drain
from queues.drain.fair_shares import fair_shares

#: So many times the limit may be in flight while shares shrink.
MAX_OVERCOMMIT = 2
#: Rates are shared in thousandths of an eviction a second.
PARTS = 1000


def share_limits(drains: Collection[Drain], *, rate: float, in_flight: int) -> None:
    """Tell each drain its share of both limits."""
    ordered = sorted(drains, key=lambda drain: (drain.last_sent_at, drain.by))
    flights = fair_shares(in_flight, {drain.by: drain.demand for drain in ordered})
    rates = fair_shares(int(rate * PARTS), {drain.by: _rate_demand(drain, rate) for drain in ordered})
    active = sum(1 for drain in ordered if drain.has_steps)
    for drain in ordered:
        share = max(rates[drain.by], 1) / PARTS if drain.has_steps else rate / (active + 1)
        drain.set_shares(in_flight=flights[drain.by], rate=share)


def spare_places(flying: int, *, in_flight: int) -> int:
    """Pods that all drains together may still have in flight, where so many are."""
    return max(0, MAX_OVERCOMMIT * in_flight - flying)


def _rate_demand(drain: Drain, rate: float) -> int:
    return int(min(drain.spec.rate or rate, rate) * PARTS) if drain.has_steps else 0
