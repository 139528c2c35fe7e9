"""The PodGroups: the queue of each, and the number of each phase in a queue.

Invariants
- One writer: the PodGroup reflector's thread. Readers look up single entries, or get copies.
- The counts of a queue always match its stored PodGroups.
- A PodGroup older than the stored one is dropped.
- What a PodGroup asks for as a gang is read once for each change of its spec, and of the value of its
  PriorityClass; the latter is written by the reflector of these classes, under a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import msgspec

from cluster.inflight.admissions import admission_request
from cluster.objects import Metadata, PodGroup
from queues import well_known
from queues.quota.gangs import Gang
from queues.status.podgroup_phases import Phase
from queues.world.podgroups import PodGroupKey, gang_of_podgroup, is_live, phase_of, queue_of
from queues.world.trimming import trim_podgroup

__all__ = ["NO_PODGROUPS", "PodGroupCounts", "PodGroupKey", "PodGroups", "is_live", "phase_of"]


NamespacedName = tuple[str, str]


class PodGroupCounts(msgspec.Struct, gc=False):
    """The PodGroups of a queue: by phase, and live; written by the PodGroup reflector's thread only."""

    phases: dict[Phase, int] = {}
    live: int = 0
    #: The number of live PodGroups by namespace.
    live_by_namespace: dict[str, int] = {}

    def add(self, podgroup: PodGroup, by: int) -> None:
        phase = phase_of(podgroup)
        self.phases[phase] = self.phases.get(phase, 0) + by
        if is_live(podgroup):
            self.live += by
            number = self.live_by_namespace.get(podgroup.metadata.namespace, 0) + by
            if number:
                self.live_by_namespace[podgroup.metadata.namespace] = number
            else:
                self.live_by_namespace.pop(podgroup.metadata.namespace, None)

    def by_phase(self) -> dict[str, int]:
        """Return the counts by the field names of a Queue's status."""
        return {phase.lower(): self.phases.get(phase, 0) for phase in Phase}


NO_PODGROUPS = PodGroupCounts()


