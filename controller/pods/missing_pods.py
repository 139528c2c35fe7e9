"""Counts the pods that were deleted to be created again and have not been, by their controller.

A pod is missing as long as its controller has fewer live pods than it had when its first pod was deleted, and
fewer than it wants. In all those count whose controller had a pod deleted in the last `RECENT_SECONDS`: a
controller that may not create pods, for want of a quota for instance, does not stop the others for longer.

Invariants
- Of one controller at most `OWNER_LIMIT` pods are missing by what is deleted here, in all at most `LIMIT`.
- A pod whose deletion is under way, or that the cache has only because its watch is late, is not live.

Owner: the controller's thread. Times are monotonic seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from cluster.cache.members import Member
from cluster.cache.workloads import Workload

#: kube-controller-manager creates 20 pods a second, of all ReplicaSets together (`--kube-api-qps`). So those
#: of others come a second later at most.
LIMIT, OWNER_LIMIT = 20, 10
RECENT_SECONDS = 10.0


class _Owner(msgspec.Struct):
    """A controller of deleted pods. `had`: live pods, at most; `queue`: that of its pods."""

    queue: str
    had: int
    missing: int = 0
    deleted_at: float = 0.0


class MissingPods:
    def __init__(self) -> None:
        self._owners: dict[str, _Owner] = {}
        #: Deleted pods that the cache may still have, by UID.
        self._deleted: set[str] = set()
        self._total = 0

    @property
    def queues(self) -> set[str]:
        """The queues whose members `count` has to see."""
        return {owner.queue for owner in self._owners.values()}

    def count(
        self,
        members: Iterable[Member],
        *,
        under_way: Collection[str],
        parked: Mapping[str, Workload],
        now: float,
    ) -> None:
        """Count anew. `members`: of `queues`, and of the queues of the controllers in `parked`, by UID;
        `under_way`: the UIDs of pods that are being deleted.
        """
        live: Counter[str] = Counter()
        seen: set[str] = set()
        for member in members:
            if member.uid in self._deleted:
                seen.add(member.uid)
            elif member.owner_uid and member.live and not member.leaving and member.uid not in under_way:
                live[member.owner_uid] += 1
        self._deleted = seen
        for uid, owner in list(self._owners.items()):
            if uid not in parked and now - owner.deleted_at > RECENT_SECONDS:
                del self._owners[uid]
        self._total = 0
        for uid, work in parked.items():
            known = self._owners.setdefault(uid, _Owner(work.queue, live[uid], deleted_at=-RECENT_SECONDS))
            known.had = max(known.had, live[uid])
            known.missing = max(0, min(known.had, work.replicas) - live[uid])
        for uid, owner in self._owners.items():
            if uid not in parked:
                owner.missing = max(0, owner.had - live[uid])
            if now - owner.deleted_at <= RECENT_SECONDS:
                self._total += owner.missing

    def may_delete(self, owner: str) -> bool:
        """Whether one more pod of this controller, by UID, may be missing."""
        return self._total < LIMIT and self._owners[owner].missing < OWNER_LIMIT

    def delete(self, owner: str, *, now: float) -> None:
        """A pod of it is about to be deleted."""
        known = self._owners[owner]
        if now - known.deleted_at > RECENT_SECONDS:
            self._total += known.missing
        known.missing += 1
        known.deleted_at = now
        self._total += 1

    def note_deleted(self, uid: str) -> None:
        """The pod has been deleted."""
        self._deleted.add(uid)

    def clear(self) -> None:
        """Forget everything."""
        self._owners.clear()
        self._deleted.clear()
        self._total = 0
