"""What the watch of pods shows of labels that somebody changed. The leader reads it
(`controller.pods.member_labels`).

Members are watched by label `sluice.dev/queue`, so the watch reports a pod that loses its label as deleted.
Whether it was deleted only the API server can say; a pod that was being deleted, or that had finished, is not
remembered.

Invariants
- Each change is recorded before the cache of members shows it.
- What was taken and could not be used is put back: no change is forgotten but by who used it.
- At most `MAX_CHANGES` of a sort are kept. Beyond, `ChangedLabels.incomplete` is set: the leader looks for
  all pods without the label then. No list shows that another queue was written on a pod. So of `moved` that
  many are kept beyond the number of members: each member that there is has its place.
- Threads: the reflectors of pods and namespaces record; the controller's thread takes, on every replica;
  requests ask for recent namespaces, without a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sized

import msgspec

from cluster.cache.members import Member

MAX_CHANGES = 10_000
#: For so long a namespace has named its queue only lately. The leader lists its pods again after twice this
#: time (`controller.pods.member_labels.NAMESPACE_SECONDS`), and may have heard of it earlier than we.
RECENT_SECONDS = 1.0


class Departure(msgspec.Struct, frozen=True, gc=False):
    """A member that left the watch. `version`: of pods, when it left; 0: it was missing in a list."""

    member: Member
    version: int


class ChangedLabels(msgspec.Struct):
    """`left`: members that left the watch. `moved`: members, as they were before another queue was written on
    them. `unwritten`: UIDs of members whose label or annotation does not name their queue. `namespaces`:
    those that name another queue than before, with the version since when; 0 if it is not known.
    """

    left: dict[str, Departure] = {}
    moved: dict[str, Member] = {}
    unwritten: set[str] = set()
    namespaces: dict[str, int] = {}
    incomplete: bool = False


_NONE = ChangedLabels()


class LabelChanges:
    """Owner: the store."""

    def __init__(self, *, clock: Callable[[], float], members: Callable[[], int]) -> None:
        """`clock`: monotonic seconds. `members`: how many there are."""
        self._members = members
        self._lock = threading.Lock()
        self._changes = ChangedLabels()
        self._clock = clock
        #: Until when a namespace is recent; written by the reflector of namespaces alone.
        self._recent_until: dict[str, float] = {}

    def record_left(self, member: Member, version: int) -> None:
        if member.leaving or not member.live or not member.queue:
            return
        with self._lock:
            if self._has_room(self._changes.left):
                self._changes.left[member.uid] = Departure(member, version)

    def record_state(self, before: Member | None, after: Member | None) -> None:
        """Record a new state of a pod that the watch has; `after`: None if it is a member no more."""
        had_queue = before if before is not None and before.written and before.queue else None
        if had_queue is not None and (after is None or after.queue != had_queue.queue):
            with self._lock:
                if self._has_room(self._changes.moved, beside=self._members()):
                    self._changes.moved.setdefault(had_queue.uid, had_queue)
            return
        if after is not None and not after.written and (before is None or before.version != after.version):
            with self._lock:
                if self._has_room(self._changes.unwritten):
                    self._changes.unwritten.add(after.uid)

    def record_namespace(self, name: str, version: int = 0) -> None:
        """Record that the namespace names another queue than before, since this version, if it is known."""
        now = self._clock()
        if len(self._recent_until) >= MAX_CHANGES:
            self._recent_until = {name: until for name, until in self._recent_until.items() if until > now}
        if len(self._recent_until) < MAX_CHANGES:
            self._recent_until[name] = now + RECENT_SECONDS
        with self._lock:
            if self._has_room(self._changes.namespaces):
                known = self._changes.namespaces.get(name, version)
                self._changes.namespaces[name] = min(known, version)

    def is_recent(self, namespace: str) -> bool:
        """Whether the namespace named another queue a moment ago, as far as this replica knows.

        Its pods without a label may have been created before a mutating webhook knew its queue; the leader
        lists them.
        """
        until = self._recent_until.get(namespace)
        return until is not None and self._clock() < until

    def take(self) -> ChangedLabels:
        """Return all changes since the last call."""
        if self._changes == _NONE:
            return _NONE
        with self._lock:
            changes, self._changes = self._changes, ChangedLabels()
        return changes

    def put_back(self, taken: ChangedLabels) -> None:
        """Have these changes taken again, with those since; it is not known which of them were used."""
        with self._lock:
            since = self._changes
            self._changes = ChangedLabels(
                left=taken.left | since.left,
                moved=since.moved | taken.moved,
                unwritten=taken.unwritten | since.unwritten,
                namespaces=taken.namespaces
                | {
                    name: min(version, taken.namespaces.get(name, version))
                    for name, version in since.namespaces.items()
                },
                incomplete=True,
            )

    def _has_room(self, kept: Sized, *, beside: int = 0) -> bool:
        has_room = len(kept) < MAX_CHANGES + beside
        self._changes.incomplete |= not has_room
        return has_room
