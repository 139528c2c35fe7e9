"""Victims of other queues, and of gangs, that pods were given and that are not seen leaving yet.

preempt offers kube-scheduler several nodes, each with its victims, and is not told which one it takes. Until
that shows, the most that any of them takes from a queue counts as taken. So pods that ask one after the other
do not together take more of a queue than it lends.

| the pod that was given the victims   | what counts as taken                                       |
|--------------------------------------|------------------------------------------------------------|
| has no nominated node yet            | of each queue the most that one node takes, for `SECONDS`  |
| has one of these nodes               | the victims there that do not leave yet, for `SECONDS`     |
| is bound or gone, or asks again      | nothing                                                    |

Threads: request handlers; each use of the table is one operation on a dict, or on a copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Protocol

from queues.apimachinery.quantities import Amount

#: Longer than kube-scheduler takes from the answer to the deletion of the victims.
SECONDS = 5.0
#: Grants that are kept; beyond, the oldest are dropped.
MAX_GRANTS = 1_000

#: What is taken, by queue and resource.
Taken = dict[str, dict[str, Amount]]


class GivenVictim(Protocol):
    """A victim of another queue than the pod that it is given to; or of a gang of the same queue, as one that
    requests nothing. `gang`: the UID of its PodGroup; "" where it goes by itself.
    """

    @property
    def uid(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def requests(self) -> Mapping[str, Amount]: ...
    @property
    def gang(self) -> str: ...


class _Grant:
    """`nodes`: the victims of each node. What they add up to is computed when another pod asks."""

    def __init__(self, until: float, nodes: Mapping[str, Sequence[GivenVictim]]) -> None:
        self.until = until
        self.nodes = nodes

    @cached_property
    def most(self) -> Taken:
        """Of each queue the most that one node takes."""
        most: Taken = {}
        for victims in self.nodes.values():
            for queue, amounts in _sum(victims).items():
                of_queue = most.setdefault(queue, {})
                for resource, amount in amounts.items():
                    of_queue[resource] = max(amount, of_queue.get(resource, 0))
        return most

    @cached_property
    def uids_of_gangs(self) -> frozenset[str]:
        """The UIDs of the victims of gangs, on all nodes."""
        return _uids_of_gangs(chain.from_iterable(self.nodes.values()))


class GivenVictims:
    """What was given, by the UID of the pod that it was given to. Owner: the store."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._grants: dict[str, _Grant] = {}

    def record(self, uid: str, nodes: Mapping[str, Sequence[GivenVictim]]) -> None:
        """Record what the pod was given now, in place of what it was given before."""
        self._grants.pop(uid, None)
        if any(nodes.values()):
            self._grants[uid] = _Grant(self._clock() + SECONDS, nodes)
            for oldest in list(self._grants)[:-MAX_GRANTS]:
                self._grants.pop(oldest, None)

    def taken(
        self, *, asks: str, nominated: Callable[[str], str | None], leaves: Callable[[str], bool]
    ) -> Taken:
        """What other pods than `asks` were given and does not leave yet.

        `nominated`: the nominated node of a waiting pod, or ""; None for a pod that does not wait any more.
        `leaves`: whether a victim is being deleted, or gone.
        """
        total: Taken = {}
        for grant, chosen in self._live(asks, nominated):
            counted = (
                grant.most
                if chosen is None
                else _sum([victim for victim in chosen if not leaves(victim.uid)])
            )
            for queue, amounts in counted.items():
                of_queue = total.setdefault(queue, {})
                for resource, amount in amounts.items():
                    of_queue[resource] = of_queue.get(resource, 0) + amount
        return total

    def uids_of_gangs(self, *, asks: str, nominated: Callable[[str], str | None]) -> frozenset[str]:
        """The UIDs of the victims of gangs that other pods than `asks` were given, on any of the nodes that
        they may take.
        """
        return frozenset().union(
            *(
                grant.uids_of_gangs if chosen is None else _uids_of_gangs(chosen)
                for grant, chosen in self._live(asks, nominated)
            )
        )

    def _live(
        self, asks: str, nominated: Callable[[str], str | None]
    ) -> Iterator[tuple[_Grant, Sequence[GivenVictim] | None]]:
        """What counts still, and the victims of the nominated node, if it is one of those."""
        now = self._clock()
        for uid, grant in list(self._grants.items()):
            node = nominated(uid)
            if uid == asks or node is None or grant.until <= now:
                self._grants.pop(uid, None)
            else:
                yield grant, grant.nodes.get(node)


def _uids_of_gangs(victims: Iterable[GivenVictim]) -> frozenset[str]:
    return frozenset(victim.uid for victim in victims if victim.gang)


def _sum(victims: Sequence[GivenVictim]) -> Taken:
    total: Taken = {}
    for victim in victims:
        of_queue = total.setdefault(victim.queue, {})
        for resource, amount in victim.requests.items():
            of_queue[resource] = of_queue.get(resource, 0) + amount
    return total
