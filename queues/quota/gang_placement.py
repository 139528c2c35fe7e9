"""Gangs that were released and have no nodes yet: who gives back what it has, and who is asked for again.

kube-scheduler places the pods of a gang one by one. Two gangs may hold half of the nodes each, and wait for
each other for ever. So a gang has a time in which its minimum is to be on nodes; what it does not get in that
time, it gives back, and waits for another try.

Each gang has a ticket: the rank with which it came first (priority, creation, UID). It keeps it whatever
becomes of it. Of two gangs the one with the lower ticket came later, or is of lower priority.

| of the gangs in placement             | gives back                                                         |
|---------------------------------------|--------------------------------------------------------------------|
| is within its time                    | only for another one (its rival) whose time is over                |
| its time is over, it has no node      | at once: it is in nobody's way, and its quota may serve others.    |
|                                       | While it has rivals, these go before it                            |
| its time is over, it has nodes        | if it has the lowest ticket of those that have to                  |
| has got no node for twice its time    | whatever its ticket: all that others gave back did not help it     |
| cannot (pods that nobody makes again) | never: it keeps what it has, and says so                           |
| gives back already                    | the next one with nodes waits for it, `GIVE_BACK_SECONDS` at most  |
| is held: its queue is stopped         | never, and nobody for it; its time begins anew with the resume     |

A rival of a gang whose time is over has a lower ticket, can give back, has nodes, and requests a resource
that the other lacks too. It goes once it has got no node for `SETTLE_SECONDS`: who still gets nodes may soon
have all of them, and end. Until then the other one waits.

Only one with nodes gives back at a time; the next one `SETTLE_SECONDS` after the pods of the last are gone,
so that kube-scheduler gives to others what has become free.

| after it has given back | rule                                                                             |
|-------------------------|----------------------------------------------------------------------------------|
| pause                   | 10 s, then twice as long each time, 10 min at most; and up to a quarter more, by |
|                         | chance                                                                           |
| place in its queue      | behind its equals: as if it had come when its pause ended                        |
| turn                    | it goes once no other gang that has failed is in placement, the one that has     |
|                         | waited longest first (`usage.TURN`)                                              |
| all of it is on nodes   | its failures are forgotten                                                       |

A gang that has no node at all after a fifth of its time leaves the turn to others, and goes on: nodes may be
on their way. So does one after `TURN_SECONDS`, whatever time it has. Else those that can never be placed
would take all turns.

Invariants
- The highest ticket that can be placed while no other gang has nodes is placed in the end: what is in its way
  runs and ends, gives back for it, or has given back.
- A gang that can never be placed makes others give back only for one of its times, and then waits.
- Time is given: seconds of a clock that never goes back. Chance is given, too.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from queues.quota.pod_classes import Rank
from queues.quota.usage import TURN, Requests

#: In which a gang is to be on nodes, unless its annotation says otherwise; the least and the most of that.
PLACEMENT_SECONDS, MIN_SECONDS, MAX_SECONDS = 300.0, 10.0, 86400.0
#: kube-scheduler has so long to give to others what has become free.
SETTLE_SECONDS = 30.0
#: The first pause, and the longest.
PAUSE_SECONDS, MAX_PAUSE_SECONDS = 10.0, 600.0
#: Pods that are evicted may end so slowly that the others wait no longer.
GIVE_BACK_SECONDS = 300.0
#: A gang has the turn for so long at most, and without a node for this part of its time.
TURN_SECONDS, TURN_PART = 600.0, 5

_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?", re.ASCII)


class Placing(msgspec.Struct):
    """A gang in placement. `resources`: what its pods without a node request. `seconds`: its time. `is_able`:
    whether it can give back. `since`: its release. `placed`: its pods on nodes. `progressed`: when one of
    them got its node last; the release, before that. `failures`: how often it has given back before. `began`:
    when it began to give back. `is_held`: its queue is stopped, so that none of its pods can be placed.
    """

    uid: str
    ticket: Rank
    resources: frozenset[str]
    since: float
    progressed: float
    seconds: float = PLACEMENT_SECONDS
    is_able: bool = True
    placed: int = 0
    failures: int = 0
    began: float | None = None
    is_held: bool = False

    @property
    def due(self) -> float:
        """The end of its time."""
        return self.since + self.seconds

    def is_stuck(self, now: float) -> bool:
        return now >= max(self.due, self.progressed + 2 * self.seconds)

    def has_turn(self, now: float) -> bool:
        return self.failures > 0 and not self.is_held and now < self.turn_ends

    @property
    def turn_ends(self) -> float:
        return self.since + (TURN_SECONDS if self.placed else min(TURN_SECONDS, self.seconds / TURN_PART))


def who_gives_back(placing: Collection[Placing], *, now: float, settled: float) -> list[Placing]:
    """Those that begin to give back now. `settled`: from when on the next one with nodes may."""
    placing = [gang for gang in placing if not gang.is_held or gang.began is not None]
    due = [gang for gang in placing if now >= gang.due and gang.began is None]
    if not due:
        return []
    able = [gang for gang in placing if gang.is_able and gang.began is None]
    holders = _tickets(max, (gang for gang in able if gang.placed))
    in_need = _tickets(min, (gang for gang in due if not gang.is_stuck(now)))
    by_themselves = [
        gang
        for gang in due
        if gang.is_able
        and (gang.is_stuck(now) or max(_sharing(gang, holders), default=gang.ticket) <= gang.ticket)
    ]
    without_nodes = [gang for gang in by_themselves if not gang.placed]
    going = [gang.began for gang in placing if gang.began is not None and gang.placed]
    if now < settled or any(now < began + GIVE_BACK_SECONDS for began in going):
        return without_nodes
    rivals = [
        gang
        for gang in able
        if gang.placed
        and now >= min(gang.due, gang.progressed + SETTLE_SECONDS)
        and min(_sharing(gang, in_need), default=gang.ticket) < gang.ticket
    ]
    return without_nodes + _one_with_nodes([gang for gang in by_themselves if gang.placed], rivals, now=now)


def _tickets(
    best: Callable[[Iterable[Rank]], Rank], gangs: Iterable[Placing]
) -> Mapping[frozenset[str], Rank]:
    """Of those that request the same resources, the greatest or the least ticket."""
    found: dict[frozenset[str], Rank] = {}
    for gang in gangs:
        found[gang.resources] = best((found.get(gang.resources, gang.ticket), gang.ticket))
    return found


def _sharing(gang: Placing, tickets: Mapping[frozenset[str], Rank]) -> Iterator[Rank]:
    """The tickets of those that request one of its resources."""
    return (ticket for resources, ticket in tickets.items() if not resources.isdisjoint(gang.resources))


def _one_with_nodes(due: Sequence[Placing], rivals: Sequence[Placing], *, now: float) -> list[Placing]:
    """The highest ticket that all others did not help; else the lowest one."""
    stuck = [gang for gang in due if gang.is_stuck(now)]
    if stuck:
        return [min(stuck, key=lambda gang: gang.ticket)]
    found = [*due, *rivals]
    return [max(found, key=lambda gang: gang.ticket)] if found else []


def pause_seconds(failures: int, chance: float) -> float:
    """How long a gang waits that has given back so often. `chance`: from 0 to 1."""
    pause = min(MAX_PAUSE_SECONDS, PAUSE_SECONDS * 2.0 ** min(failures - 1, 16))
    return pause * (1 + chance / 4)


def placement_seconds(text: str) -> tuple[float, bool]:
    """The time that an annotation gives, and whether it is one: seconds, or a number of `h`, `m` and `s`.

    What is no time is as if it were not there. A time is at least `MIN_SECONDS`, at most `MAX_SECONDS`.
    """
    found = _DURATION.fullmatch(f"{text}s" if text.isdigit() else text)
    if not text or found is None:
        return PLACEMENT_SECONDS, not text
    hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return min(MAX_SECONDS, max(MIN_SECONDS, hours * 3600.0 + minutes * 60.0 + seconds)), True


class _Failed(msgspec.Struct):
    """A gang that has given back so often, and waits until then. `number`: of this failure, among all."""

    times: int
    until: float
    number: int


class GangPlacements:
    """The gangs in placement, and those that have failed. For one thread. It is the leader's memory: the next
    one begins without failures.
    """

    def __init__(self) -> None:
        self._placing: dict[str, Placing] = {}
        self._failed: dict[str, _Failed] = {}
        self._settled = -math.inf
        self._numbers = itertools.count(1)

    # What happens

    def released(
        self,
        uid: str,
        ticket: Rank,
        *,
        resources: Iterable[str],
        now: float,
        seconds: float = PLACEMENT_SECONDS,
        is_able: bool = True,
    ) -> None:
        """Its minimum was released, or what was missing of that."""
        before = self._placing.get(uid)
        if before is None or before.began is None:
            self._placing[uid] = Placing(
                uid,
                ticket,
                frozenset(resources),
                since=now,
                progressed=now,
                seconds=seconds,
                is_able=is_able,
                failures=self.failures(uid),
            )

    def observe(self, uid: str, *, placed: int, resources: Iterable[str], now: float) -> None:
        """So many of its pods are on nodes, and those that are not request these resources."""
        gang = self._placing.get(uid)
        if gang is None:
            return
        if placed > gang.placed:
            gang.progressed = now
        gang.placed, gang.resources = placed, frozenset(resources)

    def hold(self, uid: str, *, is_held: bool, now: float) -> None:
        """Its queue is stopped, or schedules again."""
        gang = self._placing.get(uid)
        if gang is None or gang.is_held is is_held:
            return
        gang.is_held = is_held
        if not is_held:
            gang.since = gang.progressed = now

    def completed(self, uid: str) -> None:
        """Its minimum is on nodes."""
        self.forget(uid)

    def gave_back(self, uid: str, *, now: float, chance: float) -> None:
        """What it gives back counts no longer: its pods are gone, or have their gates again."""
        gang = self._placing.pop(uid, None)
        if gang is None:
            return
        if gang.placed:
            self._settled = now + SETTLE_SECONDS
        times = self.failures(uid) + 1
        self._failed[uid] = _Failed(times, now + pause_seconds(times, chance), next(self._numbers))

    def cancel(self, uid: str) -> None:
        """It is not to be placed any more. That is no failure of it."""
        self._placing.pop(uid, None)

    def forget(self, uid: str) -> None:
        """It is gone, or has no failures any more."""
        self._placing.pop(uid, None)
        self._failed.pop(uid, None)

    # What follows

    def take_giving_back(self, now: float) -> list[str]:
        """Those that begin to give back now, each once."""
        found = who_gives_back(self._placing.values(), now=now, settled=self._settled)
        for gang in found:
            gang.began = now
        return [gang.uid for gang in found]

    def failures(self, uid: str) -> int:
        """How often it has given back since all of it was on nodes."""
        failed = self._failed.get(uid)
        return 0 if failed is None else failed.times

    def turn(self, uid: str) -> Requests:
        """What it requests beside the resources of its pods: the turn, if it has failed.

        The amount is a number that no other has: so each is a class by itself, and those of higher priority
        that request as much do not hide it.
        """
        failed = self._failed.get(uid)
        return () if failed is None else ((TURN, failed.number),)

    def paused_until(self, uid: str) -> float:
        """When it may be asked for again, and since when it waits then."""
        failed = self._failed.get(uid)
        return -math.inf if failed is None else failed.until

    def turn_is_taken(self, now: float) -> bool:
        return bool(self._failed) and any(gang.has_turn(now) for gang in self._placing.values())

    def due(self, now: float) -> float:
        """When one of the answers may be another, though nothing happens."""
        times = [failed.until for failed in self._failed.values()]
        for gang in self._placing.values():
            times += [gang.due, gang.progressed + 2 * gang.seconds, gang.progressed + SETTLE_SECONDS]
            times += [gang.turn_ends, -math.inf if gang.began is None else gang.began + GIVE_BACK_SECONDS]
        return min((each for each in (*times, self._settled) if each > now), default=math.inf)
