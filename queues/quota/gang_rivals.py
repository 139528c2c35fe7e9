"""Which of the gangs in placement give back what they have, so that others get their nodes.

kube-scheduler places the pods of a gang one by one. Two gangs may hold half of the nodes each, and wait for
each other for ever. So a gang has a time in which its minimum is to be on nodes; what it does not get in that
time, it gives back, and waits for another try.

Gangs are rivals where both have pods on nodes, and one requests for its other pods what the other one
requests, too. Of two rivals

| that are            | the one stays                                                                     |
|---------------------|-----------------------------------------------------------------------------------|
| in one queue        | with the higher ticket: priority of the gang, creation, UID                       |
| in different queues | whose pods have the higher priority, which a ResourceQuota can bound. Where it is |
|                     | equal none has to go for the other one; where the time of both is over, the one   |
|                     | that was released later goes first                                                |

| of the gangs in placement              | gives back                                                        |
|----------------------------------------|-------------------------------------------------------------------|
| is within its time                     | only for a rival whose time is over, and that stays (see above)   |
| has a time of more than                | also once that time is over, if the time of a rival is            |
| `PLACEMENT_SECONDS`                    |                                                                   |
| its time is over, it has no node       | at once: it is in nobody's way, and its quota may serve others    |
| its time is over, it has nodes         | if it is the first that has to. While it has rivals that do not   |
|                                        | stay, these go before it                                          |
| has got no node for twice its time, or | whatever its rank: all that others gave back did not help it      |
| twice `PLACEMENT_SECONDS`              |                                                                   |
| cannot (pods that nobody makes again)  | never: it keeps what it has, and says so                          |
| gives back already                     | the next one with nodes waits for it: in its scope                |
|                                        | `GIVE_BACK_SECONDS` at most, elsewhere `OTHERS_SECONDS`           |
| is held: its queue is stopped          | never, and no other one for it; its time begins anew with the     |
|                                        | resume                                                            |

A rival goes once it has got no node for `SETTLE_SECONDS`: who still gets nodes may soon have all of them, and
end. Until then the other one waits.

Only one with nodes gives back at a time; the next one of its scope `SETTLE_SECONDS` after the pods of the
last are gone, so that kube-scheduler gives to others what has become free. A scope is the queue whose
capability gangs share (`usage.scope_of`): how long its pods take to end delays no other scope for longer
than `OTHERS_SECONDS`.

Invariant: no field that the owner of a gang writes, other than the class of its pods, has a gang of another
queue give back, or wait for longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from queues.quota.placement_time import PLACEMENT_SECONDS
from queues.quota.pod_classes import Rank

#: kube-scheduler has so long to give to others what has become free.
SETTLE_SECONDS = 30.0
#: Pods that are evicted may end so slowly that the others of their scope wait no longer; and those elsewhere.
GIVE_BACK_SECONDS, OTHERS_SECONDS = 300.0, 60.0


class Placing(msgspec.Struct):
    """A gang in placement. `priority`: the least of its pods; `ticket` has that of the gang. `scope`: the
    queue whose capability it shares with others. `resources`: what its pods without a node request.
    `seconds`: its time. `is_able`: whether it can give back. `since`: its release. `placed`: its pods on
    nodes. `progressed`: when one of them got its node last; the release, before that. `began`: when it began
    to give back. `is_held`: its queue is stopped, so that none of its pods can be placed. `tried_since`: its
    first release since it has failed, where its time has begun anew after that.
    """

    uid: str
    ticket: Rank
    resources: frozenset[str]
    since: float
    progressed: float
    queue: str = ""
    scope: str = ""
    priority: int = 0
    seconds: float = PLACEMENT_SECONDS
    is_able: bool = True
    placed: int = 0
    began: float | None = None
    is_held: bool = False
    tried_since: float | None = None

    @property
    def due(self) -> float:
        """The end of its time."""
        return self.since + self.seconds

    @property
    def due_for_rivals(self) -> float:
        """The same, for those whose time is over."""
        return self.since + min(self.seconds, PLACEMENT_SECONDS)

    @property
    def stuck_at(self) -> float:
        """When it has waited for long enough for others to give back, once its time is over."""
        return self.progressed + 2 * min(self.seconds, PLACEMENT_SECONDS)


class Pace(msgspec.Struct):
    """From when on the next gang with nodes may begin to give back: any, and of each scope."""

    of_all: float = -math.inf
    of_scopes: dict[str, float] = {}

    def began(self, *, now: float) -> None:
        """A gang with nodes begins to give back."""
        self.of_all = now + OTHERS_SECONDS

    def ended(self, scope: str, *, now: float) -> None:
        """The pods of one are gone."""
        self.of_scopes[scope] = now + SETTLE_SECONDS
        self.of_all = min(self.of_all, now + SETTLE_SECONDS)

    def due(self) -> Iterable[float]:
        return self.of_all, *self.of_scopes.values()


def who_gives_back(placing: Collection[Placing], *, now: float, pace: Pace) -> list[Placing]:
    """Those that begin to give back now."""
    staying = [gang for gang in placing if gang.began is None and not gang.is_held]
    over = [gang for gang in staying if now >= gang.due]
    if not over:
        return []
    without_nodes = [gang for gang in over if gang.is_able and not gang.placed]
    if now < pace.of_all:
        return without_nodes
    waits = {scope for scope, until in pace.of_scopes.items() if now < until}
    for gang in placing:
        if gang.placed and gang.began is not None and now < gang.began + GIVE_BACK_SECONDS:
            waits.add(gang.scope)
    holders = [gang for gang in staying if gang.placed]
    chosen = _one_with_nodes(holders, [gang for gang in over if gang.placed], waits=waits, now=now)
    return without_nodes + ([] if chosen is None else [chosen])


def _one_with_nodes(
    holders: Sequence[Placing], over: Sequence[Placing], *, waits: Collection[str], now: float
) -> Placing | None:
    """`holders`: those with nodes. `over`: of these, the ones whose time is over. `waits`: the scopes of
    which none may begin now.
    """
    able = [gang for gang in holders if gang.is_able]
    needs = _Ranks([gang for gang in over if now < gang.stuck_at], best=min)
    others = _Ranks(able, best=max)
    may_go = [gang for gang in able if gang.scope not in waits]
    due = [
        gang for gang in may_go if now >= gang.due or (now >= gang.due_for_rivals and needs.has_rivals(gang))
    ]
    stuck = [gang for gang in due if now >= gang.stuck_at]
    if stuck:
        return _first(stuck, best=min)
    by_themselves = [gang for gang in due if not others.has_lower(gang)]
    rivals = [
        gang
        for gang in may_go
        if now >= min(gang.due, gang.progressed + SETTLE_SECONDS) and needs.has_higher(gang)
    ]
    return _first([*by_themselves, *rivals], best=max)


class _Ranks:
    """The highest, or the lowest, ranks of gangs, by what they request: there may be ten thousand."""

    def __init__(self, gangs: Iterable[Placing], *, best: Callable[..., Any]) -> None:
        """`best`: min, for the highest ones; max, for the lowest ones."""
        self._tickets: dict[str, dict[frozenset[str], Rank]] = {}
        by_queue: dict[frozenset[str], dict[str, int]] = {}
        for gang in gangs:
            tickets = self._tickets.setdefault(gang.queue, {})
            tickets[gang.resources] = best(tickets.get(gang.resources, gang.ticket), gang.ticket)
            places = by_queue.setdefault(gang.resources, {})
            places[gang.queue] = best(places.get(gang.queue, -gang.priority), -gang.priority)
        #: The best two, of different queues.
        self._places = {
            resources: sorted(((place, queue) for queue, place in of.items()), reverse=best is max)[:2]
            for resources, of in by_queue.items()
        }

    def has_higher(self, gang: Placing) -> bool:
        """Whether a rival stays where one of the two has to go. `best` was min."""
        return any(ticket < gang.ticket for ticket in self._own(gang)) or any(
            place < -gang.priority for place in self._elsewhere(gang)
        )

    def has_lower(self, gang: Placing) -> bool:
        """Whether there is a rival that goes where one of the two has to. `best` was max."""
        return any(ticket > gang.ticket for ticket in self._own(gang)) or any(
            place > -gang.priority for place in self._elsewhere(gang)
        )

    def has_rivals(self, gang: Placing) -> bool:
        return any(ticket != gang.ticket for ticket in self._own(gang)) or any(
            True for _ in self._elsewhere(gang)
        )

    def _own(self, gang: Placing) -> Iterator[Rank]:
        tickets = self._tickets.get(gang.queue, {})
        return (each for resources, each in tickets.items() if not resources.isdisjoint(gang.resources))

    def _elsewhere(self, gang: Placing) -> Iterator[int]:
        for resources, places in self._places.items():
            if not resources.isdisjoint(gang.resources):
                yield from (place for place, queue in places if queue != gang.queue)


def _first(gangs: Iterable[Placing], *, best: Callable[..., Any]) -> Placing | None:
    """The gang of the highest (min), or the lowest (max) rank: in each queue by the tickets; of these by the
    priority of their pods, and by their release.
    """
    by_queue: dict[str, Placing] = {}
    for gang in gangs:
        by_queue[gang.queue] = best(by_queue.get(gang.queue, gang), gang, key=lambda each: each.ticket)
    ranks = {(-gang.priority, gang.since, gang.uid): gang for gang in by_queue.values()}
    return ranks[best(ranks)] if ranks else None
