"""Which queues are reconciled after a change of the scheduling policies.

A change of the ConfigMap may concern every queue. The status of a queue changes only where its condition
PolicyResolved does, so only those queues are reconciled.

Invariants
- A round begins at once after a change, but `ROUND_SECONDS` after the former one at the earliest: a burst of
  changes is one round.
- At most `WRITES_LIMIT` writes that say only which policy counts are under way, whatever they are for (a
  round, a resync, an edit of `root`): the other queues wait here until there is room. So a stop of one of
  these queues waits for so many writes at most, however many queues there are.
- What a round finds wrong with the policies is recorded at its beginning (`policy_events`).
- Without policies, and where no queue names one, a round has no queue.

Threads: the listener is called in the thread of the policies' reflector; all else is for the controller's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from cluster.objects import Condition
from controller.context import ControllerContext
from controller.gauges import set_policy_gauges
from controller.parts import Part
from controller.status.policy_events import PolicyEvents
from controller.status.queue_records import QueueRecords
from queues.policies.policy_set import PolicySet
from queues.status.conditions import DerivedCondition
from queues.status.policy_condition import POLICY_RESOLVED, policy_condition

ROUND_SECONDS = 0.5
WRITES_LIMIT = 40


class PolicyChanges(Part):
    """Owner: the controller's thread."""

    name = "policies"

    def __init__(self, context: ControllerContext, *, records: QueueRecords) -> None:
        self._context = context
        self._store = context.store
        self._records = records
        self._events = PolicyEvents(context)
        self._changed = False
        self._next_round = -math.inf
        #: The queues that are still to be reconciled, in their order.
        self._waiting: dict[str, None] = {}
        #: Those that were passed on, as far as they may have a write under way.
        self._passed_on: set[str] = set()
        context.store.policies.add_listener(self._policies_changed)

    def _policies_changed(self, _before: PolicySet, after: PolicySet) -> None:
        set_policy_gauges(after, self._context.metrics, now=self._store.clock.now())
        self._changed = True
        self._context.work_queue.wake()

    @property
    def due(self) -> float:
        """When `step` has queues, in monotonic seconds; a result of a write may come earlier."""
        if self._waiting and self._room:
            return -math.inf
        return self._next_round if self._changed else math.inf

    def step(self) -> list[str]:
        """Returns the queues to reconcile now."""
        now = self._store.clock.monotonic()
        if self._changed and now >= self._next_round:
            self._changed = False  # before the policies are read, so that no change is lost
            self._next_round = now + ROUND_SECONDS
            self._events.record_changes()
            self._waiting = dict.fromkeys(self._outdated())
        queues = list(self._waiting)[: self._room]
        for queue in queues:
            del self._waiting[queue]
        self._passed_on.update(queues)
        return queues

    def may_write(self, queue: str) -> bool:
        """Whether a write that says only which policy counts may be sent for the queue now. If not, `step`
        returns the queue once it may.
        """
        if queue not in self._passed_on and not self._room:
            self._waiting[queue] = None
            return False
        self._passed_on.add(queue)
        return True

    @property
    def _room(self) -> int:
        """How many more writes may be under way."""
        self._passed_on = {queue for queue in self._passed_on if self._is_being_written(queue)}
        return max(0, WRITES_LIMIT - len(self._passed_on))

    def _is_being_written(self, queue: str) -> bool:
        record = self._records.get(queue)
        return record is not None and record.write_under_way

    def _outdated(self) -> Iterator[str]:
        """The queues whose condition says something else than it should."""
        for queue, obj in list(self._store.queues.items()):
            derived = policy_condition(queue, self._store.pod_policies.of_queue(queue))
            if not _says(obj.status.condition(POLICY_RESOLVED), derived):
                yield queue


def _says(stored: Condition | None, derived: DerivedCondition | None) -> bool:
    if stored is None or derived is None:
        return stored is None and derived is None
    is_same = (stored.reason, stored.message) == (derived.reason, derived.message)
    return is_same and stored.status == str(derived.status)
