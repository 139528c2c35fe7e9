"""Gangs on nodes, in model time: a quota lets more go than the nodes have, and a scheduler places pod by pod.

The quota is that of the index and of the release pass; who gives back is what `GangPlacements` says. The
scheduler knows no gangs: of those that have pods without a node each gets one in its turn, while there is
room. That is the worst for all of them.
"""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta

import msgspec

from queues.queue import Queue
from queues.quota.gang_placement import GangPlacements
from queues.quota.gang_rivals import Placing
from queues.quota.ledger import Ledger
from queues.quota.placement_time import PLACEMENT_SECONDS
from queues.quota.pod_classes import Rank, WaitingPod
from queues.quota.release_order import ReleasePass
from queues.quota.usage import TURN
from queues.quota.waiting_index import WaitingIndex
from queues.tree import Tree

NOW = datetime(2026, 1, 1, tzinfo=UTC)
#: So long it takes an evicted pod to end.
GRACE = 20.0


class ModelGang(msgspec.Struct, frozen=True, kw_only=True):
    """`count` pods of `size` cpu each, that run for so long once all of them have nodes. `lost`: so many of
    them fit no node (a mistyped selector). `is_able`: whether it can give back. `priority`: that of its
    PodGroup; its pods have none. `within`: its time.
    """

    name: str
    count: int
    size: int
    seconds: float
    priority: int = 0
    lost: int = 0
    is_able: bool = True
    comes: float = 0.0
    queue: str = "team"
    within: float = PLACEMENT_SECONDS


class Nodes:
    def __init__(self, count: int, *, cpu: int) -> None:
        self._free = [cpu] * count
        self._placed: dict[str, list[int]] = {}

    def place(self, gang: ModelGang) -> bool:
        """One more pod of the gang, if there is room; on the node that has the most."""
        at = max(range(len(self._free)), key=lambda node: self._free[node])
        if self._free[at] < gang.size or self.count(gang) >= gang.count - gang.lost:
            return False
        self._free[at] -= gang.size
        self._placed.setdefault(gang.name, []).append(at)
        return True

    def count(self, gang: ModelGang) -> int:
        return len(self._placed.get(gang.name, ()))

    def free(self, gang: ModelGang) -> None:
        for node in self._placed.pop(gang.name, ()):
            self._free[node] += gang.size


class GangModel:
    def __init__(
        self,
        gangs: list[ModelGang],
        *,
        nodes: Nodes,
        quota: int,
        placements: GangPlacements,
        seed: int = 0,
    ) -> None:
        """`quota`: the cpu that the gangs of each queue may use together."""
        self._chance = random.Random(seed)
        self._nodes = nodes
        self._placements = placements
        capability = (("cpu", quota),)
        names = {gang.queue for gang in gangs}
        self._tree = Tree({name: Queue(name=name, parent="root", capability=capability) for name in names})
        self._ledger, self._index = Ledger(self._tree), WaitingIndex(self._tree)
        self._by_name = {gang.name: gang for gang in gangs}
        #: What goes on, by gang: until when.
        self._comes = {gang.name: gang.comes for gang in gangs}
        self._runs: dict[str, float] = {}
        self._goes: dict[str, float] = {}
        self._placing: list[str] = []
        self.now = 0.0
        self.completed: list[str] = []
        self.given_back = 0

    def run(self, *, until: float) -> list[str]:
        """The gangs that have not completed by then, though they can."""
        while self._left() and self.now < until:
            self._step()
            after = min(*self._comes.values(), *self._runs.values(), *self._goes.values(), math.inf, math.inf)
            after = min(after, self._placements.due(self.now))
            if after == math.inf:
                break  # they wait for each other
            self.now = after
        return self._left()

    def _left(self) -> list[str]:
        done = set(self.completed)
        return [gang.name for gang in self._by_name.values() if gang.name not in done and not gang.lost]

    def _step(self) -> None:
        for name in self._take(self._runs):
            self.completed.append(name)
            self._end(name)
        for name in self._take(self._goes):
            self._end(name)
            self._placements.gave_back(name, now=self.now, chance=self._chance.random())
            self._comes[name] = self._placements.paused_until(name)
        self._placements.take_resumed(self.now)
        for name in self._take(self._comes):
            self._index.put(self._entry(self._by_name[name]))
        self._release()
        self._schedule()
        for name in self._placements.take_giving_back(self.now):
            if self._by_name[name].is_able:
                self.given_back += 1
                self._placing.remove(name)
                has_nodes = self._nodes.count(self._by_name[name])
                self._goes[name] = self.now + (GRACE if has_nodes else 0.001)

    def _take(self, events: dict[str, float]) -> list[str]:
        due = [name for name, at in events.items() if at <= self.now]
        for name in due:
            del events[name]
        return due

    def _ticket(self, gang: ModelGang) -> Rank:
        return -gang.priority, NOW + timedelta(seconds=gang.comes), gang.name

    def _entry(self, gang: ModelGang) -> WaitingPod:
        since = NOW + timedelta(seconds=self.now)
        amounts = ("cpu", gang.count * gang.size), ("pods", gang.count)
        requests = (*amounts, *self._placements.turn(gang.name))
        pods = tuple(f"{gang.name}-{number}" for number in range(gang.count))
        return WaitingPod(gang.name, gang.queue, tuple(sorted(requests)), gang.priority, since, pods)

    def _release(self) -> None:
        turns = self._ledger.usage.turns
        before, turns.taken = (
            turns.taken,
            frozenset(
                scope for queue, of_nodes in self._placements.turns(self.now) for scope in (queue, *of_nodes)
            ),
        )
        for scope in before - turns.taken:
            self._index.fell(scope, TURN)
        while self._index.is_due:
            for entry in ReleasePass(self._tree, self._index, ledger=self._ledger, now=self.now):
                gang = self._by_name[entry.uid]
                placing = Placing(
                    gang.name,
                    self._ticket(gang),
                    frozenset(["cpu"]),
                    since=self.now,
                    progressed=self.now,
                    queue=gang.queue,
                    scope=gang.queue,
                    seconds=gang.within,
                    is_able=gang.is_able,
                )
                assert self._placements.released(placing)
                self._placing.append(gang.name)

    def _schedule(self) -> None:
        gangs = [self._by_name[name] for name in self._placing]
        self._chance.shuffle(gangs)
        while gangs:
            gangs = [gang for gang in gangs if self._nodes.place(gang)]
        for name in list(self._placing):
            gang = self._by_name[name]
            placed = self._nodes.count(gang)
            self._placements.observe(name, placed=placed, resources=["cpu"], now=self.now)
            if placed == gang.count:
                self._placing.remove(name)
                self._placements.completed(name)
                self._runs[name] = self.now + gang.seconds

    def _end(self, name: str) -> None:
        gang = self._by_name[name]
        self._nodes.free(gang)
        self._ledger.take_back(self._entry(gang))
        for queue, resource in self._ledger.take_falls():
            self._index.fell(queue, resource)
