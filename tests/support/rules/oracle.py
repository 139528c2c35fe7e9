"""The rules of the design's section 3 a second time, slowly and by another way.

The code walks from a queue to its parents. Here every queue is told again and again what its
parent knows until nobody learns anything new, so that cycles and gaps need no thought.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from queues.queue import Queue

STRICTNESS = ("None", "Hold", "HoldAndDrain")


class Truth(NamedTuple):
    """What must be true of one queue; `above` is its chain as a set, itself included."""

    state: str
    accepts: bool
    schedules: bool
    drains: bool
    policy: str
    broken: bool
    above: frozenset[str]


def truths(queues: Mapping[str, Queue], *, members: Collection[str] = (), now: datetime) -> dict[str, Truth]:
    """What must be true of every queue; `members` are the queues with live members of their own."""
    everyone = {"root": Queue(name="root", parent=None), **queues}
    above = _everyone_above(everyone)
    return {name: _truth(name, everyone, above, members=members, now=now) for name in everyone}


def live_below(queues: Mapping[str, Queue], name: str, members: Collection[str]) -> bool:
    """Whether a member of the queue, or of one that has it on its chain, is live."""
    above = _everyone_above({"root": Queue(name="root", parent=None), **queues})
    return any(name in above[other] for other in members if other in above)


def _everyone_above(everyone: Mapping[str, Queue]) -> dict[str, frozenset[str]]:
    above = {name: frozenset({name}) for name in everyone}
    while True:
        told = {
            name: known if name == "root" else known | above.get(str(everyone[name].parent), frozenset())
            for name, known in above.items()
        }
        if told == above:
            return above
        above = told


def _truth(
    name: str,
    everyone: Mapping[str, Queue],
    above: Mapping[str, frozenset[str]],
    *,
    members: Collection[str],
    now: datetime,
) -> Truth:
    broken = "root" not in above[name]
    states = [state for one in above[name] for state in _asks(everyone[one], now)]
    policy = max((_policy(everyone[one], now) for one in above[name]), key=STRICTNESS.index)
    live = any(name in above[one] for one in members if one in above)
    return Truth(
        state=_state(_asks(everyone[name], now), states, broken=broken, live=live),
        accepts=not broken and "Closed" not in states,
        schedules=not broken and "Suspended" not in states and policy == "None",
        drains=policy == "HoldAndDrain",
        policy=policy,
        broken=broken,
        above=above[name],
    )


def _state(own: list[str], states: list[str], *, broken: bool, live: bool) -> str:
    rules = (
        ("Unknown", own == ["Open"] and broken),
        ("Closed", "Closed" in states and not live),
        ("Suspended", "Suspended" in states),
        ("Closing", "Closed" in states),
        ("Open", True),
    )
    return next(state for state, holds in rules if holds)


def _asks(queue: Queue, now: datetime) -> list[str]:
    """What is being deleted asks to be Closed as well."""
    return [_desired(queue, now), *(["Closed"] if queue.terminating else [])]


def _desired(queue: Queue, now: datetime) -> str:
    return "Open" if queue.desired == "Suspended" and _over(queue, now) else str(queue.desired)


def _policy(queue: Queue, now: datetime) -> str:
    return "None" if _over(queue, now) else str(queue.stop_policy)


def _over(queue: Queue, now: datetime) -> bool:
    return queue.resume_at is not None and not now < queue.resume_at
