"""Nobody starves: the first class that has waited for long has a claim on what it requests.

While smaller pods take whatever becomes free, a large one would wait for ever. So a class that is blocked in
a queue for `CLAIM_SECONDS_AFTER`, or while `CLAIM_AFTER_OTHERS` others were released below that queue,
becomes its claimant. Others leave alone what the claimant requests, in all resources that it requests, and
not only in what it lacks: with three streams of pods that need one resource each it would never have all
three at once. They may use the rest.

| of a claim            | rule                                                                               |
|-----------------------|------------------------------------------------------------------------------------|
| who                   | of the classes that lack room in a queue, the one that has waited longest; one     |
|                       | claim for each such queue                                                          |
| where                 | in the queues from its own up to the one in which it lacks room. If it lacks room  |
|                       | further up later, up to there: else it would lose the one while it gets the other  |
| how much              | what it requests; of a resource that `deserved` of its queue names, no more than   |
|                       | the queue is below that. Who cannot claim what it lacks has no claim               |
| who need not heed it  | pods that stand before it in its own queue; queues that stand before that by       |
|                       | priority, or as they use less than they deserve; claims that are older             |
| for how long          | until it is released, is gone, waits for something else than room, or for          |
|                       | `CLAIM_SECONDS`                                                                    |

A claim that ends without a release was in vain. Then nobody else could use the room, and neither did the pod.
So claims in vain are limited by queue. Pods, and the sizes that tenants choose for them, do not matter.

| after a claim in vain | wait                                                                               |
|-----------------------|------------------------------------------------------------------------------------|
| in the queue up to    | no claim begins there for as long as that one held                                 |
| which it held         |                                                                                    |
| of pods of its own    | `CLAIM_SECONDS_AFTER`, doubled for each `CLAIM_SECONDS` in vain, up to             |
| queue, anywhere       | `MAX_DOUBLINGS` times. Half of what was in vain is forgotten in `HALF_FORGOTTEN`   |

Invariants
- In one queue, claims in vain take half of the time at most.
- What can never fit has no claim, nor has what waits for another claim, or for its turn.
- The oldest claim waits for no other: claims do not block each other.
- A claim takes nothing away, and costs a queue at most what its claimant requests.
- Time is given: seconds of a clock that never goes back.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable

import msgspec

from queues.apimachinery.quantities import Amount
from queues.quota.devices import is_shared_claim
from queues.quota.lack import Lack, LackKind
from queues.quota.ledger import Ledger
from queues.quota.pod_classes import MIN_DROPPED, PodClass, WaitingPod
from queues.quota.shares import Shares
from queues.quota.usage import Usage
from queues.tree import Tree

#: A class has a claim after so long, or after so many others.
CLAIM_SECONDS_AFTER, CLAIM_AFTER_OTHERS = 60.0, 100
#: A claim holds for so long.
CLAIM_SECONDS = 300.0
#: The wait of a queue for its next claim is doubled so many times at most: about an hour.
MAX_DOUBLINGS = 6
#: In so many seconds a queue is forgiven half of the time that it has claimed in vain.
HALF_FORGOTTEN = 4 * 3600.0

#: Reasons of which no claim follows; one that is there goes on.
_NOT_CLAIMED = frozenset({LackKind.CLAIM, LackKind.TURN})
#: Reasons with which a class has no claim any more: room is not what it lacks.
_NO_LACK_OF_ROOM = frozenset(
    {LackKind.NO_QUEUE, LackKind.DEVICES, LackKind.CLAIM_ABSENT, LackKind.CLAIMS_UNREAD}
)


class _Wait(msgspec.Struct):
    """Of a class that is blocked. `queue`, `resource`: what it lacks; `others`: how many pods were released
    below the queue by then. `began`, `until`: of its present claim; 0 for none. `entry`: the number of its
    present entry among those that are due.
    """

    since: float
    queue: str = ""
    resource: str = ""
    others: int = 0
    began: float = 0.0
    until: float = 0.0
    entry: int = -1

    def begin_again(self, *, now: float, others: int) -> None:
        self.since, self.others, self.began, self.until = now, others, 0.0, 0.0


class _InVain(msgspec.Struct, frozen=True):
    """A claim that has ended in vain, or has been given up. `queue`: of its pods; `top`: up to which it held.
    `began`, `until`: in monotonic seconds.
    """

    queue: str
    top: str
    began: float
    until: float


class _Rest(msgspec.Struct):
    """Of the pods of one queue. `until`: when they may have a claim again. `in_vain`: the seconds that they
    have claimed in vain, as of `at`.
    """

    until: float = 0.0
    in_vain: float = 0.0
    at: float = 0.0

    def add(self, seconds: float, *, now: float) -> None:
        self.in_vain = self.in_vain * 0.5 ** ((now - self.at) / HALF_FORGOTTEN) + seconds
        self.at = now
        doublings = min(self.in_vain / CLAIM_SECONDS, MAX_DOUBLINGS)
        self.until = max(self.until, now + CLAIM_SECONDS_AFTER * 2.0**doublings)


class _Claim(msgspec.Struct):
    """`top`: the queue up to which it holds; `held_back`: the classes that wait for it."""

    pods: PodClass
    number: int
    amounts: tuple[tuple[str, Amount], ...]
    top: str
    until: float
    held_back: dict[PodClass, None]


class Claims:
    """Owner: the index."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._chains: dict[str, tuple[str, ...]] = {}
        self._waits: dict[PodClass, _Wait] = {}
        #: Of each queue the classes that lack room in it, by when they may claim; outdated ones are dropped.
        self._due: dict[str, list[tuple[float, int, PodClass]]] = {}
        self._numbers = itertools.count()
        #: How many pods were released in each queue and below it.
        self._released: dict[str, int] = {}
        #: By the queue up to which they hold.
        self._by_top: dict[str, _Claim] = {}
        self._by_class: dict[PodClass, _Claim] = {}
        #: Those that waited for a claim that has ended.
        self._freed: dict[PodClass, None] = {}
        #: Claims that ended without a release, and were not counted yet.
        self._in_vain: list[_InVain] = []
        #: By the queue of the pods: how long these wait for a claim.
        self._rests: dict[str, _Rest] = {}
        #: By the queue up to which claims hold: until when none begins.
        self._none_before: dict[str, float] = {}

    # What happens to classes

    def blocked(self, pods: PodClass, lack: Lack, *, now: float) -> None:
        """Its first pod has no room."""
        if lack.never or lack.kind in _NO_LACK_OF_ROOM:
            self.forget(pods)
            return
        if lack.kind in _NOT_CLAIMED:
            return
        wait = self._waits.get(pods)
        if wait is None:
            wait = self._waits[pods] = _Wait(now)
        wait.resource = lack.resource
        if wait.queue != lack.queue:
            wait.queue, wait.others = lack.queue, self._released.get(lack.queue, 0)
            self._push(pods, wait)
        claim = self._by_class.get(pods)
        if claim is not None:
            self._extend(claim, lack.queue)

    def released(self, pods: PodClass) -> None:
        """Its first pod was released: it has starved no longer, and passes all others below its queues."""
        for queue in self._chain(pods.line.queue):
            self._released[queue] = self._released.get(queue, 0) + 1
        if self._waits.pop(pods, None) is not None and pods in self._by_class:
            self._end(self._by_class[pods])

    def forget(self, pods: PodClass) -> None:
        """It is gone, or room is not what it lacks."""
        wait, claim = self._waits.pop(pods, None), self._by_class.get(pods)
        if wait is not None and wait.until:
            top = wait.queue if claim is None else claim.top
            self._in_vain.append(_InVain(pods.line.queue, top, wait.began, wait.until))
        if claim is not None:
            self._end(claim)

    def look_at_all(self, tree: Tree) -> None:
        """The queues are others: who may claim is decided again, for the time that is left of each claim."""
        self._tree = tree
        self._chains.clear()
        self._released.clear()
        self._due.clear()
        self._by_top.clear()
        self._by_class.clear()
        self._freed.clear()
        self._rests = {queue: rest for queue, rest in self._rests.items() if queue in tree}
        self._none_before = {queue: until for queue, until in self._none_before.items() if queue in tree}
        for wait in self._waits.values():
            wait.queue = ""

    @property
    def claimants(self) -> dict[str, WaitingPod]:
        """The pod that has the claim, by the queue up to which it holds."""
        return {queue: claim.pods.head for queue, claim in self._by_top.items()}

    def claimed(self, queue: str) -> tuple[tuple[str, Amount], ...]:
        """What is claimed up to this queue."""
        claim = self._by_top.get(queue)
        return () if claim is None else claim.amounts

    # Time

    @property
    def ends_at(self) -> float:
        """When the next claim ends."""
        return min((claim.until for claim in self._by_top.values()), default=float("inf"))

    @property
    def has_freed(self) -> bool:
        return bool(self._freed)

    def take_freed(self, *, now: float) -> Iterable[PodClass]:
        """The classes that waited for a claim that has ended by now."""
        self._count_in_vain(now)
        for claim in [claim for claim in self._by_top.values() if claim.until <= now]:
            self._end(claim)
            self._expire(claim.pods, top=claim.top, now=now)
        freed, self._freed = self._freed, {}
        return freed

    # Claims

    def lack(self, pods: PodClass, *, ledger: Ledger, shares: Shares, now: float) -> Lack | None:
        """What its first pod, which has room, has to leave alone; None if it may be released."""
        if not self._waits:
            return None
        for queue in self._chain(pods.line.queue):
            claim = self._by_top.get(queue) or self._begin(queue, usage=ledger.usage, now=now)
            own = self._by_class.get(pods)
            if claim is None or (own is not None and own.number <= claim.number):
                continue
            lack = self._beside(claim, pods.head, ledger=ledger)
            if lack is not None and not self._is_before(pods.head, claim, shares):
                claim.held_back[pods] = None
                return lack
        return None

    def _beside(self, claim: _Claim, pod: WaitingPod, *, ledger: Ledger) -> Lack | None:
        """What the pod lacks beside what is claimed, in the queues in which that is."""
        queue = claim.pods.line.queue
        with ledger.assume() as claimed:
            claimed.add(queue, claim.amounts)
            lack = ledger.usage.lack(pod.queue, pod.requests)
        if lack is None:
            return None
        chain = self._chain(queue)
        held = chain[: chain.index(claim.top) + 1]
        return lack if lack.queue in held else None

    def _is_before(self, pod: WaitingPod, claim: _Claim, shares: Shares) -> bool:
        """Whether the pod, or its queue, stands before the claimant."""
        claimant = claim.pods.head
        if pod.queue == claimant.queue:
            return pod.rank < claimant.rank
        own, other = self._chain(pod.queue), self._chain(claimant.queue)
        common = next(queue for queue in own if queue in other)
        own_branch, other_branch = _below(own, common), _below(other, common)
        return shares.key(own_branch)[:2] < shares.key(other_branch)[:2]

    def _begin(self, queue: str, *, usage: Usage, now: float) -> _Claim | None:
        """The claim of the class that has waited longest for room in the queue, if it is due."""
        self._count_in_vain(now)
        if now < self._none_before.get(queue, now):
            return None
        while (pods := self._first_due(queue, now)) is not None:
            wait = self._waits[pods]
            amounts = self._amounts(pods, usage)
            if 0 < wait.until <= now:
                self._expire(pods, top=queue, now=now)
            elif any(name == wait.resource or is_shared_claim(name) for name, _ in amounts):
                if not wait.until:
                    wait.began, wait.until = now, now + CLAIM_SECONDS
                claim = _Claim(pods, next(self._numbers), amounts, queue, wait.until, {})
                self._by_top[queue] = self._by_class[pods] = claim
                return claim
            else:  # it cannot claim what it lacks
                wait.begin_again(now=now, others=self._released.get(queue, 0))
                self._push(pods, wait)
        return None

    def _expire(self, pods: PodClass, *, top: str, now: float) -> None:
        wait = self._waits[pods]
        self._in_vain.append(_InVain(pods.line.queue, top, wait.began, wait.until))
        self._count_in_vain(now)
        wait.begin_again(now=now, others=self._released.get(wait.queue, 0))
        self._push(pods, wait)

    def _count_in_vain(self, now: float) -> None:
        """Have queues wait for what was claimed in vain."""
        for claim in self._in_vain:
            seconds = max(0.0, min(now, claim.until) - claim.began)
            self._rests.setdefault(claim.queue, _Rest(at=now)).add(seconds, now=now)
            self._none_before[claim.top] = max(self._none_before.get(claim.top, now), now + seconds)
        self._in_vain.clear()

    def _first_due(self, queue: str, now: float) -> PodClass | None:
        due = self._due.get(queue)
        while due:
            when, number, pods = due[0]
            wait = self._waits.get(pods)
            if wait is None or wait.entry != number or pods in self._by_class:
                heapq.heappop(due)
                continue
            if when < (current := self._due_at(pods, wait)):  # its queue has claimed in vain since
                heapq.heapreplace(due, (current, number, pods))
                continue
            has_passed = self._released.get(queue, 0) >= wait.others + CLAIM_AFTER_OTHERS
            is_due = when <= now or (has_passed and self._rests_until(pods) <= now)
            return pods if is_due else None
        self._due.pop(queue, None)
        return None

    def _rests_until(self, pods: PodClass) -> float:
        rest = self._rests.get(pods.line.queue)
        return 0.0 if rest is None else rest.until

    def _due_at(self, pods: PodClass, wait: _Wait) -> float:
        return max(wait.since + CLAIM_SECONDS_AFTER, self._rests_until(pods))

    def _amounts(self, pods: PodClass, usage: Usage) -> tuple[tuple[str, Amount], ...]:
        queue = self._tree.queues[pods.line.queue]
        used, deserved = usage.used(queue.name), dict(queue.deserved or ())
        claimed = (
            (name, min(amount, deserved[name] - used.get(name, 0)) if name in deserved else amount)
            for name, amount in pods.requests
        )
        return tuple((name, amount) for name, amount in claimed if amount > 0)

    def _extend(self, claim: _Claim, queue: str) -> None:
        """It lacks room in this queue now. A younger claim there gives way."""
        chain = self._chain(claim.pods.line.queue)
        if queue not in chain or chain.index(queue) <= chain.index(claim.top):
            return
        other = self._by_top.get(queue)
        if other is not None and other.number < claim.number:
            return
        if other is not None:
            self._end(other)
            other_wait = self._waits[other.pods]
            other_wait.began = other_wait.until = 0.0
            self._push(other.pods, other_wait)
        del self._by_top[claim.top]
        claim.top = queue
        self._by_top[queue] = claim

    def _end(self, claim: _Claim) -> None:
        del self._by_top[claim.top]
        del self._by_class[claim.pods]
        self._freed |= claim.held_back

    def _push(self, pods: PodClass, wait: _Wait) -> None:
        due = self._due.setdefault(wait.queue, [])
        wait.entry = next(self._numbers)
        heapq.heappush(due, (self._due_at(pods, wait), wait.entry, pods))
        if len(due) > 2 * len(self._waits) + MIN_DROPPED:
            self._due[wait.queue] = [entry for entry in due if self._is_current(entry)]
            heapq.heapify(self._due[wait.queue])

    def _is_current(self, entry: tuple[float, int, PodClass]) -> bool:
        wait = self._waits.get(entry[2])
        return wait is not None and wait.entry == entry[1]

    def _chain(self, queue: str) -> tuple[str, ...]:
        known = self._chains.get(queue)
        if known is None:
            names = [each.name for each in self._tree.chain(queue).queues] if queue in self._tree else []
            known = self._chains[queue] = tuple(names)
        return known


def _below(chain: tuple[str, ...], queue: str) -> str:
    """The queue of the chain that is right below; itself where the chain begins with it."""
    at = chain.index(queue)
    return chain[at - 1] if at else queue
