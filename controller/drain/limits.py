"""How fast drains may go: fair shares of the server's limits, pauses of a busy API server.

Owner: the controller's thread, through `controller.drain.state`. Times are monotonic seconds.

Invariants
- Each drain may use its max-min fair share of `drain_in_flight` and of `drain_rate`. Its demand is what it
  can use now, by its own settings and its last plan.
- A drain that begins has its share at once, without waiting for the pods of others. So while shares shrink
  more pods than the limit may be in flight, at most `MAX_OVERCOMMIT` times the limit. Only a unit that is
  larger than its drain's share goes beyond that, alone.
- Of drains that cannot have equal shares, those that have sent nothing for the longest time come first.
- An overloaded API server pauses the namespace of the request. It pauses all namespaces only where requests
  of several fail and none succeeds in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Protocol

from cluster.backoff import Backoff

#: So many times the limit may be in flight while shares shrink.
MAX_OVERCOMMIT = 2
#: Rates are shared in thousandths of an eviction a second.
PARTS = 1000
#: The pause after each overload in a row.
PAUSE = Backoff(1.0, 30.0)


class SharingDrain(Protocol):
    """What the shares of a drain depend on, and what takes them."""

    by: str
    demand: int
    has_steps: bool
    last_sent_at: float

    @property
    def own_rate(self) -> float:
        """The rate that the drain's settings ask for; 0 for none."""

    def set_shares(self, *, in_flight: int, rate: float) -> None: ...


def share_limits(drains: Collection[SharingDrain], *, rate: float, in_flight: int) -> None:
    """Give each drain its share of both limits."""
    ordered = sorted(drains, key=lambda drain: (drain.last_sent_at, drain.by))
    places = fair_shares(in_flight, {drain.by: drain.demand for drain in ordered})
    rates = fair_shares(int(rate * PARTS), {drain.by: _rate_demand(drain, rate) for drain in ordered})
    active = sum(1 for drain in ordered if drain.has_steps)
    for drain in ordered:
        share = max(rates[drain.by], 1) / PARTS if drain.has_steps else rate / (active + 1)
        drain.set_shares(in_flight=places[drain.by], rate=share)


def _rate_demand(drain: SharingDrain, rate: float) -> int:
    return int(min(drain.own_rate or rate, rate) * PARTS) if drain.has_steps else 0


def spare_places(flying: int, *, in_flight: int) -> int:
    """How many more pods all drains together may have in flight, where `flying` are."""
    return max(0, MAX_OVERCOMMIT * in_flight - flying)


def fair_shares(limit: int, demands: Mapping[str, int]) -> dict[str, int]:
    """Max-min fair shares of `limit`, in whole units.

    Invariants
    - No share is larger than its demand, and all shares together are no larger than the limit.
    - Nothing is left over while a demand is not met.
    - A share that does not meet its demand is the largest there is, or one less.
    - The remainder goes to the demands that are named first.
    """
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


class OverloadPauses:
    """When requests may be sent again after an overload, by namespace and for all namespaces."""

    def __init__(self) -> None:
        #: By namespace: the end of its pause, and its failures in a row.
        self._by_namespace: dict[str, tuple[float, int]] = {}
        self._until = 0.0
        #: Failures, and the namespaces that they were in, since the last success.
        self._failures = 0
        self._failing: set[str] = set()

    def record_success(self, namespace: str) -> None:
        self._failures = 0
        self._failing.clear()
        self._by_namespace.pop(namespace, None)

    def record_overload(self, namespace: str, *, retry_after: float, now: float) -> None:
        """`retry_after`: seconds that the API server asked for at least."""
        failures = self._by_namespace.get(namespace, (0.0, 0))[1] + 1
        self._by_namespace[namespace] = now + _pause(failures, retry_after=retry_after), failures
        self._failures += 1
        self._failing.add(namespace)
        if len(self._failing) > 1:
            self._until = now + _pause(self._failures, retry_after=retry_after)

    def is_paused(self, namespace: str, *, now: float) -> bool:
        return self._by_namespace.get(namespace, (0.0, 0))[0] > now

    def seconds(self, now: float) -> float:
        """Until requests of any namespace may be sent."""
        return max(0.0, self._until - now)


def _pause(failures: int, *, retry_after: float) -> float:
    return min(max(retry_after, PAUSE.seconds(failures)), PAUSE.longest)
