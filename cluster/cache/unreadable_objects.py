"""The objects that cannot be read in full, with the fault of each.

Invariants
- An object is recorded from the event that brought it until it can be read or is gone.
- Each kind has one writer: its reflector's thread. Readers get copies.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from cluster.objects import Metadata


class UnreadableObject(msgspec.Struct, frozen=True):
    """The unreadable parts of one object. `kind`: the kind of its reflector."""

    kind: str
    namespace: str
    name: str
    uid: str
    text: str


class UnreadableObjects:
    """The unreadable objects of all kinds. Owner: the store."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, UnreadableObject]] = {}
        #: The number of changes so far.
        self.changes = 0

    def record(self, kind: str, meta: Metadata, text: str) -> None:
        fault = UnreadableObject(kind, meta.namespace, meta.name, meta.uid, text)
        self._by_kind.setdefault(kind, {})[meta.uid] = fault
        self.changes += 1

    def forget(self, kind: str, uid: str) -> None:
        """Forget an object that can be read or is gone."""
        faults = self._by_kind.get(kind)
        if faults and faults.pop(uid, None) is not None:
            self.changes += 1

    def keep_only(self, kind: str, uids: Container[str]) -> None:
        faults = self._by_kind.get(kind, {})
        for uid in [uid for uid in faults if uid not in uids]:
            del faults[uid]
            self.changes += 1

    def fault_of(self, uid: str) -> str:
        """Return what is wrong with an object; empty if it can be read."""
        for faults in list(self._by_kind.values()):
            fault = faults.get(uid)
            if fault is not None:
                return fault.text
        return ""

    def counts(self) -> dict[str, int]:
        return {kind: len(faults) for kind, faults in list(self._by_kind.items())}

    def all(self) -> list[UnreadableObject]:
        return [fault for faults in list(self._by_kind.values()) for fault in list(faults.values())]
