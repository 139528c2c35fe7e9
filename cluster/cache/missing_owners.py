"""Owners of members that the cache does not have: they are looked up (`cluster.informers.workloads`).

Workloads are watched by their label. An owner of a member that has no label is in no watch: it was created
while no webhook was registered, or is a member of no queue, while another webhook made its pods members.

Invariants
- An owner stays in here until it was looked up, or its watch brought it.
- At most `MAX_OWNERS` are kept. Beyond, `take_overflow` says that every kind must be listed.
- Threads: any thread records; one looks up.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

import msgspec

from cluster.debounce import Trigger
from queues.workload_kinds import KINDS

MAX_OWNERS = 10_000


class MissingOwner(msgspec.Struct, frozen=True, gc=False):
    """`kinds`: the keys of the kinds that it may be of."""

    kinds: tuple[str, ...]
    namespace: str
    name: str
    uid: str


def _keys_by_kind() -> Mapping[str, tuple[str, ...]]:
    keys: dict[str, list[str]] = defaultdict(list)
    for row in KINDS.values():
        keys[row.kind].append(row.key)
    return {kind: tuple(of_kind) for kind, of_kind in keys.items()}


_KEYS = _keys_by_kind()


class MissingOwners:
    """Owner: the store. `lookups`: fired for each owner that is recorded."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self.lookups = Trigger(clock=clock)
        self._lock = threading.Lock()
        self._by_uid: dict[str, MissingOwner] = {}
        self._overflow = False

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid

    def record(self, *, kind: str, namespace: str, name: str, uid: str) -> None:
        """Have this owner looked up, if it can be a workload."""
        kinds = _KEYS.get(kind)
        if kinds is None or not name or uid in self._by_uid:
            return
        with self._lock:
            if len(self._by_uid) < MAX_OWNERS:
                self._by_uid[uid] = MissingOwner(kinds, namespace, name, uid)
            else:
                self._overflow = True
        self.lookups.fire()

    def pending(self) -> list[MissingOwner]:
        with self._lock:
            return list(self._by_uid.values())

    def take_overflow(self) -> bool:
        """Return whether owners were not kept since the last call."""
        with self._lock:
            overflow, self._overflow = self._overflow, False
        return overflow

    def forget(self, uid: str) -> None:
        with self._lock:
            self._by_uid.pop(uid, None)
