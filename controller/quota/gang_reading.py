"""Reads a gang from the cache: what is asked for of it now, why nothing is, and what is kept for it.

The rules are in `queues.quota.gangs`. Here is what the cache knows of a PodGroup, as these rules take it.

| what is asked for               | when                                                                   |
|---------------------------------|------------------------------------------------------------------------|
| its minimum, or more pods of it | pods of it wait, and may be released                                   |
| its `minResources`, to be kept  | too few of its pods exist, none of them uses anything, and its queue   |
|                                 | schedules: who makes them may wait for that                            |
| each pod of it that waits       | it has started (`lost_pods`); those in the place of a lost one go      |
|                                 | before all others                                                      |
| nothing                         | it gives back, or has a pause; it cannot start yet, or ever            |

Invariants
- A question does not act: for whom no room is to be kept any more is told to the owner (`ended`).
- What is kept is no more than was asked for as its pods were released, or as room was kept for it.
- Only pods of queues with a quota are asked for as gangs.

Owner: `WaitingPods`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import msgspec

from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey, is_live
from cluster.cache.store import Store
from controller.quota.gang_placements import GangsInPlacement
from controller.quota.lost_pods import LostPods, SentAway
from controller.quota.waiting_gangs import GangState, WaitingGangs
from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import add_amounts
from queues.quota.gangs import (
    USING,
    Gang,
    GangPod,
    NotAsked,
    NotAskedKind,
    PodState,
    RequestedPods,
    ask,
    own_pods,
    unused_resources,
)
from queues.quota.ledger import AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.world.gang_pods import gang_pods
from queues.world.pod_rules import PodRules, is_gated


class GangReading:
    """Owner: `WaitingPods`."""

    def __init__(
        self,
        store: Store,
        *,
        rules: PodRules,
        placements: GangsInPlacement,
        gangs: WaitingGangs,
        ledger: Ledger,
        sent_away: SentAway,
    ) -> None:
        """`gangs`: as they were read last. `ledger`: what counts, as far as it is known. `sent_away`: see
        there.
        """
        self._store = store
        self._rules = rules
        self._placements = placements
        self._gangs = gangs
        self._ledger = ledger
        #: The gangs for which no room is to be kept any more before they have pods, by UID.
        self.ended: list[str] = []
        self._sent_away = sent_away
        self.lost = LostPods(store, requests=rules.requests, sent_away=sent_away)

    def read(self, key: PodGroupKey, begun: Collection[str], *, is_first: bool) -> GangState | None:
        """What is asked for of it now; None where its pods go by themselves, or nothing is to be asked.

        `begun`: the pods whose release was begun. `is_first`: nothing was read before.
        """
        gang, now = self._store.podgroups.gang(*key), self._store.clock.monotonic()
        members = self._store.members.in_podgroup(*key)
        is_started = self._follow_lost(key, gang, members, now=now)
        if gang is None and self._store.podgroups.get(*key) is not None:
            return None
        rules = self._rules
        with_quota = {queue for queue in {each.queue for each in members} if rules.has_quota(queue)}
        asked_together = [each for each in members if each.queue in with_quota]
        gated = [each for each in asked_together if is_gated(each)]
        is_waiting = bool(gated) or any(map(rules.waits, asked_together))
        if gang is None:
            if not is_waiting:
                return None
            uids = frozenset([each.uid for each in gated])
            return GangState(gang=None, waiting=uids, not_asked=NotAsked(kind=NotAskedKind.ABSENT))
        has_quota = rules.has_quota(gang.queue)
        asks_before = gang.asks_before and has_quota
        if not (is_waiting or asks_before or self.lost.has_lost(key)):
            return None
        pods = gang_pods(gang, members, rules=rules, workloads=self._store.workloads, begun=begun)
        own = own_pods(gang, pods)
        uses = any(pod.state in USING for pod in own)
        may_reserve = not uses and self._may_reserve(key, gang)
        is_reserved = self._placements.is_reserved(gang.uid)
        if is_reserved and not may_reserve:
            self.ended.append(gang.uid)
        before = self._gangs.get(key)
        kept = before.kept if before is not None else ()
        asking = gang
        if uses or (is_reserved and may_reserve):
            asking = msgspec.structs.replace(
                gang, resources=self._granted(gang, pods, before, is_first=is_first)
            )
        keeps = (is_reserved and may_reserve) or (uses and bool(kept))
        never = partial(self._ledger.usage.never_lack, gang.queue)
        found = ask(asking, pods, keeps=keeps, keeps_once_started=uses, started=is_started, never=never)
        is_started = isinstance(found, RequestedPods) and found.minimum is None
        now_kept = unused_resources(asking, pods) if keeps or (uses and is_started) else ()
        first, lost_room = self.lost.places(key, gang, own, members, now=now)
        reservation = None
        if (given_back := self._placements.not_asked(gang)) is not None:
            found = given_back
        elif may_reserve and not keeps and isinstance(found, NotAsked) and found.kind is NotAskedKind.TOO_FEW:
            reservation = self._placements.asked_again(
                WaitingPod(gang.uid, gang.queue, gang.resources, gang.priority or 0, gang.since)
            )
        entries = self._entries(found, reservation)
        is_said = isinstance(found, NotAsked) and (found.kind.never or given_back is not None)
        if not (is_waiting or now_kept or lost_room or reservation is not None or is_said):
            return None
        of_entries = {uid for entry in entries.values() for uid in entry.uids}
        return GangState(
            gang=gang,
            entries=entries,
            reservation=reservation,
            requests={pod.pod.uid: pod.pod.requests for pod in pods if pod.pod.uid in of_entries},
            waiting=frozenset([each.uid for each in gated if each.uid not in begun]),
            not_asked=found if isinstance(found, NotAsked) else None,
            is_started=is_started,
            is_begun=not is_started and any(pod.state is PodState.RELEASED for pod in own),
            strays=frozenset([each.uid for each in gated if each.queue != gang.queue]),
            first=tuple(uid for uid in first if uid in entries),
            other_gates={each.uid: each.other_gate for each in gated if rules.awaits_other_gate(each)},
            kept=now_kept,
            # What of it is in `minResources` is kept for that already.
            lost=tuple((name, amount) for name, amount in lost_room if name not in dict(asking.resources)),
            granted=asking.resources,
        )

    def _follow_lost(
        self, key: PodGroupKey, gang: Gang | None, members: Sequence[Member], *, now: float
    ) -> bool:
        """Record which of its pods run. Returns whether it is a gang that has started."""
        is_started = False
        if gang is None:
            self.lost.drop(key)
        else:
            counted = members if self._rules.has_quota(gang.queue) else ()
            is_started = self.lost.follow(key, gang, counted, now=now)
        self._sent_away.forget_absent(key, members)
        return is_started

    def _granted(
        self,
        gang: Gang,
        pods: Collection[GangPod],
        before: GangState | None,
        *,
        is_first: bool,
    ) -> Requests:
        """What of its `minResources` has had room, now that pods of it, or what is kept for it, use some.
        What it asks for later, nobody was asked for. A new leader takes what its queue can have by itself.
        """
        if before is not None and before.queue == gang.queue:
            most = dict(before.granted)
            least = ((name, min(amount, most.get(name, 0))) for name, amount in gang.resources)
            return tuple((name, amount) for name, amount in least if amount)
        if not is_first:
            return ()
        together = dict(self._store.quota_use(gang.queue))
        for kept in (
            unused_resources(gang, pods),
            *self._ledger.entries(gang.queue, AmountReason.KEPT).values(),
        ):
            add_amounts(together, kept)
        lack = self._ledger.usage.never_lack(gang.queue, tuple(sorted(together.items())))
        return gang.resources if lack is None else ()

    def _may_reserve(self, key: PodGroupKey, gang: Gang) -> bool:
        """Whether it may ask for `minResources` before its pods exist: who makes them may wait for that."""
        podgroup = self._store.podgroups.get(*key)
        if podgroup is None or not gang.resources or not is_live(podgroup):
            return False
        decision = self._store.decisions.of_queue(gang.queue, namespace=key.namespace)
        return decision.schedules and self._rules.has_quota(gang.queue)

    def _entries(
        self, found: RequestedPods | NotAsked, reservation: WaitingPod | None
    ) -> dict[str, WaitingPod]:
        """What is put into the index, by UID."""
        if reservation is not None:
            return {reservation.uid: reservation}
        if isinstance(found, NotAsked):
            return {}
        minimum = None if found.minimum is None else self._placements.asked_again(found.minimum)
        return {each.uid: each for each in (minimum, *found.others) if each is not None}
