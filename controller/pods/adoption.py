"""Gives members that have no label `sluice.dev/queue` the label, so that all replicas see them.

The webhook writes the label when a pod is created. The leader looks for the members that lack it.

How a member can be without its label, or with another's:

========================================  ========================================  ========================
the pod                                   is found by                               gets
========================================  ========================================  ========================
is older than the installation, or of an  the list of all pods without the label    the queue of the rules
older version of the server               when a term of leadership begins          (`queues.membership`)
was created while no webhook was          the same; while the server runs: the      the same
registered, or its API server did not     list of waiting pods for each stop, and
call it                                   every `STOPPED_SECONDS` while some queue
                                          does not schedule; the list of all pods
                                          every ten minutes
is in a namespace that names a queue      lists of that namespace: at once, and     the namespace's queue
only now                                  again after `NAMESPACE_SECONDS`: its API
                                          servers' webhooks select it by then
names a scheduler that we own only now    as one older than the installation        `default`
lost its label                            it leaves the watch without having been   the queue that it had
                                          deleted as far as can be told: then by
                                          the list of waiting pods, or else of its
                                          namespace
got the label of another queue            the watch shows it                        the queue that it had
has the label, and an annotation that     the watch shows it                        the annotation again
does not fit it, or none
waits for a PodGroup that does not exist,  as the others                             an empty label; later
and has no label                                                                    its queue (`ungating`)
========================================  ========================================  ========================

What a stop waits for (`obstacle`):

1. the list of the pods on no node that lack the label, as of the version of pods that the stop needs
   (`StopAcknowledgement`), has been read. So no member that could be bound is unknown;
2. each member in it of the stopped queues, and each that lost or changed its label while it was on no node,
   has its label again. One that left the watch when the stop waited for nothing else is not waited for
   (`departures_until`);
3. the watches of all replicas have that label: they are to be as new as the write, and as the first list of
   the term, since a former leader may have written labels before it (`version_since`);
4. what was let through before that is accounted for. A replica that did not know the pod as a member has
   recorded no pass of it. So for a pod that filter is called for a pass is assumed on the leader
   (`Store.assume_bind_passes` says why that is enough), and for any other `BYPASS_SECONDS` must pass: by then
   its bind has been stored or meets a guard that knows it.

A pod that cannot be labelled, since something refuses the write, is an obstacle of the stops of its own queue
alone, with the reason. One that is on a node is none: it is bound already. It keeps its queue from Closed and
from Drained (`unfinished`), as do a list of all pods that was begun after the close, and those of namespaces.

Invariants
- Only the leader writes. What it found is forgotten when its term ends; the next leader lists all again.
- A write names the pod's UID.
- At most `MAX_WRITES` of these writes are under way, and as many more that a stop may wait for. The latter go
  first, one of each queue in turn, and before resumes; all others go behind resumes.
- Owner: the controller's thread. Lists run in the threads of the listers, writes in the writers'.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.backoff import Backoff
from cluster.cache.label_changes import Departure
from cluster.cache.members import Member
from cluster.exceptions import ClusterError, Conflict, NotFound
from cluster.object_reference import ObjectReference
from cluster.objects import Bookmark, Pod
from controller.context import ControllerContext
from controller.pods.unlabelled_lists import FAILURE_LIMIT, RETRY, AllPodLists, Listing, WaitingPodLists
from controller.pods.unlabelled_pods import PodSelection, UnlabelledPods, WaitingPods
from queues import labels as names
from queues.membership import label_value
from queues.status.acknowledgement import Obstacle, ObstacleReason
from queues.text import truncated

#: How often the pods on no node are listed while some queue does not schedule.
STOPPED_SECONDS = 5.0
#: A namespace that has come to name a queue is listed again after this time.
NAMESPACE_SECONDS = 2.0
#: Members that leave the watch are looked for together.
DEPARTURE_SECONDS = 0.25
#: After a label that was changed again soon.
RESTORE = Backoff(0.5, 30.0)
MAX_WRITES = 100
#: While more labels than this are to be written, no further page of all pods is read. Those whose write was
#: refused do not count: they would keep the list from its end.
MAX_OPEN = 2000
#: A bind by a scheduler that does not call the extender is stored within this time of its admission.
BYPASS_SECONDS = 2.0
#: Pods whose label was restored and that are remembered, so that a war over labels does not run hot.
MAX_RESTORED = 1000
_written = msgspec.json.Decoder(Bookmark)


class Cause(Enum):
    """Why a pod's label or annotation is written."""

    UNLABELLED = auto()
    LOST = auto()
    MOVED = auto()
    MENDED = auto()


