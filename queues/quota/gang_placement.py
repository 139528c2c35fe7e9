"""Gangs that were released and have no nodes yet, and those that have given back: what is remembered of each.

Their phases are those of `gang_life`; who gives back, and when, is decided by `gang_rivals`.

| after it has given back | rule                                                                             |
|-------------------------|----------------------------------------------------------------------------------|
| pause                   | 10 s, then twice as long each time, 10 min at most; and up to a quarter more, by |
|                         | chance                                                                           |
| place in its queue      | behind its equals: as if it had come when its pause ended                        |
| turn                    | it goes once no other gang of its scope that has failed is in placement          |
|                         | (`gang_turns`)                                                                   |
| its minimum is on nodes | its failures are forgotten                                                       |

A gang leaves the turn to others of its scope, and goes on, `TURN_SECONDS` after its release; and after
`NO_NODE_SECONDS`, or a fifth of its time if that is less, while it has no node at all: nodes may be on their
way. Else those that can never be placed would have all turns.

Invariants
- Of one queue, the highest ticket that can be placed while no other gang has nodes is placed in the end: what
  is in its way runs and ends, gives back for it, or has given back.
- A gang that can never be placed makes others give back only while it has pods on nodes, for one of its times
  and no longer than `PLACEMENT_SECONDS`; and then waits.
- A longer time, as an annotation gives it, is no longer turn, and no longer wait for others.
- Time is given: seconds of a clock that never goes back. Chance is given, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import msgspec

from queues.apimachinery.pod_requests import Requests
from queues.quota.gang_life import GangEvent, GangPhase, next_phase
from queues.quota.gang_rivals import GIVE_BACK_SECONDS, SETTLE_SECONDS, Pace, Placing, who_gives_back
from queues.quota.gang_turns import CLUSTER
from queues.quota.usage import NODES_TURN, TURN

#: The first pause, and the longest.
PAUSE_SECONDS, MAX_PAUSE_SECONDS = 10.0, 600.0
#: A gang has the turn for so long at most; while it has no node, for so long, and this part of its time.
TURN_SECONDS, NO_NODE_SECONDS, TURN_PART = 600.0, 60.0, 5


def pause_seconds(failures: int, chance: float) -> float:
    """How long a gang waits that has given back so often. `chance`: from 0 to 1."""
    pause = min(MAX_PAUSE_SECONDS, PAUSE_SECONDS * 2.0 ** min(failures - 1, 16))
    return pause * (1 + chance / 4)


def turn_ends(gang: Placing) -> float:
    """Until when a gang that has failed before has the turn of its scope."""
    since = gang.since if gang.tried_since is None else gang.tried_since
    return since + (TURN_SECONDS if gang.placed else min(NO_NODE_SECONDS, gang.seconds / TURN_PART))


class _Remembered(msgspec.Struct):
    """`placing`: while it is in placement. `failures`: how often it has given back since its minimum was on
    nodes; `until`: the end of its last pause; `number`: of its last failure, among all.
    """

    phase: GangPhase = GangPhase.ASKED
    placing: Placing | None = None
    failures: int = 0
    until: float = -math.inf
    number: int = 0
    had_nodes: bool = False


class GangPlacements:
    """The gangs in placement, and those that have failed. For one thread. It is the leader's memory: the next
    one begins without failures.

    What was never released, and what is PLACED, is not remembered.
    """

    def __init__(self) -> None:
        self._gangs: dict[str, _Remembered] = {}
        #: Of these, those in placement; and of those, the ones that have failed before.
        self._placing: dict[str, Placing] = {}
        self._retries: dict[str, Placing] = {}
        self._paused: dict[str, float] = {}
        self._pace = Pace()
        self._numbers = itertools.count(1)

    # What happens

    def released(self, gang: Placing) -> bool:
        """Its minimum was released, or what was missing of that; or room is kept for it. Its time begins.
        Returns whether that is possible in its phase.
        """
        known = self._advance(gang.uid, GangEvent.RELEASE)
        if known is None:
            return False
        if (before := known.placing) is not None:  # room was kept for it, and now its pods were released
            gang.tried_since = before.since if before.tried_since is None else before.tried_since
        known.placing = self._placing[gang.uid] = gang
        if known.failures:
            self._retries[gang.uid] = gang
        return True

    def observe(
        self, uid: str, *, placed: int, resources: Iterable[str], now: float, priority: int | None = None
    ) -> None:
        """So many of its pods are on nodes, and those that are not request these resources. `priority`: the
        least of its pods; None: as before.
        """
        gang = self._placing.get(uid)
        if gang is None:
            return
        if placed > gang.placed:
            gang.progressed = now
        gang.placed, gang.resources = placed, frozenset(resources)
        gang.priority = gang.priority if priority is None else priority

    def hold(self, uid: str, *, is_held: bool, now: float) -> None:
        """Its queue is stopped, or schedules again."""
        gang = self._placing.get(uid)
        if gang is None or gang.is_held is is_held:
            return
        gang.is_held = is_held
        if not is_held:
            gang.tried_since = gang.since if gang.tried_since is None else gang.tried_since
            gang.since = gang.progressed = now

    def completed(self, uid: str) -> bool:
        """Its minimum is on nodes. Returns whether it is PLACED by that."""
        if uid in self._gangs and self._advance(uid, GangEvent.COMPLETE) is not None:
            self.forget(uid)
            return True
        return False

    def gave_back(self, uid: str, *, now: float, chance: float) -> None:
        """What it gives back counts no longer: its pods are gone, or have their gates again."""
        known = self._advance(uid, GangEvent.EMPTY) if uid in self._gangs else None
        if known is None or known.placing is None:
            return
        if known.placing.placed:
            self._pace.ended(known.placing.scope, now=now)
        known.failures += 1
        known.had_nodes = known.placing.placed > 0
        known.until = self._paused[uid] = now + pause_seconds(known.failures, chance)
        known.number = next(self._numbers)
        self._end_placing(uid, known)

    def cancel(self, uid: str) -> None:
        """No room is kept for it any more. That is no failure of it."""
        known = self._advance(uid, GangEvent.CANCEL) if uid in self._gangs else None
        if known is None:
            return
        self._end_placing(uid, known)
        if not known.failures:
            del self._gangs[uid]

    def forget(self, uid: str) -> None:
        """It is gone, or has no failures any more."""
        known = self._gangs.pop(uid, None)
        if known is not None:
            self._end_placing(uid, known)
        self._paused.pop(uid, None)

    def _advance(self, uid: str, event: GangEvent) -> _Remembered | None:
        """Take it to its next phase; None: nothing happens."""
        known = self._gangs.get(uid)
        following = next_phase(known.phase if known is not None else GangPhase.ASKED, event)
        if following is None:
            return None
        if known is None:
            known = self._gangs[uid] = _Remembered()
        known.phase = following
        return known

    def _end_placing(self, uid: str, known: _Remembered) -> None:
        known.placing = None
        self._placing.pop(uid, None)
        self._retries.pop(uid, None)

    # What follows

    def take_giving_back(self, now: float) -> list[str]:
        """Those that begin to give back now, each once."""
        found = [
            gang
            for gang in who_gives_back(self._placing.values(), now=now, pace=self._pace)
            if self._advance(gang.uid, GangEvent.EXPIRE) is not None
        ]
        for gang in found:
            gang.began = now
            if gang.placed:
                self._pace.began(now=now)
        return [gang.uid for gang in found]

    def take_resumed(self, now: float) -> list[str]:
        """Those whose pause is over, each once."""
        found = [uid for uid, until in self._paused.items() if until <= now]
        for uid in found:
            del self._paused[uid]
            self._advance(uid, GangEvent.RESUME)
        return found

    def phase(self, uid: str) -> GangPhase:
        """ASKED, too, where nothing is remembered: it was never released, or is PLACED."""
        known = self._gangs.get(uid)
        return GangPhase.ASKED if known is None else known.phase

    @property
    def has_pauses(self) -> bool:
        return bool(self._paused)

    def knows(self, uid: str) -> bool:
        """Whether it is in placement, or has failed."""
        return uid in self._gangs

    def failures(self, uid: str) -> int:
        """How often it has given back since its minimum was on nodes."""
        known = self._gangs.get(uid)
        return 0 if known is None else known.failures

    def turn(self, uid: str) -> Requests:
        """What it requests beside the resources of its pods: the turn, if it has failed.

        The amount is a number that no other has: so each is a class by itself, and those of higher priority
        that request as much do not hide it.
        """
        known = self._gangs.get(uid)
        if known is None or not known.failures:
            return ()
        nodes = ((NODES_TURN, 1),) if known.had_nodes else ()
        return ((TURN, known.number), *nodes)

    def paused_until(self, uid: str) -> float:
        """When its last pause ends, and since when it waits then."""
        known = self._gangs.get(uid)
        return -math.inf if known is None else known.until

    def turns(self, now: float) -> set[tuple[str, tuple[str, ...]]]:
        """The queue of each gang that has failed before and is tried now; and `CLUSTER` where it has pods on
        nodes, or had some when it failed.
        """
        return {
            (gang.queue, (CLUSTER,) if gang.placed or self._gangs[uid].had_nodes else ())
            for uid, gang in self._retries.items()
            if not gang.is_held and now < turn_ends(gang)
        }

    def due(self, now: float) -> float:
        """When one of the answers may be another, though nothing happens."""
        times = [*self._paused.values(), *self._pace.due()]
        for gang in self._placing.values():
            times += [gang.due, gang.due_for_rivals, gang.stuck_at, gang.progressed + SETTLE_SECONDS]
            times += [turn_ends(gang), -math.inf if gang.began is None else gang.began + GIVE_BACK_SECONDS]
        return min((each for each in times if each > now), default=math.inf)
