"""What is asked for of each gang, and why nothing is: what `WaitingPods` remembers of PodGroups.

| of a gang                    | in the index                         | its pods are told             |
|------------------------------|--------------------------------------|-------------------------------|
| its minimum can start        | the minimum, as one entry            | what that lacks; those beyond |
|                              |                                      | it that they go after it      |
| its minimum was released     | the pods beyond it, one by one       | what each of them lacks       |
| its minimum cannot start yet | nothing; or what of `minResources`   | why, after `TELL_SECONDS`     |
|                              | is to be kept for it, if its pods    |                               |
|                              | do not exist                         |                               |
| it can never start           | nothing                              | why, at once                  |
| some are in another queue    | nothing of these                     | that, after `TELL_SECONDS`    |
| its PodGroup does not exist  | nothing                              | that, after `TELL_SECONDS`    |

Invariants
- What is in the index of a gang is what was asked for when it was read last: its former entries leave the
  index as the new ones come.
- A gang is read once for all that has changed of it since it was read last. That takes as long as it has
  pods: one with more of them than can start together rests in between, so that it leaves time to others.
- What is kept for gangs (`queues.quota.gangs.unused_resources`) counts as used by their queue for as long as
  pods of the gang use something. It is no more than was asked for as they were released: a PodGroup that
  asks for more later, or in another queue, takes no room from anybody.
- Pods are told a reason once, however many others come while it holds: its text has no number that changes.
  It is told late: most gangs are complete a moment after their first pod, and a pod whose condition is
  written while it is released has to be released anew.

Owner: `WaitingPods`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from cluster.cache.podgroups import PodGroupKey
from queues.apimachinery.pod_requests import Requests
from queues.messages import other_gate_text
from queues.quota.book import MAX_INTENTS
from queues.quota.gangs import BEYOND, Gang, NotAsked, NotAskedKind
from queues.quota.lack import Lack, LackKind
from queues.quota.ledger import AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod

#: A gang whose pods are still being made says nothing for so long.
TELL_SECONDS = 1.0
#: The rest of a gang that has more pods than can start together, for each of them.
REST_SECONDS = 0.0002


class GangState(msgspec.Struct, kw_only=True):
    """A gang as it was read last. `gang`: None where its PodGroup does not exist. `entries`: what is in the
    index, by UID. `reservation`: of these, what it asks for before its pods exist. `requests`: what each pod
    of them requested, by its UID. `waiting`: its pods with a gate of ours. `not_asked`: why nothing is asked
    for. `is_started`: its minimum was released; `is_begun`: a part of that was. `first`: of the entries,
    those that go before all others. `strays`: its pods that wait in other queues, and count for nothing.
    `other_gates`: gates of others, by the pods that wait for these alone. `kept`: what of `minResources` is
    kept for it; `lost`: what is for pods that it has lost. `granted`: what of its `minResources` was asked
    for. `reason`: what its pods are
    told, as of `since`; `untold`: those that were not told it yet.
    """

    gang: Gang | None
    entries: Mapping[str, WaitingPod] = {}
    reservation: WaitingPod | None = None
    requests: Mapping[str, Requests] = {}
    waiting: frozenset[str] = frozenset()
    not_asked: NotAsked | None = None
    is_started: bool = False
    is_begun: bool = False
    first: tuple[str, ...] = ()
    other_gates: Mapping[str, str] = {}
    strays: frozenset[str] = frozenset()
    lost: Requests = ()
    kept: Requests = ()
    granted: Requests = ()
    reason: str = ""
    untold: set[str] = msgspec.field(default_factory=set)

    @property
    def queue(self) -> str:
        return self.gang.queue if self.gang is not None else ""

    @property
    def minimum(self) -> WaitingPod | None:
        """The entry of its minimum, while that waits for room."""
        if self.gang is None or self.reservation is not None:
            return None
        return self.entries.get(self.gang.uid)

    @property
    def counted(self) -> Requests:
        """All that is kept for it."""
        return tuple(sorted((*self.kept, *self.lost)))

    @property
    def goes_first(self) -> list[WaitingPod]:
        """The entries that go before all others: what is missing of a minimum that another leader has begun,
        and what takes the place of pods that the gang has lost.
        """
        if self.is_begun:
            return [self.minimum] if self.minimum is not None else []
        return [self.entries[uid] for uid in self.first if uid in self.entries]

    @property
    def not_in_index(self) -> frozenset[str]:
        """The pods that wait for others of their gang, or in another queue."""
        if self.not_asked is not None:
            return self.waiting
        if self.minimum is not None:
            return self.waiting.difference(self.minimum.uids)
        return self.strays.union(self.other_gates)

    def reason_of(self, uid: str) -> str:
        """What this pod is told of those that are not in the index."""
        if uid in self.other_gates and not (self.not_asked is not None and self.not_asked.kind.never):
            return other_gate_text(self.other_gates[uid])
        is_elsewhere = uid in self.strays and (self.not_asked is None or not self.not_asked.kind.never)
        return NotAsked(kind=NotAskedKind.QUEUES).reason if is_elsewhere else self.reason


class WaitingGangs:
    """For one thread. `now`: monotonic seconds."""

    def __init__(self, ledger: Ledger) -> None:
        """`ledger`: has what is kept for gangs."""
        self._ledger = ledger
        self._states: dict[PodGroupKey, GangState] = {}
        #: By the UID of an entry in the index.
        self._key_of_entry: dict[str, PodGroupKey] = {}
        #: What is to be read, and which of its pods have changed.
        self._changed: dict[PodGroupKey, set[str]] = {}
        #: Until when those with very many pods rest.
        self._rests: dict[PodGroupKey, float] = {}
        #: When pods are told why they wait, the first one first.
        self._told_at: dict[PodGroupKey, float] = {}
        #: Those that are told at once.
        self._told_now: dict[PodGroupKey, None] = {}

    # What is to be read

    def record(self, key: PodGroupKey, *uids: str) -> None:
        """The PodGroup has changed, or these pods of it."""
        self._changed.setdefault(key, set()).update(uids)

    def has_changed(self, now: float) -> bool:
        """Whether there is one to be read now."""
        return any(self._rests.get(key, now) <= now for key in self._changed)

    def is_unread(self, key: PodGroupKey) -> bool:
        """Whether it has changed since it was read last."""
        return key in self._changed

    @property
    def rests_until(self) -> float:
        """When one that rests is to be read."""
        rests = (self._rests[key] for key in self._changed if key in self._rests)
        return min(rests, default=math.inf) if self._rests else math.inf

    def take_changed(self, now: float) -> dict[PodGroupKey, set[str]]:
        """Those that are to be read now, with their pods that have changed."""
        changed, self._changed = self._changed, {}
        for key in [key for key in self._rests if key in changed]:
            if self._rests[key] > now:
                self._changed[key] = changed.pop(key)
            else:
                del self._rests[key]
        return changed

    def rest(self, key: PodGroupKey, *, pods: int, now: float) -> None:
        """It was read, and has so many pods."""
        if pods > MAX_INTENTS:
            self._rests[key] = now + pods * REST_SECONDS

    # What was read

    def get(self, key: PodGroupKey) -> GangState | None:
        return self._states.get(key)

    def key_of_entry(self, uid: str) -> PodGroupKey | None:
        """Of which gang the entry of the index is: its minimum, or a pod beyond it."""
        return self._key_of_entry.get(uid)

    def state_of_entry(self, uid: str) -> GangState | None:
        key = self._key_of_entry.get(uid)
        return self._states.get(key) if key is not None else None

    def pop(self, key: PodGroupKey) -> GangState | None:
        """Forget it; what is in the index of it is to be taken out."""
        state = self._states.pop(key, None)
        if state is not None:
            for uid in state.entries:
                self._key_of_entry.pop(uid, None)
            self._ledger.set_one(state.queue, AmountReason.KEPT, key, ())
        self._told_at.pop(key, None)
        self._told_now.pop(key, None)
        self._rests.pop(key, None)
        return state

    def set(self, key: PodGroupKey, state: GangState, *, changed: Iterable[str], now: float) -> None:
        """It was read. `changed`: the pods that are to be told again why they wait."""
        before = self._states.get(key)
        if before is not None:
            for uid in before.entries:
                self._key_of_entry.pop(uid, None)
            if before.queue != state.queue:
                self._ledger.set_one(before.queue, AmountReason.KEPT, key, ())
        self._states[key] = state
        self._key_of_entry.update(dict.fromkeys(state.entries, key))
        self._ledger.set_one(state.queue, AmountReason.KEPT, key, state.counted)
        self._tell(key, before, state, changed=changed, now=now)

    def _tell(
        self,
        key: PodGroupKey,
        before: GangState | None,
        state: GangState,
        *,
        changed: Iterable[str],
        now: float,
    ) -> None:
        state.reason = state.not_asked.reason if state.not_asked is not None else BEYOND
        told = state.not_in_index
        if before is None or before.reason != state.reason:
            state.untold = set(told)
            self._told_at.pop(key, None)
        else:
            state.untold = (before.untold.union(changed) & told) | (told - before.not_in_index)
        if not state.untold:
            self._told_at.pop(key, None)
            self._told_now.pop(key, None)
            return
        if state.not_asked is not None and state.not_asked.kind.never:
            self._told_now[key] = None
        else:
            self._told_at.setdefault(key, now + TELL_SECONDS)

    # Reasons

    @property
    def tells_at(self) -> float:
        """When pods are told next why nothing of their gang is asked for."""
        return -math.inf if self._told_now else next(iter(self._told_at.values()), math.inf)

    def take_reasons(self, now: float) -> Iterator[tuple[str, Lack]]:
        """The pods that are told now, by UID. The queue of the reason is left open."""
        due = list(self._told_now)
        self._told_now.clear()
        while self._told_at and (first := next(iter(self._told_at.items())))[1] <= now:
            del self._told_at[first[0]]
            due.append(first[0])
        for key in due:
            state = self._states.get(key)
            if state is None:
                continue
            untold, state.untold = state.untold, set()
            never = state.not_asked is not None and state.not_asked.kind.never
            lack = Lack("", never=never, kind=LackKind.GANG, why=state.reason)
            for uid in untold:
                yield uid, msgspec.structs.replace(lack, why=state.reason_of(uid))