_CHANGED = {
    Cause.LOST: f"label {names.QUEUE} was removed",
    Cause.MOVED: f"label {names.QUEUE} was changed",
    Cause.MENDED: f"annotation {names.QUEUE} did not fit the label",
}


class _Member(msgspec.Struct, kw_only=True):
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
        meta: dict[str, Any] = {"uid": self.uid, "labels": {names.QUEUE: label_value(self.queue)}}
        if self.queue:
            meta["annotations"] = {names.QUEUE: self.queue}
        return {"metadata": meta}


class MemberAdoption:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext, *, changed: Callable[[], object]) -> None:
        """`changed`: called, on the controller's thread, when what a stop waits for may have come."""
        self._context = context
        self._changed = changed
        self._store = context.store
        settings = context.store.membership_settings
        selection = PodSelection(
            schedulers=settings.owned_schedulers,
            exempt=settings.exempt_namespaces,
            is_member=lambda pod: context.store.pod_membership(pod) is not None,
        )
        self._waiting = WaitingPodLists(context, selection, receive=self._receive_waiting)
        self._all = AllPodLists(
            context,
            selection,
            receive=partial(self._record_listed, waits=False),
            end=self._close_departed,
            has_room=lambda: len(self._to_write) + self._writing - len(self._refused) < MAX_OPEN,
        )
        self._changes = context.store.label_changes
        #: UIDs restored lately: how often, and until when they are left alone.
        self._restored: dict[str, tuple[int, float]] = {}
        self._generation = 0
        #: How many passes were assumed, so that passes that were gathered before are gathered again.
        self.passes_assumed = 0
        self.forget()

    def forget(self) -> None:
        """Forget everything: a term begins, or another replica leads."""
        self._generation += 1
        self._changes.take()
        self._members: dict[str, _Member] = {}
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
        self._writing, self._write_at = 0, math.inf
        #: By queue: the version of the last label that was written in it.
        self._versions: dict[str, int] = {}
        self._waiting.forget()
        self._all.forget()
        self._stopped_scan_at = 0.0
        #: The numbers of the list that shows what became of changes that were not kept, and of the last one.
        self._needed_scan = self._received_scan = 0
        #: The version of the first list of waiting pods in this term; 0 before it was read.
        self._term_version = 0

    # Questions

    def settle(self, queues: frozenset[str]) -> None:
        """Close the members of these queues that have their label; passes may be assumed for them."""
        self._settle(queues)

    def obstacle(self, queues: frozenset[str], *, since: int, until: float = math.inf) -> Obstacle | None:
        """What keeps a stop of these queues from being acknowledged; None if no member of them that could be
        bound lacks its label. `since`: the version that the pods must have. `until`: a member that left the
        watch later, and may have been deleted, is not waited for (`departures_until`). Closes no member, so
        that no pass is assumed after the passes were gathered: `settle` does.
        """
        self._take_changes()
        if not self._has_listed(since):
            failure = f": {self._waiting.failure}" if self._waiting.failure else ""
            return Obstacle(ObstacleReason.UNLABELLED, f"pods without a label are looked for{failure}")
        first = next((each for each in self._bindable(queues) if each.is_found or each.since <= until), None)
        if first is None:
            return None
        if not first.is_found:
            self._waiting.start()
        return Obstacle(ObstacleReason.UNLABELLED, _lacks_label(first))

    def departures_until(self, queues: frozenset[str], *, since: int) -> float:
        """The time up to which members that left the watch count for a stop of these queues that waits for
        nothing else; infinity if it waits for a member that exists, or for a list.

        Call it after the evidence was gathered. A member that leaves later was in that evidence: it is as
        if it left after the acknowledgement. Members that leave all the time put off no stop for good.
        """
        self._take_changes()
        exists = any(member.is_found for member in self._bindable(queues))
        return math.inf if exists or not self._has_listed(since) else self._now()

    def _has_listed(self, version: int) -> bool:
        """Whether the waiting pods have been listed as of this version, and after changes that were not kept;
        else a list is begun.
        """
        if self._received_scan < self._needed_scan:
            self._waiting.start()
            return False
        return self._waiting.demand(version)

    def is_restoring(self, uid: str) -> bool:
        """Whether another queue was written on the pod: the writes of that queue are not for it."""
        member = self._members.get(uid)
        return member is not None and member.cause is Cause.MOVED

    def version_since(self, queues: frozenset[str], version: int) -> int:
        """The version that all replicas must have: this one, or a later one at which a label was written.

        What a former leader wrote is not known. A pod that the first list of this term does not have got its
        label before that list's version.
        """
        version = max(version, self._term_version)
        if not self._versions:
            return version
        return max(version, *(self._versions.get(queue, 0) for queue in queues))

    def unfinished(self, queues: frozenset[str], *, since: float = -math.inf) -> str:
        """What of the members of these queues is not known yet, on nodes or not; "" if nothing is.

        `since`: when the close or drain came to be known, in monotonic seconds. A member created without its
        label before that is in a list of all pods that was begun later.
        """
        self._settle(queues)
        if not self._all.is_complete:
            return "the pods without a label have not been listed yet"
        if not self._all.demand(since):
            return "pods without a label are looked for"
        if namespace := self._all.namespace_of(queues):
            return f"pods without a label are looked for in namespace {namespace}"
        first = next(iter(self._of(queues)), None)
        return _lacks_label(first) if first is not None else ""

    @property
    def due(self) -> float:
        """When the next list is to be begun, or write to be tried again, in monotonic seconds."""
        times = [self._waiting.due, self._all.due, self._write_at]
        if next(self._store.snapshot.stopped_queues(), None) is not None:
            times.append(self._stopped_scan_at)
        return min(times)

    # Each sync

    def request_all(self) -> None:
        """Have all pods without the label listed soon: a replica is gone, or changes were missed."""
        self._all.request()

    def drop_changes(self) -> None:
        """Another replica leads, and sees to them."""
        self._changes.take()

    def step(self) -> None:
        """Take what the watches showed, and begin the lists and writes that are due."""
        now = self._now()
        self._settle(self._by_queue)
        if now >= self._stopped_scan_at and next(self._store.snapshot.stopped_queues(), None) is not None:
            self._stopped_scan_at = now + STOPPED_SECONDS
            self._request_waiting()
        self._waiting.start_if_due()
        self._all.read_due()
        self._write(now)

    def _request_waiting(self) -> None:
        """Have the waiting pods listed as the API server knows them now."""
        self._waiting.request(self._store.progress.applied("pods"))

    def _take_changes(self) -> None:
        changes, now = self._changes.take(), self._now()
        for member in changes.moved.values():
            self._restore(member, now)
        for departure in changes.left.values():
            self._look_for(departure, now)
        for uid in changes.unwritten:
            self._mend(self._store.members.by_uid(uid))
        for name in changes.namespaces:
            self._all.request(name)
            self._all.request(name, delay=NAMESPACE_SECONDS)
            self._request_waiting()
        if changes.incomplete:
            self._needed_scan = self._waiting.request_consistent()
            self.request_all()

    def _restore(self, member: Member, now: float) -> None:
        """Another queue was written on the member, or none."""
        stored, known = self._store.members.by_uid(member.uid), self._members.get(member.uid)
        if stored is not None and stored.written and stored.queue == (known or member).queue:
            return  # our own write, or it was changed back
        retry_at = self._restore_at(member.uid, now)
        if known is not None:
            known.written, known.retry_at = 0, retry_at
            self._enqueue(known)
            return
        self._add(_open(member, Cause.MOVED, waits=member.waiting, retry_at=retry_at))

    def _restore_at(self, uid: str, now: float) -> float:
        """When the label may be written again: at once, but later and later if it is changed each time."""
        times, until = self._restored.get(uid, (0, 0.0))
        times = times + 1 if now < until + RESTORE.seconds(times + 1) else 1
        if uid not in self._restored and len(self._restored) >= MAX_RESTORED:
            self._restored = {
                each: (count, at)
                for each, (count, at) in self._restored.items()
                if now < at + RESTORE.seconds(count + 1)
            }
            if len(self._restored) >= MAX_RESTORED:
                self._restored.popitem()  # the newest: pods that take turns do not push each other out
        retry_at = now if times == 1 else now + RESTORE.seconds(times - 1)
        self._restored[uid] = (times, retry_at)
        return retry_at

    def _write_again(self, known: _Member, departure: Departure, now: float) -> None:
        """A member that we write left the watch. The write shows whether it still exists."""
        member, version = departure.member, departure.version
        if version and version <= known.written:
            return  # our write came later
        known.waits = known.waits or member.may_be_bound
        if known.uid in self._to_write:
            self._enqueue(known)
        known.seen_at, known.since, known.is_gone = max(known.seen_at, version), now, False
        if not version:
            known.scan = self._waiting.request_consistent()
        if known.written or known.is_writing:  # else it is written soon
            known.written, known.retry_at = 0, self._restore_at(known.uid, now)
            if known.cause is not Cause.MOVED:
                known.cause = Cause.LOST
            self._enqueue(known)

    def _look_for(self, departure: Departure, now: float) -> None:
        """The member left the watch, and may still exist."""
        member, version = departure.member, departure.version
        known = self._members.get(member.uid)
        if known is not None and known.is_found:
            self._write_again(known, departure, now)
            return
        if known is not None:
            self._close(known)  # it was in the watch again: older lists say nothing of it
        lost = _open(member, Cause.LOST, waits=member.may_be_bound, is_found=False, seen_at=version)
        lost.since = now
        if not version:
            lost.scan = self._waiting.request_consistent()
        self._add(lost, write=False)
        if lost.waits:
            # Begun from now on: a list of a later version may have been read already.
            self._waiting.request(version, delay=DEPARTURE_SECONDS)
        else:
            self._all.request(member.namespace, delay=DEPARTURE_SECONDS)

    def _mend(self, member: Member | None) -> None:
        if member is None or member.written or not member.live or member.uid in self._members:
            return
        queue = self._store.queue_of_label(member.queue)
        if "_" not in queue:  # no name has one: no queue with this label exists yet
            self._add(_open(member, Cause.MENDED, waits=False, queue=queue))

    def mend_all(self) -> None:
        """Mend the members whose annotation was lost before we led, or before their queue came to exist."""
        members = self._store.members
        for name in members.queues():
            for member in members.in_queue(name):
                self._mend(member)
        tree = self._store.snapshot.tree
        self._versions = {queue: version for queue, version in self._versions.items() if queue in tree}

    # Members to be written

    def _may_be_bound(self, member: _Member) -> bool:
        if not member.waits or member.cause is not Cause.MOVED:
            return member.waits
        stored = self._store.members.by_uid(member.uid)
        return stored is None or stored.waiting

    def _bindable(self, queues: Iterable[str]) -> Iterable[_Member]:
        return (member for member in self._of(queues) if self._may_be_bound(member))

    def _of(self, queues: Iterable[str]) -> Iterable[_Member]:
        known = self._by_queue
        names_in_use = (queue for queue in queues if queue in known) if known else ()
        return (self._members[uid] for queue in names_in_use for uid in known[queue])

    def _add(self, member: _Member, *, write: bool = True) -> None:
        self._members[member.uid] = member
        self._by_queue.setdefault(member.queue, set()).add(member.uid)
        if write:
            self._enqueue(member)

    def _close(self, member: _Member) -> None:
        self._members.pop(member.uid, None)
        self._refused.discard(member.uid)
        self._dequeue(member)
        uids = self._by_queue.get(member.queue)
        if uids is not None:
            uids.discard(member.uid)
            if not uids:
                del self._by_queue[member.queue]

    def _record_listed(self, pods: UnlabelledPods, *, waits: bool, version: int = 0) -> None:
        """Record listed pods without the label, on no node at `version` if they wait.

        A member that lost its label may also have lost what named its queue: the UID is enough.
        """
        for uid in self._members.keys() & pods.uids:
            known = self._members[uid]
            known.waits, known.seen_at, known.is_gone = (
                known.waits or waits,
                max(version, known.seen_at),
                False,
            )
            if not known.is_found or uid in self._to_write:
                known.is_found = True
                self._enqueue(known)
        for pod in pods.members:
            if pod.metadata.uid not in self._members:
                self._add_found(pod, waits=waits, version=version)

    def _add_found(self, pod: Pod, *, waits: bool, version: int) -> None:
        """Record a pod without the label, if it is a member."""
        meta = pod.metadata
        cached = self._store.members.by_uid(meta.uid)
        if cached is not None and cached.written and cached.version >= meta.version:
            return  # it has got the label since
        membership = self._store.pod_membership(pod)
        if membership is None:
            return
        self._add(
            _Member(
                uid=meta.uid,
                namespace=meta.namespace,
                name=meta.name,
                queue=membership.queue or "",
                cause=Cause.UNLABELLED,
                waits=waits,
                seen_at=version,
                since=self._now(),
            )
        )

    def _enqueue(self, member: _Member) -> None:
        """Have the member written, or move it to the lane where it belongs now."""
        lane = (member.waits, member.queue)
        if self._to_write.get(member.uid) != lane:
            self._dequeue(member)
            self._to_write[member.uid] = lane
            self._lanes.setdefault(lane, {})[member.uid] = None

    def _dequeue(self, member: _Member) -> None:
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

    def _write(self, now: float) -> None:
        """Submit the writes that are due. Those that a stop may wait for have places of their own."""
        self._write_at = math.inf
        for uid, is_awaited in self._to_write_in_order():
            member = self._members[uid]
            if self._writing >= (2 if is_awaited else 1) * MAX_WRITES:
                return  # the results of these writes begin the next ones
            if member.is_writing:
                continue
            if member.retry_at <= now and self._submit(member, is_awaited=is_awaited):
                self._dequeue(member)
                continue
            if member.retry_at <= now:
                member.retry_at = now + max(self._context.writers.wait(("label", member.uid)), RETRY.first)
            self._write_at = min(self._write_at, member.retry_at)

    def _submit(self, member: _Member, *, is_awaited: bool) -> bool:
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

    def _uid_differs(self, member: _Member) -> int:
        """The pod of this name conflicts with the write: 0 if it is another one; raises if it is the same."""
        try:
            found = decode_response(self._context.client.get(member.path), _written)
        except NotFound:
            return 0
        if found.metadata.uid != member.uid:
            return 0
        raise Conflict(409, "Conflict", "somebody writes it all the time")

    def _receive_written(self, member: _Member, version: int | None, failure: str) -> None:
        member.is_writing = False
        self._writing -= 1
        self._writes[member.queue] -= 1
        if not self._writes[member.queue]:
            del self._writes[member.queue]
        if self._members.get(member.uid) is not member:
            return
        now = self._now()
        if version is None and member.is_gone:
            self._close(member)
        elif version is None:
            member.failure = failure or "the API server did not take it"
            self._refused.add(member.uid)
            wait = self._context.writers.wait(("label", member.uid))
            member.retry_at = now + max(wait, RETRY.first)
            self._enqueue(member)
        elif not version:
            self._close(member)
        elif member.uid not in self._to_write:  # else it has been changed again meanwhile
            member.written, member.written_at, member.failure = version, now, ""
            self._refused.discard(member.uid)
            self._versions[member.queue] = max(version, self._versions.get(member.queue, 0))
            self._record_event(member)
            self._to_settle.setdefault(member.queue, set()).add(member.uid)
            self._changed()

    def _record_event(self, member: _Member) -> None:
        changed = _CHANGED.get(member.cause)
        if changed is not None:
            self._context.recorder.record(
                member.subject,
                reason="QueueLabelRestored",
                message=f'{changed}; it names queue "{member.queue}" again',
                warning=True,
                rate_limit_key=f"labels/{member.queue}",
            )

    def _settle(self, queues: Iterable[str]) -> None:
        """Close the members of these queues that have their label, as far as our watch shows it."""
        applied = self._store.progress.applied("pods")
        self._take_changes()  # all up to this version, our own writes too: before these members are closed
        if not self._by_queue:
            return
        for member in self._written(queues, applied):
            if self._is_accounted_for(member):
                self._close(member)

    def _written(self, queues: Iterable[str], applied: int) -> list[_Member]:
        """The members of these queues whose label was written at this version or before."""
        if not self._to_settle:
            return []
        written = []
        for queue in [queue for queue in queues if queue in self._to_settle]:
            uids = self._to_settle[queue]
            for uid in list(uids):
                member = self._members.get(uid)
                if member is None or not member.written:
                    uids.discard(uid)  # it is closed, or is written again
                elif member.written <= applied:
                    written.append(member)
            if not uids:
                del self._to_settle[queue]
        return written

    def _is_accounted_for(self, member: _Member) -> bool:
        """Whether what was let through before the pod had its label is accounted for; see (4) above."""
        stored = self._store.members.by_uid(member.uid)
        if stored is None or not stored.may_be_bound or not stored.queue or member.cause is Cause.MENDED:
            return True
        if stored.marked:
            self.passes_assumed += 1
            self._store.bind_passes.assume_pass(
                namespace=stored.namespace, name=stored.name, queue=stored.queue, uid=stored.uid
            )
            return True
        member.waits = True
        return self._now() >= member.written_at + BYPASS_SECONDS

    # Lists

    def _receive_waiting(self, number: int, waiting: WaitingPods) -> None:
        self._received_scan = max(self._received_scan, number)
        self._term_version = self._term_version or waiting.version
        listed = waiting.pods.uids
        self._record_listed(waiting.pods, waits=True, version=waiting.version)
        for member in list(self._members.values()):
            if member.waits and not member.written and not member.is_writing and member.uid not in listed:
                self._not_waiting(member, number, waiting.version)
        self._write(self._now())
        self._changed()

    def _not_waiting(self, member: _Member, number: int, version: int) -> None:
        """The list does not have this pod: it is gone, or on a node, unless it is newer than the list."""
        if member.cause is Cause.MOVED or member.cause is Cause.MENDED:
            return  # it has a label
        if version < member.seen_at or number < member.scan:
            return
        member.waits = False
        if member.uid in self._to_write:
            self._enqueue(member)
        if not member.is_found:
            self._all.request(member.namespace, delay=DEPARTURE_SECONDS)

    def _close_departed(self, listing: Listing) -> None:
        """Close the members known before this list was begun that it does not have: they are gone, or have
        finished. One whose label was written is closed when the watch shows that.
        """
        for member in list(self._members.values()):
            if (
                member.cause in (Cause.LOST, Cause.UNLABELLED)
                and not (member.waits or member.written)
                and member.since <= listing.began
                and member.namespace == (listing.namespace or member.namespace)
                and member.uid not in listing.seen
            ):
                if member.is_writing:
                    member.is_gone = True  # or it has just got its label: the result says which
                else:
                    self._close(member)

    def _now(self) -> float:
        return self._store.clock.monotonic()


def _open(
    member: Member,
    cause: Cause,
    *,
    waits: bool,
    queue: str = "",
    is_found: bool = True,
    seen_at: int = 0,
    retry_at: float = 0.0,
) -> _Member:
    return _Member(
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


def _lacks_label(member: _Member) -> str:
    where = f"pod {member.namespace}/{member.name}"
    if member.failure:
        return f"{where} cannot be given its label: {truncated(member.failure, limit=FAILURE_LIMIT)}"
    if not member.is_found:
        return f"{where} left the watch, and may still exist"
    return f"{where} had no label, and what was let through before that is waited for"
