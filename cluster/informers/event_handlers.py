"""How the objects of each reflector change the store. Each handler is called from one thread only.

| kind       | stored                              | notified                                       |
|------------|-------------------------------------|------------------------------------------------|
| queues     | by name                             | the queue; if its spec or its contact changed, |
|            |                                     | all below it, of root all queues               |
| podgroups  | by namespace and name (`podgroups`) | their queue, and the pods that waited for them |
| workloads  | by UID (`workloads`)                | their queue, when they are added, removed or finish |
| pods       | by UID (`members`)                  | their queue                                    |
| namespaces | by name                             | all queues, if the queue that it names changed, or
|            |                                     | whether it is managed; a queue
|            |                                     | in use there, if it began or ceased to select it; the
|            |                                     | leader, if pods of it may lack their label |
| commands   | by UID, by queue (`commands`)       | the target queue                               |
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.cache.changes import NO_QUEUE, ClusterChange, QueueChange
from cluster.cache.store import Store
from cluster.objects import Metadata, Namespace, QueueObject
from queues import well_known
from queues.namespace_selectors import is_reserved_label
from queues.queue import ROOT
from queues.snapshot import decision_for_namespace


class QueueEventHandler:
    """Stores queues; notifies of a queue and of all queues below it, which it may affect."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def replace(self, objects: list[QueueObject]) -> None:
        gone = self._store.queue_cache.replace(objects)
        for obj in objects:
            self._store.follow_ended_pods(obj)
        for name in (*gone, *self._store.snapshot.tree):
            self._store.notify(name, QueueChange.SPEC)

    def upsert(self, obj: QueueObject) -> None:
        before, lent = self._store.snapshot, self._store.queue_cache.lending_changes
        if self._store.queue_cache.set(obj):
            self._store.follow_ended_pods(obj)
            self._notify_below(obj.metadata.name, spec_changed=self._store.snapshot is not before)
        if self._store.queue_cache.lending_changes != lent:
            self._store.refused_members.lending_changed()

    def remove(self, obj: QueueObject) -> None:
        stored = self._store.queues.get(obj.metadata.name)
        if stored is not None and obj.metadata.older_than(stored.metadata):
            return
        below = self._store.snapshot.tree.subtree(obj.metadata.name)
        self._store.queue_cache.remove(obj.metadata.name, version=obj.metadata.version)
        self._store.namespaces.selection_changes.pop(obj.metadata.name, None)
        for name in below:
            self._store.notify(name, QueueChange.SPEC)

    def _notify_below(self, name: str, *, spec_changed: bool) -> None:
        if not spec_changed:
            self._store.notify(name, QueueChange.STATUS)
            return
        below = self._store.snapshot.tree.subtree(name)
        for queue in below:
            self._store.notify(queue, QueueChange.SPEC)
        if name == ROOT:  # what is not below it, and queues that are not there, have its contact
            for queue in {*self._store.snapshot.tree, *self._store.members.queues()} - below:
                self._store.notify(queue, QueueChange.SPEC)


class NamespaceEventHandler:
    """Stores namespaces. Their annotation decides which queue their pods are members of."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def replace(self, objects: list[Namespace]) -> None:
        former = self._store.namespaces.objects
        before = {name: self._store.memberships.judged_by(name) for name in former}
        self._store.namespaces.objects = {obj.metadata.name: obj for obj in objects}
        for name in self._store.namespaces.objects if former else ():
            self._notify_of_selection(name, _labels(former.get(name)))
        changed = [
            obj for obj in objects if self._is_judged_anew(obj.metadata.name, before.get(obj.metadata.name))
        ]
        for obj in (
            *changed,
            *(obj for obj in objects if _is_selected_anew(former.get(obj.metadata.name), obj)),
        ):
            self._store.label_changes.record_namespace(obj.metadata.name)
        if changed:
            self._store.relist_members()
        self._store.notify(NO_QUEUE, ClusterChange.NAMESPACES)

    def upsert(self, obj: Namespace) -> None:
        name = obj.metadata.name
        stored = self._store.namespaces.objects.get(name)
        if stored is not None and obj.metadata.older_than(stored.metadata):
            return
        before = self._store.memberships.judged_by(name) if stored is not None else None
        self._store.namespaces.objects[name] = obj
        self._notify_of_selection(name, _labels(stored))
        is_judged_anew = self._is_judged_anew(name, before)
        if is_judged_anew or _is_selected_anew(stored, obj):
            self._store.label_changes.record_namespace(name, obj.metadata.version)
        if is_judged_anew:
            self._store.relist_members(obj.metadata.version)
        self._store.notify(NO_QUEUE, ClusterChange.NAMESPACES)

    def _is_judged_anew(self, name: str, before: tuple[str, bool | None] | None) -> bool:
        """Return whether an object in the namespace may have been judged by another queue than the present,
        or by another answer to whether the namespace is managed.

        `before`: what decided then (`Memberships.judged_by`); None if unknown. In a new namespace nothing
        has been judged as a rule: the webhook writes the queue into what it admits.
        """
        queue, is_managed = self._store.memberships.judged_by(name)
        if self._store.namespaces.take_early(name):
            has_selector = self._store.membership_settings.managed_namespaces is not None
            return bool(queue) or self._store.namespaces.pending.queue_of(name) != queue or has_selector
        return before is not None and before != (queue, is_managed)

    def remove(self, obj: Namespace) -> None:
        stored = self._store.namespaces.objects.get(obj.metadata.name)
        if stored is None or not _is_past(obj.metadata, stored.metadata):
            self._store.namespaces.objects.pop(obj.metadata.name, None)

    def _notify_of_selection(self, name: str, before: Mapping[str, str] | None) -> None:
        """Notify of the queues that have live objects in the namespace and whose selection of it changed.

        `before`: its former labels; None if they were not known.
        """
        store = self._store
        snapshot, labels = store.snapshot, store.namespaces.labels_of(name)
        if not snapshot.restricted_queues or _selectable(before) == _selectable(labels):
            return
        changes = store.namespaces.selection_changes
        for queue in snapshot.restricted_queues:
            if not store.live_members.are_in(name, queue=queue):
                continue
            was_selected = decision_for_namespace(
                snapshot.decision(queue), namespace=name, labels=before
            ).selected
            if store.decisions.selects(queue, name) is not was_selected:
                changes[queue] = changes.get(queue, 0) + 1
                store.notify(queue, QueueChange.RESYNC)


def _selectable(labels: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the labels that a selector may use; our own, such as the guard's, change with each stop."""
    if labels is None:
        return None
    return {key: value for key, value in labels.items() if not is_reserved_label(key)}


def _labels(stored: Namespace | None) -> Mapping[str, str] | None:
    """Return the labels; None if the namespace was not known."""
    return (stored.metadata.labels or {}) if stored is not None else None


def _is_selected_anew(stored: Namespace | None, obj: Namespace) -> bool:
    """Return whether webhooks did not select a known namespace, and do from now on.

    Pods of it that came before have no label.
    """
    key = well_known.MEMBER_NAMESPACE
    return stored is not None and not stored.metadata.label(key) and bool(obj.metadata.label(key))


def _is_past(gone: Metadata, stored: Metadata) -> bool:
    """Return whether the deletion is of a former object, or a former state, of that name."""
    return gone.version < stored.version
