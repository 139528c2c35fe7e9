"""Writes the statuses of queues: which part of a difference is written now, and what follows from the result.

Invariants
- At most one write of a queue's status waits or is under way, so that what is written of a queue stays in
  order.
- Essential fields (`queue_status.ESSENTIAL`) are written at once, counts alone when `count_slots` says, and
  after all that is essential of any queue (`cluster.write_ranks`).
- Counts take `COUNTS_LANES` of the threads at most.
- A write that waits is withdrawn for one of an earlier rank: a condition does not wait behind the counts of
  its queue. The counts are part of that write, or follow.
- Counts that are large, or that the API server has refused, are written apart from the essential fields.
  Each of the two kinds of writes backs off by itself.
- Essential fields are written only over the object that they were derived from: another replica may lead by
  now.
- An event is recorded only after the write that it tells of succeeded.

Threads: other threads send the writes; the controller's thread receives their results.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Hashable
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.cache.changes import QueueChange
from cluster.objects import QueueObject
from cluster.write_ranks import WriteRank
from controller.context import QUEUES, ControllerContext, queue_subject
from controller.events import QueueEvents
from controller.status.count_slots import COUNT_SECONDS, CountSlots
from controller.status.queue_records import QueueRecords, QueueStatusRecord
from controller.status.queue_status import may_share, split_essential
from controller.status.status_conflicts import StatusConflicts

#: The two kinds of writes of a status: essential fields alone; and counts, perhaps with essential fields.
STATUS, COUNTS = "status", "counts"
#: Counts alone are under way in so many writes at most: those that hang leave threads to conditions.
COUNTS_LANES = 2
#: After a failed write over an object the same object is not written over any sooner.
FAILED_SECONDS = 0.2
#: A write that was not taken, since a former one is under way, is tried again after so many seconds at least.
BUSY_SECONDS = 0.02

_queue = msgspec.json.Decoder(QueueObject)


class StatusWrite(msgspec.Struct, frozen=True, kw_only=True):
    """The status differs.

    `difference`: the fields to write, never empty. `urgent`: whether more than counts differs. `again`: the
    queue is reconciled again after so many seconds; None if only a change makes that necessary.
    `is_policy_alone`: of the essential fields only the condition differs that says which policy counts.
    """

    difference: dict[str, Any]
    urgent: bool
    again: float | None = None
    is_policy_alone: bool = False

    @property
    def rank(self) -> WriteRank:
        if not self.urgent:
            return WriteRank.COUNTS
        return WriteRank.POLICY if self.is_policy_alone else WriteRank.STATUS


class Wait(msgspec.Struct, frozen=True):
    """Nothing is written before the queue is reconciled again, after `seconds`."""

    seconds: float


class Nothing(msgspec.Struct, frozen=True):
    """Nothing is to be written. `again`: as in `StatusWrite`."""

    again: float | None = None


class StatusPart(msgspec.Struct, frozen=True, kw_only=True):
    """What of a difference is written now. `fenced`: only over the object that it was derived from."""

    kind: str
    fields: dict[str, Any]
    fenced: bool
    again: float | None


def part_to_write(
    write: StatusWrite, *, counts_due_in: float, counts_refused_for: float
) -> StatusPart | Wait:
    """Return what of the difference is written now.

    `counts_due_in`: the seconds until counts may be written again. `counts_refused_for`: the seconds for
    which counts are not taken, since the API server has refused them.
    """
    if not write.urgent and counts_due_in > 0:
        return Wait(_sooner(counts_due_in, write.again))
    essential, counts = split_essential(write.difference)
    refused_for = counts_refused_for if counts else 0.0
    if not essential and refused_for:
        return Wait(_sooner(refused_for, write.again))
    if essential and counts and (refused_for or not may_share(counts)):
        again = _sooner(refused_for or COUNT_SECONDS, write.again)
        return StatusPart(kind=STATUS, fields=essential, fenced=True, again=again)
    kind = COUNTS if counts else STATUS
    return StatusPart(kind=kind, fields=write.difference, fenced=bool(essential), again=write.again)


def _counts_lane(queue: str) -> Hashable:
    return "counts", zlib.crc32(queue.encode()) % COUNTS_LANES


def _sooner(seconds: float, again: float | None) -> float:
    return seconds if again is None else min(seconds, again)


class StatusWriter:
    """Owner: the controller's thread."""

    def __init__(
        self, context: ControllerContext, *, records: QueueRecords, conflicts: StatusConflicts
    ) -> None:
        self._context = context
        self._records = records
        self._conflicts = conflicts
        self._events = QueueEvents(context)
        self._slots = CountSlots()

    def write(self, obj: QueueObject, record: QueueStatusRecord, write: StatusWrite) -> Wait | Nothing:
        """Submit what of the difference can be written now; returns when the queue is reconciled again."""
        queue, writers = obj.metadata.name, self._context.status_writers
        now = self._context.store.clock.monotonic()
        if record.write_under_way and not self._withdraw(queue, record, write):
            return Nothing(write.again)
        part = part_to_write(
            write,
            counts_due_in=0.0 if write.urgent else self._counts_due_in(record, now),
            counts_refused_for=writers.wait((COUNTS, queue)),
        )
        if isinstance(part, Wait):
            return part
        if not self._submit(obj, part, rank=write.rank):
            return Wait(max(BUSY_SECONDS, writers.wait((part.kind, queue))))
        record.counted_at, record.counts_slot = now, -math.inf
        record.write_under_way, record.write_kind, record.write_rank = True, part.kind, write.rank
        return Nothing(part.again)

    def _withdraw(self, queue: str, record: QueueStatusRecord, write: StatusWrite) -> bool:
        """Take back the queue's write that waits, if this one goes before it. Returns False where it does
        not, or where that write is being sent: its result has the queue reconciled again.
        """
        if write.rank >= record.write_rank:
            return False
        if not self._context.status_writers.withdraw((record.write_kind, queue)):
            self._records.set_changed_during_write(queue, True)
            return False
        record.write_under_way = False
        return True

    def _counts_due_in(self, record: QueueStatusRecord, now: float) -> float:
        """The seconds until counts alone may be written."""
        due_in = record.counted_at + COUNT_SECONDS - now
        if due_in > 0:
            return due_in
        if record.counts_slot < now - COUNT_SECONDS:  # none is reserved, or it was not used
            record.counts_slot = self._slots.reserve(now)
        return record.counts_slot - now

    def _submit(self, obj: QueueObject, part: StatusPart, *, rank: WriteRank) -> bool:
        """Submit the write; False if a former write of this queue is under way, or was just refused."""
        queue, metadata = obj.metadata.name, {"uid": obj.metadata.uid}
        if part.fenced:
            metadata["resourceVersion"] = obj.metadata.resource_version
        body, path = {"metadata": metadata, "status": part.fields}, f"{QUEUES}/{queue}/status"
        return self._context.submit(
            self._context.status_writers,
            (part.kind, queue),
            lambda: decode_response(self._context.client.patch(path, body), _queue),
            partial(self._receive, obj),
            rank=rank,
            lane=_counts_lane(queue) if rank is WriteRank.COUNTS else None,
            subject=queue_subject(obj),
            batched=True,
        )

    def _receive(self, before: QueueObject, after: QueueObject | None) -> None:
        """The status was written over `before`; `after` is None if that failed."""
        queue = before.metadata.name
        self._context.work_queue.add_batched(queue, QueueChange.STATUS)
        record = self._records.get(queue)
        if record is not None and record.uid == before.metadata.uid:
            self._record_result(record, before, after)
        if after is not None:
            self._context.store.backoff.attempt(
                "announce",
                queue,
                partial(self._events.record_changes, before, after),
                version=after.metadata.version,
            )

    def _record_result(
        self, record: QueueStatusRecord, before: QueueObject, after: QueueObject | None
    ) -> None:
        record.write_under_way = False
        if after is None:
            record.failed_version = before.metadata.version
            record.retry_at = self._context.store.clock.monotonic() + FAILED_SECONDS
            return
        record.failed_version = 0
        record.written_version = after.metadata.version
        record.written_state = after.status.state
        self._conflicts.record_write(after)