class PodGroups:
    """The PodGroups; the event handler of their reflector.

    `on_queue_change`: called when a PodGroup is new or its queue changed. `on_change`: called with each
    former and present state. `on_policy_change`: called when it names another scheduling policy. `arrived`:
    called with the admission request of each PodGroup that was seen. `is_seen`: whether a PodGroup can have
    members, by its namespace; all others are as if they did not exist. `value_of`: that of a PriorityClass.
    """

    def __init__(
        self,
        *,
        on_queue_change: Callable[[], None],
        on_change: Callable[[PodGroup], None],
        arrived: Callable[[str], None],
        on_policy_change: Callable[[PodGroup], None] = lambda _group: None,
        is_seen: Callable[[PodGroup], bool] = lambda _group: True,
        value_of: Callable[[str], int | None] = lambda _name: None,
    ) -> None:
        self._is_seen = is_seen
        self._on_queue_change = on_queue_change
        self._on_change = on_change
        self._on_policy_change = on_policy_change
        self._arrived = arrived
        self._by_key: dict[NamespacedName, PodGroup] = {}
        self._by_queue: dict[str, dict[NamespacedName, PodGroup]] = {}
        self._counts: dict[str, PodGroupCounts] = {}
        self._value_of = value_of
        #: Of the PodGroups whose pods do not go by themselves; the same object until the spec, or the value
        #: of the PriorityClass, changes.
        self._gangs: dict[NamespacedName, Gang] = {}
        #: The PriorityClass that each gang names, and the gangs by it.
        self._class_of: dict[NamespacedName, str] = {}
        self._by_class: dict[str, dict[NamespacedName, PodGroup]] = {}
        self._names_classes = False
        #: Held by the two threads that write gangs: the reflectors of PodGroups and of PriorityClasses.
        self._gangs_lock = threading.Lock()
        self._class_listeners: list[Callable[[bool], object]] = []

    def add_class_listener(self, listener: Callable[[bool], object]) -> None:
        """`listener` is called when a gang comes to name a PriorityClass, or none does any more."""
        self._class_listeners.append(listener)

    def classes_changed(self, names: Iterable[str]) -> None:
        """PriorityClasses of these names have other values. In the thread of their reflector."""
        for name in names:
            with self._gangs_lock:
                concerned = list(self._by_class.get(name, {}).items())
                for key, podgroup in concerned:
                    self._gangs[key] = gang_of_podgroup(podgroup, value_of=self._value_of)
            for _, podgroup in concerned:
                self._on_change(podgroup)

    def replace(self, objects: list[PodGroup]) -> None:
        present = {_key(obj.metadata) for obj in objects}
        for key in [key for key in self._by_key if key not in present]:
            self._set(self._by_key[key], None)
        for obj in objects:
            self.upsert(obj)

    def upsert(self, obj: PodGroup) -> None:
        before = self._by_key.get(_key(obj.metadata))
        if before is not None and obj.metadata.older_than(before.metadata):
            return
        if not self._is_seen(obj):
            if before is not None:  # its namespace is not managed any more
                self._set(before, None)
            return
        self._set(before, trim_podgroup(obj))
        self._arrived(admission_request(obj.metadata))
        if before is None or queue_of(before) != queue_of(obj):
            self._on_queue_change()

    def remove(self, obj: PodGroup) -> None:
        before = self._by_key.get(_key(obj.metadata))
        if before is not None and obj.metadata.version >= before.metadata.version:
            self._set(before, None)

    def _set(self, before: PodGroup | None, after: PodGroup | None) -> None:
        # This order lets a reader see the old or the new state, never neither; counts are never too low.
        if after is not None:
            key, queue = _key(after.metadata), queue_of(after)
            self._set_gang(key, before, after)
            self._by_key[key] = after
            self._by_queue.setdefault(queue, {})[key] = after
            self._counts.setdefault(queue, PodGroupCounts()).add(after, 1)
        if before is not None:
            self._remove(before)
        for podgroup in (before, after):
            if podgroup is not None:
                self._on_change(podgroup)
        latest = after or before
        if latest is not None and _policy_named_by(before) != _policy_named_by(after):
            self._on_policy_change(latest)

    def _set_gang(self, key: NamespacedName, before: PodGroup | None, after: PodGroup) -> None:
        if before is not None and before.spec == after.spec and before.metadata.uid == after.metadata.uid:
            return
        named = after.spec.priority_class_name or ""
        with self._gangs_lock:
            gang = gang_of_podgroup(after, value_of=self._value_of)
            self._index_class(key, "" if gang.is_single else named, after)
            if gang.is_single:
                self._gangs.pop(key, None)
            elif gang != self._gangs.get(key):
                self._gangs[key] = gang
        self._tell_class_listeners()

    def _index_class(self, key: NamespacedName, name: str, podgroup: PodGroup) -> None:
        """Index a gang by the PriorityClass that it names now; "": by none. The lock is held."""
        before = self._class_of.pop(key, "")
        if before:
            self._by_class[before].pop(key)
            if not self._by_class[before]:
                del self._by_class[before]
        if name:
            self._class_of[key] = name
            self._by_class.setdefault(name, {})[key] = podgroup

    def _tell_class_listeners(self) -> None:
        names_any = bool(self._class_of)
        if names_any is not self._names_classes:
            self._names_classes = names_any
            for listener in self._class_listeners:
                listener(names_any)

    def _remove(self, before: PodGroup) -> None:
        key, queue = _key(before.metadata), queue_of(before)
        in_queue = self._by_queue[queue]
        for index in (self._by_key, in_queue):
            if index.get(key) is before:
                del index[key]
        if key not in self._by_key:
            with self._gangs_lock:
                self._gangs.pop(key, None)
                self._index_class(key, "", before)
            self._tell_class_listeners()
        self._counts[queue].add(before, -1)
        if not in_queue:  # users choose queue names: an index without PodGroups would stay for good
            del self._by_queue[queue]
            del self._counts[queue]

    # Readers

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, namespace: str, name: str) -> PodGroup | None:
        return self._by_key.get((namespace, name))

    def queue_of(self, namespace: str, name: str) -> str | None:
        podgroup = self._by_key.get((namespace, name))
        return None if podgroup is None else queue_of(podgroup)

    def gang(self, namespace: str, name: str) -> Gang | None:
        """What the PodGroup asks for; None if its pods go by themselves, or it does not exist."""
        return self._gangs.get((namespace, name))

    def all(self) -> list[PodGroup]:
        return list(self._by_key.values())

    def in_queue(self, queue: str) -> list[PodGroup]:
        groups = self._by_queue.get(queue)
        return list(groups.values()) if groups else []

    def queues(self) -> list[str]:
        """The names of the queues that PodGroups name; a queue may not exist."""
        return list(self._by_queue)

    def live(self, queues: Iterable[str]) -> int:
        return sum(self.counts(queue).live for queue in queues)

    def counts(self, queue: str) -> PodGroupCounts:
        return self._counts.get(queue, NO_PODGROUPS)


def _key(meta: Metadata) -> NamespacedName:
    return meta.namespace, meta.name


def _policy_named_by(podgroup: PodGroup | None) -> str:
    return podgroup.metadata.annotation(well_known.SCHEDULER_POLICY) if podgroup is not None else ""
