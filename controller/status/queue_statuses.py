"""Which statuses of queues a sync looks at, and when: first those that no drain goes on for, then the others.

Status comes before members: a user who stopped a queue waits for it, and it may have many members. The status
of a queue that drains comes after the step of its drain.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from cluster.cache.changes import QueueChange, StoreChange
from controller.context import ControllerContext, queue_subject
from controller.drain.controller import DrainController
from controller.parts import Part, attempt
from controller.status.queue_reconciler import QueueReconciler
from controller.status.queue_records import QueueRecords
from controller.stops.edge_hold import EdgeHold


class QueueStatuses(Part):
    """Owner: the controller's thread."""

    name = "status"

    def __init__(
        self,
        context: ControllerContext,
        *,
        reconciler: QueueReconciler,
        records: QueueRecords,
        draining: DrainController,
        edge_hold: EdgeHold,
    ) -> None:
        self._store = context.store
        self._work_queue = context.work_queue
        self._reconciler = reconciler
        self._records = records
        self._draining = draining
        self._edge_hold = edge_hold
        #: The queues whose status is to be looked at, and whether their spec may have changed.
        self._changed: dict[str, bool] = {}
        #: The same of those that wait for the step of their drain.
        self._waiting: dict[str, bool] = {}

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        self._reconciler.record(changes)
        for queue, of_queue in changes.items():
            self._changed[queue] = self._changed.get(queue, False) or QueueChange.SPEC in of_queue

    def step(self) -> None:
        """What is to be looked at is kept until all of it was: a step that fails is taken again."""
        changed, snapshot = self._changed, self._store.snapshot
        queues = self._with_those_above({*changed, *self._records.outdated_stops(snapshot)})
        self._waiting.update(
            {queue: changed.get(queue, False) for queue in queues if self._draining.is_draining(queue)}
        )
        self._reconcile_each(
            {queue: changed.get(queue, False) for queue in queues if queue not in self._waiting}
        )
        changed.clear()

    def after_drains(self) -> None:
        """Look at those that drain, and at those whose drain has gone on."""
        waiting = self._waiting
        queues = self._with_those_above({*waiting, *self._draining.take_progressed()})
        self._reconcile_each({queue: waiting.get(queue, False) for queue in queues})
        waiting.clear()

    def forget_queue(self, queue: str) -> None:
        self._reconciler.forget(queue)

    def _reconcile_each(self, queues: Mapping[str, bool]) -> None:
        """`queues`: in their order, and whether the spec of each may have changed."""
        for queue, spec_changed in queues.items():
            self._reconcile(queue, spec_changed=spec_changed)

    def _reconcile(self, queue: str, *, spec_changed: bool) -> None:
        obj = self._store.queues.get(queue)

        def reconcile() -> None:
            again = self._reconciler.reconcile(queue, spec_changed=spec_changed)
            if again is not None:
                self._work_queue.add_after(queue, QueueChange.STATUS, seconds=again)

        subject = queue_subject(obj) if obj is not None else None
        attempt(self._store, self.name, reconcile, queue=queue, subject=subject)

    def _with_those_above(self, changed: Iterable[str]) -> list[str]:
        """These queues, and those above them whose status follows from their members; ancestors first.
        Without those that give way to edges of change windows.
        """
        snapshot, is_pending = self._store.snapshot, self._records.is_pending
        queues = set()
        for queue in changed:
            chain = [name for name in snapshot.tree.counting_chain(queue) if name in snapshot.tree]
            if queue in snapshot.tree:
                queues.add(queue)
            for above in chain:
                decision = snapshot.decision(above)
                if above == queue:
                    continue
                if not decision.accepts or decision.drains or is_pending(above):
                    queues.add(above)
                elif decision.has_quota and above not in queues:
                    if (seconds := self._reconciler.seconds_until_counted(above)) > 0:
                        self._work_queue.add_after(above, QueueChange.STATUS, seconds=seconds)
                    else:
                        queues.add(above)
        now = itertools.filterfalse(self._edge_hold.holds, queues)
        return sorted(now, key=lambda name: (snapshot.tree.depth(name), name))


class DrainingStatuses(Part):
    """Those of queues that drain. Owner: the controller's thread."""

    name = "draining_status"

    def __init__(self, statuses: QueueStatuses) -> None:
        self._statuses = statuses

    def step(self) -> None:
        self._statuses.after_drains()
