"""The members whose label or annotation is to be written, for `member_labels`, and these writes.

Invariants
- Only the leader writes. What is to be written is forgotten when its term ends.
- A write names the pod's UID.
- At most `MAX_WRITES` of these writes are under way, and as many more that a stop may wait for. The latter go
  first, one of each queue in turn, and before resumes; all others go behind resumes.
- Owner: the controller's thread. The writers' threads send.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.cache.members import Member
from cluster.exceptions import ClusterError, Conflict, NotFound
from cluster.object_reference import ObjectReference
from cluster.objects import PartialObjectMetadata
from controller.context import ControllerContext
from controller.pods.unlabelled_lists import FAILURE_LIMIT, RETRY
from queues import well_known
from queues.membership import label_value
from queues.text import truncated

MAX_WRITES = 100
_written = msgspec.json.Decoder(PartialObjectMetadata)


class Cause(Enum):
    """Why a pod's label or annotation is written."""

    UNLABELLED = auto()
    LOST = auto()
    MOVED = auto()
    MENDED = auto()


_CHANGED = {
    Cause.LOST: f"label {well_known.QUEUE} was removed",
    Cause.MOVED: f"label {well_known.QUEUE} was changed",
    Cause.MENDED: f"annotation {well_known.QUEUE} did not fit the label",
}


class UnlabelledMember(msgspec.Struct, kw_only=True):
    """A member whose label or annotation is to be written.

    `queue`: "" while its PodGroup does not exist. `waits`: it is on no node, as far as is known.
    `is_found`: it exists; a pod that left the watch may have been deleted. `seen_at`: the version of pods at
    which it left, or was listed on no node: older lists say nothing of it. `scan`: the number of the first
    list that shows whether it exists, where that version is not known. `since`: when it was recorded.
    `written`: the version of our write, `written_at` its time. `is_gone`: a list
    did not show it while a write was under way. Times are monotonic seconds.
    """

    uid: str
    namespace: str
    name: str
    queue: str
    cause: Cause
    waits: bool
    is_found: bool = True
    seen_at: int = 0
    scan: int = 0
    since: float = 0.0
    written: int = 0
    written_at: float = 0.0
    is_writing: bool = False
    is_gone: bool = False
    retry_at: float = 0.0
    failure: str = ""

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def subject(self) -> ObjectReference:
        return ObjectReference(
            api_version="v1", kind="Pod", name=self.name, namespace=self.namespace, uid=self.uid
        )

    def patch(self) -> dict[str, Any]:
        meta: dict[str, Any] = {"uid": self.uid, "labels": {well_known.QUEUE: label_value(self.queue)}}
        if self.queue:
            meta["annotations"] = {well_known.QUEUE: self.queue}
        return {"metadata": meta}


