"""Who would be evicted now for the pods of one queue, by the rule by which the leader decides
(`queues.quota.giving_back`), of what could be read.

Promises
- Each pod that waits asks in its turn, at most `MOST_ASKING` of them, as in one look of the leader.
- Who would go for one, goes for no other.
- Nothing is known here of what a leader remembers: who was let in again, and which eviction a budget refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.queue import DequeueStrategy
from queues.quota.giving_back import AllowedTaking, Borrowed, GivingBack
from queues.quota.kept_victims import KeptVictims, kept_victims
from queues.quota.ledger import Ledger
from queues.quota.pod_classes import WaitingPod
from queues.quota.started_gangs import StartedGang
from queues.tree import Tree

#: Pods of one queue that ask in one look.
MOST_ASKING = 100


class Going(msgspec.Struct, frozen=True):
    """A pod that would go, and for whom."""

    pod: Borrowed
    claimant: WaitingPod


class ReclaimPreview(msgspec.Struct, frozen=True, kw_only=True):
    """`with_room`: pods that wait and have room once what is being deleted is gone. `without`: those that
    would get none. `kept`: who could go for the first of these, and which rule keeps the others.
    """

    going: tuple[Going, ...] = ()
    with_room: int = 0
    without: int = 0
    kept: KeptVictims | None = None


class ReclaimFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read. `ledger`: what counts, without what is being deleted. `waiting`: pods of the queue that
    asks. `pods`: those of all queues. `gangs`: what runs of each, by the UID of its PodGroup. `deserved`:
    what each queue deserves; None: what its spec says. `reclaimable`: whether a queue lends at all.
    `allowed`: how many pods each disruption budget lets go.
    """

    ledger: Ledger
    waiting: Iterable[WaitingPod]
    pods: Iterable[Borrowed]
    reclaimable: Callable[[str], bool]
    allowed: Mapping[str, int] = {}
    gangs: Mapping[str, StartedGang] = {}
    deserved: Callable[[str], Mapping[str, Amount]] | None = None


def who_would_go(queue: str, *, tree: Tree, asked: AllowedTaking, facts: ReclaimFacts) -> ReclaimPreview:
    """Who would go now for the pods of the queue, and which rule keeps the others."""
    by_queue: dict[str, list[Borrowed]] = {}
    for pod in facts.pods:
        by_queue.setdefault(pod.queue, []).append(pod)
    look = GivingBack(
        tree,
        facts.ledger,
        pods=lambda name: by_queue.get(name, ()),
        queues=tuple(name for name in by_queue if name in tree),
        deserved=facts.deserved or facts.ledger.usage.deserved.of,
        reclaimable=facts.reclaimable,
        allowed=facts.allowed,
        gangs=facts.gangs.get,
    )
    own = tree.get(queue)
    is_fifo = own is not None and own.dequeue is DequeueStrategy.FIFO
    line = sorted(facts.waiting, key=lambda each: each.rank)
    going: list[Going] = []
    denied: set[Requests] = set()
    with_room = served = 0
    kept: KeptVictims | None = None
    for claimant in line[:MOST_ASKING]:
        if claimant.requests in denied:
            continue
        lack = facts.ledger.usage.lack(claimant.queue, claimant.requests)
        found = look.ask(claimant, asked)
        if found is None:
            denied.add(claimant.requests)
            if kept is None and asked.is_any:
                kept = kept_victims(look, claimant, asked)
            if is_fifo and (lack is None or lack.holds_up_others):
                break
            continue
        with_room += not found
        served += 1
        going += [Going(pod, claimant) for pod in found]
    look.close()
    return ReclaimPreview(going=tuple(going), with_room=with_room, without=len(line) - served, kept=kept)
