"""The pods that gangs have lost since their minimum ran. The room of each is kept for one in its place.

| a pod of the minimum that ran                    | its room                                              |
|--------------------------------------------------|-------------------------------------------------------|
| is being deleted                                 | it uses it still                                      |
| is gone, or has failed                           | is kept for `LOST_SECONDS`, or until another pod of   |
|                                                  | the gang waits that asks for no more: that goes first |
| has succeeded                                    | is free                                               |
| was asked to go for others                       | is theirs                                             |

Room is kept only while the gang has fewer pods than its minimum, its queue schedules, and a controller makes
another pod in the place of the lost one. Where the PodGroup has `minResources`, as many pods count as ran. Of
those, pods of controllers that are not known are taken to be made again: Spark's driver makes its executors.

`SentAway` alone knows who was asked to go for others. The request is settled as soon as the cache shows that
the pod leaves, or is gone: its gang may be read later than that.

Invariants
- No more is kept than the lost pods requested that ran as this leader watched, and of each for a time of its
  own: an edit of the PodGroup keeps nothing, nor does a pod that never ran.
- A gang has started once its minimum was on nodes together, as this leader saw it. That is over without a pod
  on a node, with another PodGroup of its name, in another queue, and without a quota.
- A new leader knows the gangs that are complete as it begins. Of others it keeps nothing, and asks for what
  they miss as for any gang.

Owner: `GangReading`. Times are monotonic seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set

import msgspec

from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey
from cluster.cache.store import Store
from cluster.cache.workloads import Workload
from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount, add_amounts
from queues.quota.gangs import Gang, GangPod, PodState, is_placed
from queues.workload_kinds import Life

#: How long the room of a lost pod is kept.
LOST_SECONDS = 300.0
#: How often the controller of a lost pod is checked: it may not make a replacement any more.
LOOK_SECONDS = 10.0
_THERE = frozenset({PodState.RELEASED, PodState.PLACED, PodState.SUCCEEDED, PodState.LEAVING})


class LostPod(msgspec.Struct, frozen=True):
    """`until`: when its room is kept no longer."""

    requests: Requests
    task: str
    until: float


class _Started(msgspec.Struct):
    """A gang whose minimum was on nodes. `uid`: its PodGroup's. `running`: by UID. `most`: how many ran."""

    uid: str
    queue: str
    running: dict[str, Member]
    most: int
    lost: dict[str, LostPod]


class SentAway:
    """The pods of PodGroups that were asked to go for others: their room is not kept for their gang.

    | when                                                            | by whom        | then a pod is       |
    |-----------------------------------------------------------------|----------------|---------------------|
    | its eviction is handed to the writers                           | `GiveBacks`    | added               |
    | the eviction failed, or was not sent, and is not repeated       | `GiveBacks`    | removed             |
    | its PodGroup was read without it                                | `GangReading`  | removed             |
    | all is read for the first time, and it is gone                  | `WaitingPods`  | removed             |
    | a term begins or ends                                           | `GiveBacks`    | removed, as are all |

    So it has no more pods than there are, and those that are gone since their PodGroup was read.

    Owner: `WaitingPods`. For one thread.
    """

    def __init__(self) -> None:
        self._uids: dict[PodGroupKey, set[str]] = {}

    def add(self, member: Member) -> None:
        if member.podgroup:
            self._uids.setdefault(PodGroupKey(member.namespace, member.podgroup), set()).add(member.uid)

    def discard(self, member: Member) -> None:
        key = PodGroupKey(member.namespace, member.podgroup)
        self._keep(key, self.of(key) - {member.uid})

    def of(self, key: PodGroupKey) -> Set[str]:
        """The UIDs of those of one PodGroup."""
        return self._uids.get(key, frozenset())

    def forget_absent(self, key: PodGroupKey, members: Iterable[Member]) -> None:
        """The PodGroup was read, and has these pods alone."""
        if key in self._uids:
            self._keep(key, self.of(key) & {member.uid for member in members})

    def forget_gone(self, is_gone: Callable[[str], bool]) -> None:
        """Forget those of all PodGroups that are gone, by UID."""
        for key, uids in list(self._uids.items()):
            self._keep(key, {uid for uid in uids if not is_gone(uid)})

    def clear(self) -> None:
        self._uids.clear()

    def _keep(self, key: PodGroupKey, uids: Set[str]) -> None:
        if uids:
            self._uids[key] = set(uids)
        else:
            self._uids.pop(key, None)