class LabelWrites:
    """Owner: `MemberLabels`."""

    def __init__(self, context: ControllerContext, *, changed: Callable[[], object]) -> None:
        """`changed`: called when a label has been written."""
        self._context = context
        self._store = context.store
        self._changed = changed
        self._generation = 0
        self.forget()

    def forget(self) -> None:
        self._generation += 1
        #: By UID.
        self.members: dict[str, UnlabelledMember] = {}
        self._by_queue: dict[str, set[str]] = {}
        #: The members to be written: where each stands in `_lanes`, which has them by (waits, queue).
        self._to_write: dict[str, tuple[bool, str]] = {}
        self._lanes: dict[tuple[bool, str], dict[str, None]] = {}
        #: The UIDs of those whose last write failed.
        self._refused: set[str] = set()
        #: By queue: the UIDs of those that were written and that the watch is to show.
        self._to_settle: dict[str, set[str]] = {}
        #: By queue: its writes of labels that are under way.
        self._writes: Counter[str] = Counter()
        self._writing = 0
        #: When the next write is to be tried again, in monotonic seconds.
        self.due = math.inf
        #: By queue: the version of the last label that was written in it.
        self.versions: dict[str, int] = {}

    @property
    def queues(self) -> Iterable[str]:
        """The queues of the members."""
        return self._by_queue

    @property
    def pending(self) -> int:
        """How many are to be written, or are being written, without those whose last write was refused."""
        return len(self._to_write) + self._writing - len(self._refused)

    def is_to_be_written(self, uid: str) -> bool:
        return uid in self._to_write

    def of(self, queues: Iterable[str]) -> Iterable[UnlabelledMember]:
        known = self._by_queue
        names_in_use = (queue for queue in queues if queue in known) if known else ()
        return (self.members[uid] for queue in names_in_use for uid in known[queue])

    def add(self, member: UnlabelledMember, *, write: bool = True) -> None:
        self.members[member.uid] = member
        self._by_queue.setdefault(member.queue, set()).add(member.uid)
        if write:
            self.enqueue(member)

    def close(self, member: UnlabelledMember) -> None:
        self.members.pop(member.uid, None)
        self._refused.discard(member.uid)
        self._dequeue(member)
        uids = self._by_queue.get(member.queue)
        if uids is not None:
            uids.discard(member.uid)
            if not uids:
                del self._by_queue[member.queue]

    def enqueue(self, member: UnlabelledMember) -> None:
        """Have the member written, or move it to the lane where it belongs now."""
        lane = (member.waits, member.queue)
        if self._to_write.get(member.uid) != lane:
            self._dequeue(member)
            self._to_write[member.uid] = lane
            self._lanes.setdefault(lane, {})[member.uid] = None

    def _dequeue(self, member: UnlabelledMember) -> None:
        lane = self._to_write.pop(member.uid, None)
        if lane is None:
            return
        del self._lanes[lane][member.uid]
        if not self._lanes[lane]:
            del self._lanes[lane]

    def _is_awaited(self, lane: tuple[bool, str]) -> bool:
        """Whether a stop may wait for the members in this lane."""
        waits, queue = lane
        return waits and bool(queue) and not self._store.snapshot.decision(queue).schedules

    def _to_write_in_order(self) -> Iterator[tuple[str, bool]]:
        """Yield the UIDs, and whether a stop may wait for each: those first, then the others that wait, then
        those on nodes; one of each queue in turn.
        """
        ranked = [(not self._is_awaited(lane), not lane[0], lane) for lane in self._lanes]
        for rank in sorted({rank[:2] for rank in ranked}):
            turns = deque(iter(list(self._lanes[lane])) for *own, lane in ranked if tuple(own) == rank)
            while turns:
                lane_turn = turns.popleft()
                if (uid := next(lane_turn, None)) is not None:
                    turns.append(lane_turn)
                    yield uid, not rank[0]

    def send(self, now: float) -> None:
        """Submit the writes that are due. Those that a stop may wait for have places of their own."""
        self.due = math.inf
        for uid, is_awaited in self._to_write_in_order():
            member = self.members[uid]
            if self._writing >= (2 if is_awaited else 1) * MAX_WRITES:
                return  # the results of these writes begin the next ones
            if member.is_writing:
                continue
            if member.retry_at <= now and self._submit(member, is_awaited=is_awaited):
                self._dequeue(member)
                continue
            if member.retry_at <= now:
                member.retry_at = now + max(self._context.writers.wait(("label", member.uid)), RETRY.first)
            self.due = min(self.due, member.retry_at)

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
        rank = (0, self._writes[member.queue]) if is_awaited else (6,)
        submitted = context.submit(
            context.writers,
            ("label", member.uid),
            send,
            receive,
            rank=rank,
            subject=member.subject,
            batched=not member.waits,
        )
        if submitted:
            member.is_writing = True
            self._writing += 1
            self._writes[member.queue] += 1
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
        member.is_writing = False
        self._writing -= 1
        self._writes[member.queue] -= 1
        if not self._writes[member.queue]:
            del self._writes[member.queue]
        if self.members.get(member.uid) is not member:
            return
        now = self._now()
        if version is None and member.is_gone:
            self.close(member)
        elif version is None:
            member.failure = failure or "the API server did not take it"
            self._refused.add(member.uid)
            wait = self._context.writers.wait(("label", member.uid))
            member.retry_at = now + max(wait, RETRY.first)
            self.enqueue(member)
        elif not version:
            self.close(member)
        elif member.uid not in self._to_write:  # else it has been changed again meanwhile
            member.written, member.written_at, member.failure = version, now, ""
            self._refused.discard(member.uid)
            self.versions[member.queue] = max(version, self.versions.get(member.queue, 0))
            self._record_event(member)
            self._to_settle.setdefault(member.queue, set()).add(member.uid)
            self._changed()

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

    def written(self, queues: Iterable[str], applied: int) -> list[UnlabelledMember]:
        """The members of these queues whose label was written at this version or before."""
        if not self._to_settle:
            return []
        written = []
        for queue in [queue for queue in queues if queue in self._to_settle]:
            uids = self._to_settle[queue]
            for uid in list(uids):
                member = self.members.get(uid)
                if member is None or not member.written:
                    uids.discard(uid)  # it is closed, or is written again
                elif member.written <= applied:
                    written.append(member)
            if not uids:
                del self._to_settle[queue]
        return written

    def _now(self) -> float:
        return self._store.clock.monotonic()


def unlabelled_member(
    member: Member,
    cause: Cause,
    *,
    waits: bool,
    queue: str = "",
    is_found: bool = True,
    seen_at: int = 0,
    retry_at: float = 0.0,
) -> UnlabelledMember:
    return UnlabelledMember(
        uid=member.uid,
        namespace=member.namespace,
        name=member.name,
        queue=queue or member.queue,
        cause=cause,
        waits=waits,
        is_found=is_found,
        seen_at=seen_at,
        retry_at=retry_at,
    )


def lacks_label(member: UnlabelledMember) -> str:
    where = f"pod {member.namespace}/{member.name}"
    if member.failure:
        return f"{where} cannot be given its label: {truncated(member.failure, limit=FAILURE_LIMIT)}"
    if not member.is_found:
        return f"{where} left the watch, and may still exist"
    return f"{where} had no label, and what was let through before that is waited for"
