"""Ungates and retries the pods of resumed queues, before all else that a sync does with members.

Gates are removed at once. A retry may wait until every replica lets the pod pass: else one of them might
refuse it again. The reading of their Leases is requested here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import partial

from cluster.cache.changes import NO_QUEUE, QueueChange, StoreChange
from controller.context import ControllerContext
from controller.members.changed_members import ChangedMembers, concern_all_members
from controller.parts import Part, attempt
from controller.pods.ungating import Ungating
from controller.stops.acknowledgement import StopAcknowledgement

#: How soon a queue is looked at again while some of its pods wait for every replica.
POSTPONED_SECONDS = 0.02


class ResumedPods(Part):
    """Owner: the controller's thread."""

    name = "ungate"

    def __init__(
        self,
        context: ControllerContext,
        *,
        acknowledgement: StopAcknowledgement,
        ungating: Ungating,
        members: ChangedMembers,
    ) -> None:
        self._store = context.store
        self._work_queue = context.work_queue
        self._acknowledgement = acknowledgement
        self._ungating = ungating
        self._members = members
        #: The queues of which pods wait until every replica lets them pass.
        self._postponed: set[str] = set()
        self._changes: dict[str, frozenset[StoreChange]] = {}
        #: The queues whose members this sync has looked at already.
        self.done: set[str] = set()

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        self._changes = {queue: frozenset(of_queue) for queue, of_queue in changes.items()}
        self.done = set()  # also where the step backs off: the members of all queues are looked at later then

    def step(self) -> None:
        """An edit of a queue resumes queues below it, too. Their changes may come with the next sync, but
        their pods are ungated in this one, all in one order.
        """
        queues = {
            queue
            for queue, of_queue in self._changes.items()
            if queue != NO_QUEUE
            and concern_all_members(of_queue)
            and (self._ungating.is_resumed(queue) or queue in self._postponed)
        }
        if queues:
            queues.update(filter(self._ungating.is_resumed, self._store.members.queues()))
        self.done = queues
        with self._ungating.resume_together() if len(queues) > 1 else nullcontext():
            for queue in queues:
                of_queue = self._changes.get(queue, frozenset({QueueChange.MEMBERS}))
                attempt(self._store, self.name, partial(self.ungate, queue, of_queue), queue=queue)

    def ungate(self, queue: str, changes: Iterable[StoreChange]) -> None:
        """Ungate or retry the members of the queue that these changes concern."""
        changes = frozenset(changes)
        members = self._members.of(queue, changes)
        if self._ungating.ungate(queue, members, may_retry=partial(self.may_retry, queue)):
            self._postponed.add(queue)
            self._work_queue.add_after(queue, QueueChange.MEMBERS, seconds=POSTPONED_SECONDS)
        elif concern_all_members(changes):
            self._postponed.discard(queue)

    def may_retry(self, queue: str) -> bool:
        """Whether every replica lets pods of the queue pass."""
        return self._acknowledgement.demand_seen_by_all(queue, change=QueueChange.MEMBERS)

    def forget_queue(self, queue: str) -> None:
        self._postponed.discard(queue)

    def resync(self) -> None:
        self._ungating.forget_absent_queues()
