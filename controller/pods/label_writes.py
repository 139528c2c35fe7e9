"""Writes the labels and annotations that `unlabelled_members` says, and records there what came of it.

Invariants
- Only the leader writes. What is to be written is forgotten when its term ends.
- No two writes of a member are under way.
- A write names the pod's UID.
- At most `MAX_WRITES` of these writes are under way, and as many more that a stop may wait for. The latter go
  before resumes, all others behind them.
- Owner: the controller's thread. The writers' threads send.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from cluster.api.client import decode_response
from cluster.exceptions import ClusterError, Conflict, NotFound
from cluster.objects import PartialObjectMetadata
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext
from controller.pods.unlabelled_lists import RETRY
from controller.pods.unlabelled_members import LabelReason, UnlabelledMember, UnlabelledMembers
from queues import well_known

MAX_WRITES = 100
_CHANGED = {
    LabelReason.LOST: f"label {well_known.QUEUE} was removed",
    LabelReason.MOVED: f"label {well_known.QUEUE} was changed",
    LabelReason.MENDED: f"annotation {well_known.QUEUE} did not fit the label",
}
_written = msgspec.json.Decoder(PartialObjectMetadata)


class LabelWrites:
    """Owner: `MemberLabels`."""

    def __init__(
        self, context: ControllerContext, members: UnlabelledMembers, *, changed: Callable[[], object]
    ) -> None:
        """`changed`: called when a label has been written."""
        self._context = context
        self._store = context.store
        self._members = members
        self._changed = changed
        self._generation = 0
        self.forget()

    def forget(self) -> None:
        """Record no more what comes of the writes under way: the members are forgotten."""
        self._generation += 1
        #: When the next write is to be tried again, in monotonic seconds.
        self.due = math.inf

    def send(self, now: float) -> None:
        """Submit the writes that are due. Those that a stop may wait for have places of their own."""
        self.due = math.inf
        for member, is_awaited in self._members.to_write(self._is_stopped):
            if self._members.writing >= (2 if is_awaited else 1) * MAX_WRITES:
                return  # the results of these writes begin the next ones
            if member.is_writing:
                continue
            if member.retry_at <= now:
                if self._submit(member, is_awaited=is_awaited):
                    continue
                self._members.postpone(member, until=now + self._wait(member))
            self.due = min(self.due, member.retry_at)

    def _is_stopped(self, queue: str) -> bool:
        return not self._store.snapshot.decision(queue).schedules

    def _wait(self, member: UnlabelledMember) -> float:
        return max(self._context.writers.wait(("label", member.uid)), RETRY.first)

    def _submit(self, member: UnlabelledMember, *, is_awaited: bool) -> bool:
        context, generation, term = self._context, self._generation, self._context.term()
        body, path, failures = member.patch(), member.path, list[str]()

        def send() -> int:
            """In a writer's thread; returns the version of the pod, or 0 if it is gone."""
            if not context.leading() or context.term() != term:
                return 0
            try:
                answer = context.client.patch(path, body)
            except NotFound:
                return 0
            except Conflict:
                return self._uid_differs(member)
            except ClusterError as exc:
                failures.append(str(exc))
                raise
            return decode_response(answer, _written).metadata.version

        def receive(version: int | None) -> None:
            if generation == self._generation:
                self._receive_written(member, version, failures[-1] if failures else "")

        # Behind resumes, unless a stop may wait for it; then behind those of queues with fewer under way.
        rank = WriteRank.EVIDENCE if is_awaited else WriteRank.LABEL
        submitted = context.submit(
            context.writers,
            ("label", member.uid),
            send,
            receive,
            rank=rank,
            order=(self._members.writing_in(member.queue),) if is_awaited else (),
            subject=member.subject,
            batched=not member.waits,
        )
        if submitted:
            self._members.begin_write(member)
        return submitted

    def _uid_differs(self, member: UnlabelledMember) -> int:
        """The pod of this name conflicts with the write: 0 if it is another one; raises if it is the same."""
        try:
            found = decode_response(self._context.client.get(member.path), _written)
        except NotFound:
            return 0
        if found.metadata.uid != member.uid:
            return 0
        raise Conflict(409, "Conflict", "somebody writes it all the time")

    def _receive_written(self, member: UnlabelledMember, version: int | None, failure: str) -> None:
        """`version`: of the pod with its label; 0 if the pod is gone, None if the write was refused."""
        if not self._members.end_write(member):
            return
        now = self._store.clock.monotonic()
        if version:
            if self._members.record_written(member, version, at=now):
                self._record_event(member)
                self._changed()
        elif version is None and not member.is_gone:
            failure = failure or "the API server did not take it"
            self._members.record_refused(member, failure, retry_at=now + self._wait(member))
        else:
            self._members.close(member)

    def _record_event(self, member: UnlabelledMember) -> None:
        changed = _CHANGED.get(member.cause)
        if changed is not None:
            self._context.recorder.record(
                member.subject,
                reason="QueueLabelRestored",
                message=f'{changed}; it names queue "{member.queue}" again',
                warning=True,
                rate_limit_key=f"labels/{member.queue}",
            )