class LostPods:
    """For one thread."""

    def __init__(
        self,
        store: Store,
        *,
        requests: Callable[[Member], Requests],
        sent_away: SentAway,
    ) -> None:
        """`requests`: what a pod takes of a quota. `sent_away`: the pods whose room is not kept."""
        self._store = store
        self._requests = requests
        self._sent_away = sent_away
        self._started: dict[PodGroupKey, _Started] = {}
        #: When a gang is to be read again though nothing changes.
        self._looks_at: dict[PodGroupKey, float] = {}

    @property
    def due(self) -> float:
        """When a gang is to be read again though nothing changes."""
        return min(self._looks_at.values(), default=math.inf)

    def take_due(self, now: float) -> Iterator[PodGroupKey]:
        for key in [key for key, at in self._looks_at.items() if at <= now]:
            del self._looks_at[key]
            yield key

    def drop(self, key: PodGroupKey) -> None:
        """It is no gang that has started."""
        self._started.pop(key, None)
        self._looks_at.pop(key, None)

    def follow(
        self,
        key: PodGroupKey,
        gang: Gang,
        members: Iterable[Member],
        *,
        now: float,
    ) -> bool:
        """Record which pods of the gang run. Returns whether it has started."""
        own = {member.uid: member for member in members if member.queue == gang.queue}
        running = {uid: each for uid, each in own.items() if each.node and each.live and not each.leaving}
        known = self._started.get(key)
        if known is not None and (not running or (known.uid, known.queue) != (gang.uid, gang.queue)):
            self.drop(key)
            known = None
        is_complete = is_placed(gang, (each.task for each in running.values()))
        if known is None:
            if is_complete:
                self._started[key] = _Started(gang.uid, gang.queue, running, len(running), {})
            return is_complete
        sent_away = self._sent_away.of(key)
        for uid, member in known.running.items():
            if uid not in running and uid not in sent_away:
                self._record_end(known, uid, member, own.get(uid), running=running, now=now)
        known.running, known.most = running, max(known.most, len(running))
        known.lost = {uid: lost for uid, lost in known.lost.items() if lost.until > now}
        return True

    def _record_end(
        self,
        known: _Started,
        uid: str,
        before: Member,
        member: Member | None,
        *,
        running: dict[str, Member],
        now: float,
    ) -> None:
        """`member`: as it is now; None: it is gone."""
        if member is not None and member.phase == "Succeeded":
            return
        if member is not None and member.live:
            running[uid] = before  # it leaves, and uses its room until it is gone
        else:
            known.lost[uid] = LostPod(self._requests(before), before.task, now + LOST_SECONDS)

    def has_lost(self, key: PodGroupKey) -> bool:
        known = self._started.get(key)
        return known is not None and bool(known.lost)

    def places(
        self,
        key: PodGroupKey,
        gang: Gang,
        pods: Collection[GangPod],
        members: Iterable[Member],
        *,
        now: float,
    ) -> tuple[tuple[str, ...], Requests]:
        """The UIDs of those that wait in the place of a lost pod, and what is kept for others. `pods`: of the
        gang in its queue; `members`: all of its PodGroup.
        """
        waiting = sorted((pod for pod in pods if pod.state is PodState.WAITS), key=lambda pod: pod.pod.rank)
        first, room = in_their_place(gang, self._lacked(key, gang, pods, now=now), waiting)
        return first, room if room and self._are_made_again(gang, members) else ()

    def _lacked(
        self, key: PodGroupKey, gang: Gang, pods: Collection[GangPod], *, now: float
    ) -> Sequence[LostPod]:
        """The lost pods that the gang lacks."""
        known = self._started.get(key)
        if known is None or not known.lost:
            self._looks_at.pop(key, None)
            return ()
        self._looks_at[key] = min(now + LOOK_SECONDS, *(lost.until for lost in known.lost.values()))
        wanted = max(gang.least, known.most) if gang.resources else gang.least
        number = wanted - sum(pod.state in _THERE for pod in pods)
        decision = self._store.decisions.of_queue(gang.queue, namespace=key.namespace)
        if number <= 0 or not decision.schedules:
            return ()
        return list(known.lost.values())[-number:]

    def _are_made_again(self, gang: Gang, members: Iterable[Member]) -> bool:
        """Whether a controller of its pods makes another one, beside those that are there."""
        present: dict[str, int] = {}
        for member in members:
            if member.queue == gang.queue and not member.leaving:
                present[member.owner_uid] = present.get(member.owner_uid, 0) + member.live
        found = [
            (self._store.workloads.by_uid(uid) if uid else None, number) for uid, number in present.items()
        ]
        if gang.resources and any(owner is None for owner, _ in found):
            return True
        return any(owner is not None and _makes_more(owner, number) for owner, number in found)


def _makes_more(owner: Workload, number: int) -> bool:
    """Whether it makes more pods than so many."""
    if not owner.live or owner.paused or owner.leaving:
        return False
    return owner.kind.life is not Life.WHILE_SCALED or owner.replicas > number


def in_their_place(
    gang: Gang, lost: Sequence[LostPod], waiting: Iterable[GangPod]
) -> tuple[tuple[str, ...], Requests]:
    """The UIDs of those that wait and take the place of a lost pod: of its task, with requests that are no
    greater. And what is kept for the others.
    """
    left, first = list(lost), list[str]()
    for member in waiting:
        taken = next(
            (
                each
                for each in left
                if _fits(member.pod.requests, each.requests) and (not gang.tasks or each.task == member.task)
            ),
            None,
        )
        if taken is not None:
            left.remove(taken)
            first.append(member.pod.uid)
    kept: dict[str, Amount] = {}
    for each in left:
        add_amounts(kept, each.requests)
    return tuple(first), tuple(sorted(kept.items()))


def _fits(requests: Requests, room: Requests) -> bool:
    most = dict(room)
    return all(amount <= most.get(resource, 0) for resource, amount in requests)
