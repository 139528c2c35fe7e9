"""Writes the statuses of queues: which part of a difference is written now, and what follows from the result.

Invariants
- At most one write of a queue's status is under way.
- Essential fields (`queue_status.ESSENTIAL`) are written at once, counts alone at most once in
  `COUNT_SECONDS`.
- Counts that are large, or that the API server has refused, are written apart from the essential fields.
  Each of the two kinds of writes backs off by itself.
- Essential fields are written only over the object that they were derived from: another replica may lead by
  now.
- An event is recorded only after the write that it tells of succeeded.

Threads: other threads send the writes; the controller's thread receives their results.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.cache.changes import QueueChange
from cluster.objects import QueueObject
from controller.context import QUEUES, ControllerContext, queue_subject
from controller.events import QueueEvents
from controller.status.queue_records import QueueRecord, QueueRecords
from controller.status.queue_status import may_share, split_essential
from controller.status.status_conflicts import StatusConflicts

COUNT_SECONDS = 1.0
#: The two kinds of writes of a status: essential fields alone; and counts, perhaps with essential fields.
STATUS, COUNTS = "status", "counts"
#: A status that says only which scheduling policy counts gives way to those of stops.
STATUS_RANK, POLICY_RANK = 0, 1
#: After a failed write over an object the same object is not written over any sooner.
FAILED_SECONDS = 0.2
#: A write that was not taken, since a former one is under way, is tried again after so many seconds at least.
BUSY_SECONDS = 0.02

_queue = msgspec.json.Decoder(QueueObject)


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """The status differs.

    `difference`: the fields to write, never empty. `urgent`: whether more than counts differs. `again`: the
    queue is reconciled again after so many seconds; None if only a change makes that necessary. `rank`:
    writes of a smaller one go first.
    """

    difference: dict[str, Any]
    urgent: bool
    again: float | None = None
    rank: int = STATUS_RANK


class Wait(msgspec.Struct, frozen=True):
    """Nothing is written before the queue is reconciled again, after `seconds`."""

    seconds: float


class Nothing(msgspec.Struct, frozen=True):
    """Nothing is to be written. `again`: as in `Write`."""

    again: float | None = None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What of a difference is written now. `fenced`: only over the object that it was derived from."""

    kind: str
    fields: dict[str, Any]
    fenced: bool
    again: float | None


def part_to_write(write: Write, *, counts_due_in: float, counts_refused_for: float) -> Part | Wait:
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
        return Part(kind=STATUS, fields=essential, fenced=True, again=again)
    kind = COUNTS if counts else STATUS
    return Part(kind=kind, fields=write.difference, fenced=bool(essential), again=write.again)


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

    def write(self, obj: QueueObject, record: QueueRecord, write: Write) -> Wait | Nothing:
        """Submit what of the difference can be written now; returns when the queue is reconciled again."""
        queue, writers = obj.metadata.name, self._context.status_writers
        now = self._context.store.clock.monotonic()
        part = part_to_write(
            write,
            counts_due_in=record.counted_at + COUNT_SECONDS - now,
            counts_refused_for=writers.wait((COUNTS, queue)),
        )
        if isinstance(part, Wait):
            return part
        if not self._submit(obj, part, rank=write.rank):
            return Wait(max(BUSY_SECONDS, writers.wait((part.kind, queue))))
        record.counted_at = now
        record.write_under_way = True
        return Nothing(part.again)

    def _submit(self, obj: QueueObject, part: Part, *, rank: int) -> bool:
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
            rank=(rank,),
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

    def _record_result(self, record: QueueRecord, before: QueueObject, after: QueueObject | None) -> None:
        record.write_under_way = False
        if after is None:
            record.failed_version = before.metadata.version
            record.retry_at = self._context.store.clock.monotonic() + FAILED_SECONDS
            return
        record.failed_version = 0
        record.written_version = after.metadata.version
        record.written_state = after.status.state
        self._conflicts.record_write(after)
