"""What the controller remembers of each queue from one sync to the next: one record per queue.

Nothing is lost with a record that is not derived again: after a restart, and by a new leader. A term forgets
none: that a write of the status is under way, and at which version the last one was, keeps the next write in
order, whoever led in between. So these are no requests of a term (`controller.requests`).

A stop is pending from the sync that notices it until it is acknowledged. It is acknowledged for a scope: the
specs of the queue, of the queues above it and of the queues below it (`QueueSnapshot.scope`). When one of
these changes, the stop is pending again, unless only specs of queues below changed and none of these was
moved (`QueueSnapshot.places`): then the same stop has another scope. A new leader does not know whether one
was moved, so it begins a stop anew for another scope than the status names.

Threads: the controller's thread alone changes records; `wake` may be called from any thread.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from cluster.objects import QueueObject
from cluster.write_ranks import WriteRank
from controller.workqueue import WorkQueue
from queues.snapshot import QueueSnapshot
from queues.status.conditions import DerivedCondition

#: Where so many stops are pending, what comes for one is handled at once; where more are, with what comes for
#: others.
FEW_STOPS = 8


class PendingStop(msgspec.Struct, kw_only=True):
    """A stop of a queue. `scope`: the specs that it is for now.

    `places`: what must not change, for it to be the same stop. `version`: a version of the queues that has
    these. `at`: since when that is known here, in monotonic seconds. `pending_since`: since when a stop of
    the queue has been pending; a queue that is moved below it makes another stop of it, and does not begin
    that anew. `waiting_for`: the obstacle, once a pending stop has waited for a while. `withdrawn`: it was
    acknowledged, and is not any more, though no spec has changed. `asked_at`: the version of what the API
    server asks us at its acknowledgement (`controller.stops.registration_lapses`). `not_asked`: what it waits
    for in a lapse.
    """

    scope: str
    places: str
    version: int
    at: float
    pending_since: float = 0.0
    acknowledged: bool = False
    waiting_for: str = ""
    withdrawn: bool = False
    asked_at: tuple[int, int] = (0, 0)
    not_asked: str = ""

    def __post_init__(self) -> None:
        self.pending_since = self.pending_since or self.at


class QueueStatusRecord(msgspec.Struct, kw_only=True):
    """What is remembered of one queue. Times are monotonic seconds."""

    uid: str
    stop: PendingStop | None = None
    #: Whether a write of its status waits or is under way, its key, and its rank.
    write_under_way: bool = False
    write_kind: str = ""
    write_rank: WriteRank = WriteRank.STATUS
    #: The version and the state that our last write made. The state is None before the first write.
    written_version: int = 0
    written_state: str | None = None
    #: The version over which a write failed, and when that version is tried again.
    failed_version: int = 0
    retry_at: float = 0.0
    #: When counts were written last, and from when on they may be written next (`count_slots`).
    counted_at: float = -math.inf
    counts_slot: float = -math.inf
    #: What was last said of its quota, in wire form, and when that was counted.
    quota: dict[str, Any] | None = None
    quota_at: float = -math.inf
    #: The conditions of its quota as they were then, and for which specs (`QueueSnapshot.scope`).
    quota_conditions: tuple[DerivedCondition, ...] = ()
    quota_scope: str = ""


class QueueRecords:
    """The records by queue. Sets name the queues that a sync needs; it does not look at all records."""

    def __init__(self, work_queue: WorkQueue) -> None:
        self._work_queue = work_queue
        self._records: dict[str, QueueStatusRecord] = {}
        #: Queues whose stop is pending, and the acknowledged stops by queue.
        self._pending: set[str] = set()
        self._acknowledged: dict[str, PendingStop] = {}
        #: Of the acknowledged stops: those that were found outdated, by which snapshot, and those that came
        #: since then.
        self._outdated: set[str] = set()
        self._outdated_by: QueueSnapshot | None = None
        self._unchecked: set[str] = set()
        #: Queues whose spec changed while a status write was under way.
        self._changed_during_write: set[str] = set()

    @property
    def are_urgent(self) -> bool:
        """Whether a stop is pending, and not very many are, or a spec changed during a status write.

        Then batched changes are handled at once.
        """
        return 0 < len(self._pending) <= FEW_STOPS or bool(self._changed_during_write)

    def get(self, queue: str) -> QueueStatusRecord | None:
        """Return the record of a queue; None if nothing is remembered of it."""
        return self._records.get(queue)

    def record_of(self, obj: QueueObject) -> QueueStatusRecord:
        """Return the record of a Queue. A Queue that was created again keeps the stop alone: that is of the
        name.
        """
        queue, uid = obj.metadata.name, obj.metadata.uid
        record = self._records.get(queue)
        if record is None or record.uid != uid:
            record = QueueStatusRecord(uid=uid, stop=record.stop if record is not None else None)
            self._records[queue] = record
        return record

    def is_pending(self, queue: str) -> bool:
        """Return whether the queue has a stop that is not acknowledged yet."""
        return queue in self._pending

    @property
    def pending_stops(self) -> int:
        """How many stops are not acknowledged yet."""
        return len(self._pending)

    def begin_stop(self, queue: str, stop: PendingStop) -> PendingStop:
        """Make `stop` the pending stop of a queue that has a record; returns it."""
        record = self._records[queue]
        if record.stop is not None and not record.stop.acknowledged:
            stop.waiting_for, stop.pending_since = record.stop.waiting_for, record.stop.pending_since
        record.stop = stop
        self._acknowledged.pop(queue, None)
        self._pending.add(queue)
        return stop

    def acknowledge_stop(self, queue: str) -> None:
        """Note that the pending stop of the queue is acknowledged for its scope."""
        stop = self._records[queue].stop
        if stop is not None:
            stop.acknowledged, stop.waiting_for = True, ""
            self._pending.discard(queue)
            self._acknowledged[queue] = stop
            self._unchecked.add(queue)

    def holds(self, queue: str, snapshot: QueueSnapshot) -> bool:
        """Return whether the queue has a stop that is acknowledged for the specs that there are now."""
        stop = self._acknowledged.get(queue)
        return stop is not None and stop.scope == snapshot.scope(queue)

    def end_stop(self, queue: str) -> None:
        """Note that the queue schedules."""
        record = self._records.get(queue)
        if record is not None:
            record.stop = None
        self._pending.discard(queue)
        self._acknowledged.pop(queue, None)

    def outdated_stops(self, snapshot: QueueSnapshot) -> set[str]:
        """Return the queues whose stop is acknowledged for other specs than there are now. All of them are
        looked at where the snapshot is another one than before."""
        same = snapshot is self._outdated_by
        queues = self._outdated | self._unchecked if same else self._acknowledged.keys()
        stops = ((queue, self._acknowledged.get(queue)) for queue in queues)
        self._outdated = {
            queue for queue, stop in stops if stop is not None and snapshot.scope(queue) != stop.scope
        }
        self._outdated_by, self._unchecked = snapshot, set()
        return set(self._outdated)

    def set_changed_during_write(self, queue: str, changed: bool) -> None:
        """Note whether the queue's spec changed while a status write was under way."""
        (self._changed_during_write.add if changed else self._changed_during_write.discard)(queue)

    def forget(self, queue: str) -> None:
        """Drop the record of a queue that does not exist any more."""
        self.end_stop(queue)
        self._changed_during_write.discard(queue)
        self._records.pop(queue, None)

    def wake(self) -> None:
        """Begin a sync of the queues whose stop is pending: what they wait for may have come."""
        self._work_queue.wake(self._pending.copy())
