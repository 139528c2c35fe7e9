"""The Commands for queues, by UID and by the queue that they target.

Invariants
- Two threads write: the reflector's, and the controller's, which removes the Commands that it has deleted.
  Each change takes a lock. No request handler uses this cache.
- A Command older than the stored one is dropped.
- `for_queue(queue)` has exactly the stored Commands whose target is that queue. `for_queue(NO_TARGET)` has
  those that are ours to answer and name no valid target (`queues.admission.command_validation`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from cluster.objects import Command, OwnerReference
from queues.admission.command_validation import is_ours, target_refusal

#: Stands for the target of Commands that have no valid one; no queue has this name.
NO_TARGET = "?"


class Commands:
    """The Commands; the event handler of their reflector."""

    def __init__(self, *, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._by_uid: dict[str, Command] = {}
        self._by_queue: dict[str, dict[str, Command]] = {}

    def replace(self, objects: list[Command]) -> None:
        present = {obj.metadata.uid for obj in objects}
        for uid in [uid for uid in list(self._by_uid) if uid not in present]:
            self.drop(uid)
        for obj in objects:
            self.upsert(obj)

    def upsert(self, obj: Command) -> None:
        queue, uid = target_queue(obj), obj.metadata.uid
        with self._lock:
            stored = self._by_uid.get(uid)
            if stored is not None and obj.metadata.older_than(stored.metadata):
                return
            self._by_uid[uid] = obj
            if queue:
                self._by_queue.setdefault(queue, {})[uid] = obj
        if queue:
            self._on_change(queue)

    def remove(self, obj: Command) -> None:
        stored = self._by_uid.get(obj.metadata.uid)
        if stored is None or not obj.metadata.older_than(stored.metadata):
            self.drop(obj.metadata.uid)

    def drop(self, uid: str) -> None:
        """Remove a Command that is gone; from any thread."""
        with self._lock:
            command = self._by_uid.pop(uid, None)
            queue = target_queue(command) if command is not None else ""
            in_queue = self._by_queue.get(queue, {})
            in_queue.pop(uid, None)
            if not in_queue:  # users choose queue names: an index without Commands would stay for good
                self._by_queue.pop(queue, None)

    # Readers

    def all(self) -> list[Command]:
        with self._lock:
            return list(self._by_uid.values())

    def queues(self) -> list[str]:
        """Return the queues that Commands target, `NO_TARGET` and queues that do not exist included."""
        with self._lock:
            return list(self._by_queue)

    def for_queue(self, queue: str) -> list[Command]:
        with self._lock:
            return list(self._by_queue.get(queue, {}).values())


def target_queue(command: Command) -> str:
    """Return the target queue or `NO_TARGET`; empty for a Command for another kind, which is not ours."""
    target = command.target or OwnerReference()
    if not is_ours(target.kind):
        return ""
    return NO_TARGET if target_fault(command) else target.name


def target_fault(command: Command) -> str | None:
    """Return why a Command of ours has no valid target queue; None if it has one."""
    target = command.target or OwnerReference()
    return target_refusal(api_version=target.api_version, kind=target.kind, name=target.name)
