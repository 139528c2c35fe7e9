"""The members whose label or annotation is to be written: what is known of each, and which is written next.

Lists and the watch say which pods lack the label or have another (`member_labels`), writes what came of each
(`label_writes`): all is recorded here, and nowhere else is a member's state changed.

Invariants
- A member is looked for, is to be written, is being written, or was written and waits until the watch shows
  that. One whose label is changed while it is being written is to be written again as well.
- Those that a stop may wait for are written first, one of each queue in turn.
- It is no table of requests (`controller.requests`): lists say which members there are, and a write of one is
  a flag of it. Both are forgotten together.
- Owner: the controller's thread.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from enum import Enum, auto
from typing import Any

import msgspec

from cluster.cache.label_changes import Departure
from cluster.cache.members import Member
from cluster.object_reference import ObjectReference
from controller.pods.label_backoff import LabelBackoff
from controller.pods.unlabelled_lists import ALL_NAMESPACES, FAILURE_LIMIT
from queues import well_known
from queues.membership import label_value
from queues.text import truncated


class LabelReason(Enum):
    """Why a pod's label or annotation is written."""

    UNLABELLED = auto()
    LOST = auto()
    MOVED = auto()
    MENDED = auto()
    #: It has waited for its PodGroup, with an empty label, and that is there now.
    NAMED = auto()

    @property
    def has_label(self) -> bool:
        """Whether the pod has a label: no list of pods without one shows it."""
        return self in _LABELLED


_LABELLED = frozenset({LabelReason.MOVED, LabelReason.MENDED, LabelReason.NAMED})


class UnlabelledMember(msgspec.Struct, kw_only=True):
    """A member whose label or annotation is to be written. Only `UnlabelledMembers` changes it.

    `queue`: "" while its PodGroup does not exist. `waits`: it is on no node, as far as is known.
    `is_found`: it exists; a pod that left the watch may have been deleted. `seen_at`: the version of pods at
    which it left, or was listed on no node: older lists say nothing of it. `scan`: the number of the first
    list that shows whether it exists, where that version is not known. `since`: when it was recorded.
    `written`: the version of our write, `written_at` its time. `is_gone`: a list did not show it while a
    write was under way. Times are monotonic seconds.
    """

    uid: str
    namespace: str
    name: str
    queue: str
    cause: LabelReason
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

    @property
    def obstacle(self) -> str:
        """What a stop or a close of its queue waits for."""
        where = f"pod {self.namespace}/{self.name}"
        if self.failure:
            return f"{where} cannot be given its label: {truncated(self.failure, limit=FAILURE_LIMIT)}"
        if not self.is_found:
            return f"{where} left the watch, and may still exist"
        return f"{where} had no label, and what was let through before that is waited for"

    def patch(self) -> dict[str, Any]:
        meta: dict[str, Any] = {"uid": self.uid, "labels": {well_known.QUEUE: label_value(self.queue)}}
        if self.queue:
            meta["annotations"] = {well_known.QUEUE: self.queue}
        return {"metadata": meta}


#: Where a member stands among those to be written: whether it waits, and its queue.
Lane = tuple[bool, str]


