"""The Commands for queues, by UID and by the queue that they are for.

Invariants
- Two threads write, the reflector's and the controller's, which takes out what it has deleted; a lock is
  held for each change. No request path comes here.
- The past is refused.
- `for_queue(queue)` has just those held whose target is that queue. `for_queue(NO_QUEUE)` has those that are
  ours to answer and name none that can be acted on (`queues.admission.command_validation`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from cluster.objects import Command, OwnerReference
from queues.admission.command_validation import is_ours, target_refusal

#: Stands for the queue of Commands that are to be dropped; no queue has this name.
NO_QUEUE = "?"


class Commands:
    """The sink of the Command reflector."""

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
        """It is gone; any thread may say so."""
        with self._lock:
            command = self._by_uid.pop(uid, None)
            queue = target_queue(command) if command is not None else ""
            in_queue = self._by_queue.get(queue, {})
            in_queue.pop(uid, None)
            if not in_queue:  # users name queues as they like: nothing is kept of one without Commands
                self._by_queue.pop(queue, None)

    # Readers

    def all(self) -> list[Command]:
        with self._lock:
            return list(self._by_uid.values())

    def queues(self) -> list[str]:
        """The queues that Commands are for, `NO_QUEUE` and those that do not exist included."""
        with self._lock:
            return list(self._by_queue)

    def for_queue(self, queue: str) -> list[Command]:
        with self._lock:
            return list(self._by_queue.get(queue, {}).values())


def target_queue(command: Command) -> str:
    """The queue it is for, `NO_QUEUE`, or nothing: Commands for other kinds are none of our business."""
    target = command.target or OwnerReference()
    if not is_ours(target.kind):
        return ""
    return NO_QUEUE if target_fault(command) else target.name


def target_fault(command: Command) -> str | None:
    """Why there is no queue to act on for this Command, which is ours."""
    target = command.target or OwnerReference()
    return target_refusal(api_version=target.api_version, kind=target.kind, name=target.name)