class UnlabelledMembers:
    """Owner: `MemberLabels`, which shares it with `LabelWrites`."""

    def __init__(self) -> None:
        self._backoff = LabelBackoff()
        self.forget()

    def forget(self) -> None:
        """Forget all; what comes of writes that are under way must not be recorded any more."""
        self._by_uid: dict[str, UnlabelledMember] = {}
        self._by_queue: dict[str, set[str]] = {}
        #: The UIDs to be written: where each stands in `_lanes`.
        self._to_write: dict[str, Lane] = {}
        self._lanes: dict[Lane, dict[str, None]] = {}
        #: The UIDs of those whose last write failed.
        self._refused: set[str] = set()
        #: By queue: the UIDs of those that were written and that the watch is to show.
        self._to_settle: dict[str, set[str]] = {}
        #: By queue: its writes that are under way.
        self._writing: Counter[str] = Counter()
        #: By queue: the version of the last label that was written in it.
        self._versions: dict[str, int] = {}

    # Questions

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid

    def get(self, uid: str) -> UnlabelledMember | None:
        return self._by_uid.get(uid)

    @property
    def queues(self) -> Collection[str]:
        """The queues of the members."""
        return self._by_queue.keys()

    def of(self, queues: Iterable[str]) -> Iterator[UnlabelledMember]:
        known = self._by_queue
        names_in_use = (queue for queue in queues if queue in known) if known else ()
        return (self._by_uid[uid] for queue in names_in_use for uid in known[queue])

    @property
    def pending(self) -> int:
        """How many are to be written, or are being written, without those whose last write was refused."""
        return len(self._to_write) + self.writing - len(self._refused)

    @property
    def writing(self) -> int:
        return self._writing.total()

    def writing_in(self, queue: str) -> int:
        return self._writing[queue]

    def version(self, queues: Iterable[str]) -> int:
        """The version of the last label that was written in one of these queues; 0 if none was."""
        return max((self._versions.get(queue, 0) for queue in queues), default=0) if self._versions else 0

    def written(self, queues: Iterable[str], applied: int) -> list[UnlabelledMember]:
        """The members of these queues whose label was written at this version or before."""
        if not self._to_settle:
            return []
        written = []
        for queue in [queue for queue in queues if queue in self._to_settle]:
            uids = self._to_settle[queue]
            for uid in list(uids):
                member = self._by_uid.get(uid)
                if member is None or not member.written:
                    uids.discard(uid)  # it is closed, or is written again
                elif member.written <= applied:
                    written.append(member)
            if not uids:
                del self._to_settle[queue]
        return written

    def to_write(self, is_awaited: Callable[[str], bool]) -> Iterator[tuple[UnlabelledMember, bool]]:
        """Yield the members to be written, and whether a stop may wait for each: those first, then the others
        that wait, then those on nodes; one of each queue in turn. They may be written meanwhile.

        `is_awaited`: whether a stop waits for the members of the queue that are on no node.
        """

        def rank(lane: Lane) -> tuple[bool, bool]:
            waits, queue = lane
            return not (waits and queue and is_awaited(queue)), not waits

        ranks = {lane: rank(lane) for lane in self._lanes}
        for each in sorted(set(ranks.values())):
            turns = deque(iter(list(self._lanes[lane])) for lane, of_lane in ranks.items() if of_lane == each)
            while turns:
                lane_turn = turns.popleft()
                if (uid := next(lane_turn, None)) is not None:
                    turns.append(lane_turn)
                    yield self._by_uid[uid], not each[0]

    # What lists and the watch show

    def add(self, member: UnlabelledMember) -> None:
        """Add a member that is not known, to be written."""
        self._record(member)
        self._enqueue(member)

    def record_moved(self, member: Member, *, now: float) -> None:
        """Record that another queue was written on this member, or none."""
        retry_at = self._backoff.next_at(member.uid, now)
        known = self._by_uid.get(member.uid)
        if known is None:
            known = _unlabelled(member, LabelReason.MOVED, waits=member.waiting)
            self._record(known)
        known.written, known.retry_at = 0, retry_at
        self._enqueue(known)

    def record_left(self, departure: Departure, *, now: float, scan: int) -> UnlabelledMember | None:
        """Record that a member left the watch: it may have been deleted. Returns it if lists show which,
        else a write does. `scan`: as in `UnlabelledMember`.
        """
        member, version = departure.member, departure.version
        known = self._by_uid.get(member.uid)
        if known is not None and known.is_found:
            if not version or version > known.written:  # else our write came later
                self._write_again(known, departure, now=now, scan=scan)
            return None
        if known is not None:
            self.close(known)  # it was in the watch again: older lists say nothing of it
        lost = _unlabelled(member, LabelReason.LOST, waits=member.may_be_bound)
        lost.is_found, lost.seen_at, lost.scan, lost.since = False, version, scan, now
        self._record(lost)
        return lost

    def _write_again(self, known: UnlabelledMember, departure: Departure, *, now: float, scan: int) -> None:
        known.waits = known.waits or departure.member.may_be_bound
        known.seen_at, known.since, known.is_gone = max(known.seen_at, departure.version), now, False
        known.scan = scan or known.scan
        if known.written or known.is_writing:  # else it is written soon
            known.written, known.retry_at = 0, self._backoff.next_at(known.uid, now)
            if known.cause is not LabelReason.MOVED:
                known.cause = LabelReason.LOST
            self._enqueue(known)
        else:
            self._move(known)

    def record_unfitting(self, member: Member, queue: str) -> None:
        """Record that the annotation of this member, or its label, is to name this queue."""
        has_waited = bool(member.podgroup) and member.labels.get(well_known.QUEUE) == ""
        cause = LabelReason.NAMED if has_waited else LabelReason.MENDED
        self.add(_unlabelled(member, cause, waits=False, queue=queue))

    def record_listed(self, uids: Collection[str], *, waits: bool, version: int) -> None:
        """Record that these pods have no label; on no node at `version`, if they wait.

        A member that lost its label may also have lost what named its queue: the UID is enough.
        """
        for uid in self._by_uid.keys() & uids:
            member = self._by_uid[uid]
            member.waits, member.is_gone = member.waits or waits, False
            member.seen_at = max(member.seen_at, version)
            if member.is_found:
                self._move(member)
            else:
                member.is_found = True
                self._enqueue(member)

    def record_waiting(self, uids: Collection[str], *, number: int, version: int) -> list[str]:
        """Record that these are all pods on no node without the label, as of `version`. `number`: the list's.

        Any other member is gone, or on a node, unless it is newer than the list or has a label. Returns the
        namespaces of those that left the watch: a list of all their pods shows which of the two.
        """
        namespaces = []
        for member in self._by_uid.values():
            is_settled = member.written or member.is_writing or member.cause.has_label
            is_newer = member.seen_at > version or member.scan > number
            if member.waits and not is_settled and not is_newer and member.uid not in uids:
                member.waits = False
                self._move(member)
                if not member.is_found:
                    namespaces.append(member.namespace)
        return namespaces

    def record_all(self, uids: Collection[str], *, namespace: str, began: float) -> None:
        """Record that these are all pods without the label, of a namespace or of `ALL_NAMESPACES`.

        `began`: when the list was begun. Any other member that was known then is gone, or has finished. One
        whose label was written is closed when the watch shows that.
        """
        for member in list(self._by_uid.values()):
            if (
                not member.cause.has_label
                and not (member.waits or member.written)
                and member.since <= began
                and namespace in (member.namespace, ALL_NAMESPACES)
                and member.uid not in uids
            ):
                if member.is_writing:
                    member.is_gone = True  # or it has just got its label: the result says which
                else:
                    self.close(member)

    def record_bindable(self, member: UnlabelledMember) -> None:
        """Record that the member could be bound when it got its label: stops wait until it is closed."""
        member.waits = True

    def _record(self, member: UnlabelledMember) -> None:
        self._by_uid[member.uid] = member
        self._by_queue.setdefault(member.queue, set()).add(member.uid)

    def close(self, member: UnlabelledMember) -> None:
        self._by_uid.pop(member.uid, None)
        self._refused.discard(member.uid)
        self._dequeue(member)
        uids = self._by_queue.get(member.queue)
        if uids is not None:
            uids.discard(member.uid)
            if not uids:
                del self._by_queue[member.queue]

    def forget_versions_but(self, queues: Container[str]) -> None:
        """Forget the versions of labels in all other queues."""
        self._versions = {queue: version for queue, version in self._versions.items() if queue in queues}

    # What comes of writes

    def begin_write(self, member: UnlabelledMember) -> None:
        member.is_writing = True
        self._writing[member.queue] += 1
        self._dequeue(member)

    def end_write(self, member: UnlabelledMember) -> bool:
        """Return whether what came of it matters: the member was not closed meanwhile."""
        member.is_writing = False
        self._writing[member.queue] -= 1
        if not self._writing[member.queue]:
            del self._writing[member.queue]
        return self._by_uid.get(member.uid) is member

    def postpone(self, member: UnlabelledMember, *, until: float) -> None:
        member.retry_at = until

    def record_refused(self, member: UnlabelledMember, failure: str, *, retry_at: float) -> None:
        member.failure, member.retry_at = failure, retry_at
        self._refused.add(member.uid)
        self._enqueue(member)

    def record_written(self, member: UnlabelledMember, version: int, *, at: float) -> bool:
        """Return False if the label has been changed again meanwhile: it is to be written again."""
        if member.uid in self._to_write:
            return False
        member.written, member.written_at, member.failure = version, at, ""
        self._refused.discard(member.uid)
        self._versions[member.queue] = max(version, self._versions.get(member.queue, 0))
        self._to_settle.setdefault(member.queue, set()).add(member.uid)
        return True

    def _enqueue(self, member: UnlabelledMember) -> None:
        """Have the member written, or move it to the lane where it belongs now."""
        lane = (member.waits, member.queue)
        if self._to_write.get(member.uid) != lane:
            self._dequeue(member)
            self._to_write[member.uid] = lane
            self._lanes.setdefault(lane, {})[member.uid] = None

    def _move(self, member: UnlabelledMember) -> None:
        if member.uid in self._to_write:
            self._enqueue(member)

    def _dequeue(self, member: UnlabelledMember) -> None:
        lane = self._to_write.pop(member.uid, None)
        if lane is None:
            return
        del self._lanes[lane][member.uid]
        if not self._lanes[lane]:
            del self._lanes[lane]


def _unlabelled(member: Member, cause: LabelReason, *, waits: bool, queue: str = "") -> UnlabelledMember:
    return UnlabelledMember(
        uid=member.uid,
        namespace=member.namespace,
        name=member.name,
        queue=queue or member.queue,
        cause=cause,
        waits=waits,
    )
