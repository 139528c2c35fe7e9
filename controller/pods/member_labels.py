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
   (`StopAcknowledgement`), has been read; and one that was begun after each change of what a namespace names,
   up to that version, was seen here. So no member that could be bound is unknown. Later changes have no share
   in it: a namespace that changes all the time puts off no stop. If there are such pods at all, the watch of
   namespaces is made to catch up with that version (`cluster.cache.watch_progress`): a namespace that it is
   late to show could make members of them;
2. each member in it of the stopped queues, and each that lost or changed its label while it was on no node,
   has its label again. One that left the watch when the stop waited for nothing else is not waited for
   (`departures_until`);
3. the watches of all replicas have that label: they are to be as new as the write, and as the first list of
   the term, since a former leader may have written labels before it (`version_since`);
4. what was let through before that is accounted for. A replica that did not know the pod as a member has
   recorded no pass of it. So for a pod that filter is called for a pass is assumed on the leader
   (`SettlingBinds.assume` says why that is enough), and for any other `BYPASS_SECONDS` must pass: by then
   its bind has been stored or meets a guard that knows it.

A pod that cannot be labelled, since something refuses the write, is an obstacle of the stops of its own queue
alone, with the reason. One that is on a node is none: it is bound already. It keeps its queue from Closed and
from Drained (`unfinished`), as do a list of all pods that was begun after the close, and those of namespaces.

Invariants
- Only the leader writes (`label_writes`). What it found is forgotten when its term ends; the next leader
  lists all again.
- Owner: the controller's thread. Lists run in the threads of the listers, writes in the writers'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from cluster.backoff import Backoff
from cluster.cache.label_changes import Departure
from cluster.cache.members import Member
from cluster.objects import Pod
from controller.context import ControllerContext
from controller.pods.label_writes import (
    Cause,
    LabelWrites,
    UnlabelledMember,
    lacks_label,
    unlabelled_member,
)
from controller.pods.unlabelled_lists import AllPodLists, Listing, WaitingPodLists
from controller.pods.unlabelled_pods import PodSelection, UnlabelledPods, WaitingPods
from queues.status.acknowledgement import Obstacle, ObstacleReason

#: How often the pods on no node are listed while some queue does not schedule.
STOPPED_SECONDS = 5.0
#: A namespace that has come to name a queue is listed again after this time.
NAMESPACE_SECONDS = 2.0
#: Members that leave the watch are looked for together.
DEPARTURE_SECONDS = 0.25
#: After a label that was changed again soon.
RESTORE = Backoff(0.5, 30.0)
#: While more labels than this are to be written, no further page of all pods is read. Those whose write was
#: refused do not count: they would keep the list from its end.
MAX_OPEN = 2000
#: A bind by a scheduler that does not call the extender is stored within this time of its admission.
BYPASS_SECONDS = 2.0
NAMESPACES = "namespaces"
#: Pods whose label was restored and that are remembered, so that a war over labels does not run hot.
MAX_RESTORED = 1000


class MemberLabels:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext, *, changed: Callable[[], object]) -> None:
        """`changed`: called, on the controller's thread, when what a stop waits for may have come."""
        self._context = context
        self._changed = changed
        self._store = context.store
        self._progress = context.store.watch_progress
        settings = context.store.membership_settings
        selection = PodSelection(
            schedulers=settings.owned_schedulers,
            exempt=settings.exempt_namespaces,
            is_member=lambda pod: context.store.memberships.of_pod(pod) is not None,
        )
        self._writes = LabelWrites(context, changed=changed)
        self._waiting = WaitingPodLists(context, selection, receive=self._receive_waiting)
        self._all = AllPodLists(
            context,
            selection,
            receive=partial(self._record_listed, waits=False),
            end=self._close_departed,
            has_room=lambda: self._writes.pending < MAX_OPEN,
        )
        self._changes = context.store.label_changes
        #: UIDs restored lately: how often, and until when they are left alone.
        self._restored: dict[str, tuple[int, float]] = {}
        #: How many passes were assumed, so that passes that were gathered before are gathered again.
        self.passes_assumed = 0
        self.forget()

    def forget(self) -> None:
        """Forget everything: a term begins, or another replica leads."""
        self._changes.take()
        self._writes.forget()
        self._waiting.forget()
        self._all.forget()
        #: When waiting pods are listed again for queues that do not schedule; -infinity if there are none.
        self._stopped_scan_at = -math.inf
        #: The numbers of the list that shows what became of changes that were not kept, and of the last one.
        self._needed_scan = self._received_scan = 0
        #: Changes of what a namespace names: its version, and the number of the list that is begun later.
        self._namespace_scans: list[tuple[int, int]] = []
        #: The version of the first list of waiting pods in this term; 0 before it was read.
        self._term_version = 0
        #: Whether the newest list of waiting pods had any, members or not.
        self._are_unlabelled = False

    # Questions

    def settle(self, queues: Iterable[str]) -> None:
        """Close the members of these queues that have their label, as far as our watch shows it.

        Passes may be assumed for them.
        """
        applied = self._progress.applied("pods")
        self._take_changes()  # all up to this version, our own writes too: before these members are closed
        for member in self._writes.written(queues, applied):
            if self._is_accounted_for(member):
                self._writes.close(member)

    def obstacle(self, queues: frozenset[str], *, since: int, until: float = math.inf) -> Obstacle | None:
        """What keeps a stop of these queues from being acknowledged; None if no member of them that could be
        bound lacks its label. `since`: the version that the pods must have. `until`: a member that left the
        watch later, and may have been deleted, is not waited for (`departures_until`). Closes no member, so
        that no pass is assumed after the passes were gathered: `settle` does.
        """
        is_late = self._take_changes_up_to(since)
        if not self._has_listed(since):
            failure = f": {self._waiting.failure}" if self._waiting.failure else ""
            return Obstacle(ObstacleReason.UNLABELLED, f"pods without a label are looked for{failure}")
        if is_late and self._progress.demand(NAMESPACES, since):
            self._changed()  # they have come since, and no listener is called
        first = next((each for each in self._bindable(queues) if each.is_found or each.since <= until), None)
        if first is None and is_late:
            return Obstacle(ObstacleReason.UNLABELLED, "what namespaces name is known as of before the stop")
        if first is None:
            return None
        if not first.is_found:
            self._waiting.start()
        return Obstacle(ObstacleReason.UNLABELLED, lacks_label(first))

    def begin_list(self, version: int) -> None:
        """Begin the list that a stop waits for (1), if there is none of this version or later."""
        self._waiting.demand(version)

    def departures_until(self, queues: frozenset[str], *, since: int) -> float:
        """The time up to which members that left the watch count for a stop of these queues that waits for
        nothing else; infinity if it waits for a member that exists, for a list, or for namespaces.

        Call it after the evidence was gathered. A member that leaves later was in that evidence: it is as
        if it left after the acknowledgement. Members that leave all the time put off no stop for good.
        """
        is_late = self._take_changes_up_to(since)
        exists = any(member.is_found for member in self._bindable(queues))
        return math.inf if exists or is_late or not self._has_listed(since) else self._now()

    def _take_changes_up_to(self, version: int) -> bool:
        """Take the changes. Return whether a namespace that changed before this version may be missing in
        them, where pods without a label wait that it could make members.
        """
        are_namespaces_known = self._progress.applied(NAMESPACES) >= version  # before their changes are taken
        self._take_changes()
        return self._are_unlabelled and not are_namespaces_known

    def _has_listed(self, version: int) -> bool:
        """Whether the waiting pods have been listed as of this version, and after changes that were not kept,
        and those of namespaces up to this version; else a list is begun.
        """
        scans = self._namespace_scans = [
            each for each in self._namespace_scans if each[1] > self._received_scan
        ]
        if self._received_scan < self._needed_scan or any(changed <= version for changed, _ in scans):
            self._waiting.start()
            return False
        return self._waiting.demand(version)

    def is_restoring(self, uid: str) -> bool:
        """Whether another queue was written on the pod: the writes of that queue are not for it."""
        member = self._writes.members.get(uid)
        return member is not None and member.cause is Cause.MOVED

    def version_since(self, queues: frozenset[str], version: int) -> int:
        """The version that all replicas must have: this one, or a later one at which a label was written.

        What a former leader wrote is not known. A pod that the first list of this term does not have got its
        label before that list's version.
        """
        version = max(version, self._term_version)
        if not self._writes.versions:
            return version
        return max(version, *(self._writes.versions.get(queue, 0) for queue in queues))

    def unfinished(self, queues: frozenset[str], *, since: float = -math.inf) -> str:
        """What of the members of these queues is not known yet, on nodes or not; "" if nothing is.

        `since`: when the close or drain came to be known, in monotonic seconds. A member created without its
        label before that is in a list of all pods that was begun later.
        """
        self.settle(queues)
        if not self._all.is_complete:
            return "the pods without a label have not been listed yet"
        if not self._all.demand(since):
            return "pods without a label are looked for"
        if namespace := self._all.namespace_of(queues):
            return f"pods without a label are looked for in namespace {namespace}"
        first = next(iter(self._writes.of(queues)), None)
        return lacks_label(first) if first is not None else ""

    @property
    def due(self) -> float:
        """When the next list is to be begun, or write to be tried again, in monotonic seconds."""
        times = [self._waiting.due, self._all.due, self._writes.due]
        if self._stopped_scan_at > -math.inf:
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
        self.settle(self._writes.queues)
        if next(self._store.snapshot.stopped_queues(), None) is None:
            self._stopped_scan_at = -math.inf
        elif self._stopped_scan_at == -math.inf:  # a stop has begun, which has these pods listed by itself
            self._stopped_scan_at = now + STOPPED_SECONDS
        elif now >= self._stopped_scan_at:
            self._stopped_scan_at = now + STOPPED_SECONDS
            self._request_waiting()
        self._waiting.start_if_due()
        self._all.read_due()
        self._writes.send(now)

    def _request_waiting(self) -> int:
        """Have the waiting pods listed as the API server knows them now; returns the number of the list."""
        return self._waiting.request(self._progress.applied("pods"))

    def _take_changes(self) -> None:
        changes, now = self._changes.take(), self._now()
        for member in changes.moved.values():
            self._restore(member, now)
        for departure in changes.left.values():
            self._look_for(departure, now)
        for uid in changes.unwritten:
            self._mend(self._store.members.by_uid(uid))
        for name, version in changes.namespaces.items():
            self._all.request(name)
            self._all.request(name, delay=NAMESPACE_SECONDS)
            self._namespace_scans.append((version, self._request_waiting()))
        if changes.incomplete:
            self._needed_scan = self._waiting.request_consistent()
            self.request_all()

    def _restore(self, member: Member, now: float) -> None:
        """Another queue was written on the member, or none."""
        stored, known = self._store.members.by_uid(member.uid), self._writes.members.get(member.uid)
        if stored is not None and stored.written and stored.queue == (known or member).queue:
            return  # our own write, or it was changed back
        retry_at = self._restore_at(member.uid, now)
        if known is not None:
            known.written, known.retry_at = 0, retry_at
            self._writes.enqueue(known)
            return
        self._writes.add(unlabelled_member(member, Cause.MOVED, waits=member.waiting, retry_at=retry_at))

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

    def _write_again(self, known: UnlabelledMember, departure: Departure, now: float) -> None:
        """A member that we write left the watch. The write shows whether it still exists."""
        member, version = departure.member, departure.version
        if version and version <= known.written:
            return  # our write came later
        known.waits = known.waits or member.may_be_bound
        if self._writes.is_to_be_written(known.uid):
            self._writes.enqueue(known)
        known.seen_at, known.since, known.is_gone = max(known.seen_at, version), now, False
        if not version:
            known.scan = self._waiting.request_consistent()
        if known.written or known.is_writing:  # else it is written soon
            known.written, known.retry_at = 0, self._restore_at(known.uid, now)
            if known.cause is not Cause.MOVED:
                known.cause = Cause.LOST
            self._writes.enqueue(known)

    def _look_for(self, departure: Departure, now: float) -> None:
        """The member left the watch, and may still exist."""
        member, version = departure.member, departure.version
        known = self._writes.members.get(member.uid)
        if known is not None and known.is_found:
            self._write_again(known, departure, now)
            return
        if known is not None:
            self._writes.close(known)  # it was in the watch again: older lists say nothing of it
        lost = unlabelled_member(
            member, Cause.LOST, waits=member.may_be_bound, is_found=False, seen_at=version
        )
        lost.since = now
        if not version:
            lost.scan = self._waiting.request_consistent()
        self._writes.add(lost, write=False)
        if lost.waits:
            # Begun from now on: a list of a later version may have been read already.
            self._waiting.request(version, delay=DEPARTURE_SECONDS)
        else:
            self._all.request(member.namespace, delay=DEPARTURE_SECONDS)

    def _mend(self, member: Member | None) -> None:
        if member is None or member.written or not member.live or member.uid in self._writes.members:
            return
        queue = self._store.memberships.queue_of_label(member.queue)
        if "_" not in queue:  # no name has one: no queue with this label exists yet
            self._writes.add(unlabelled_member(member, Cause.MENDED, waits=False, queue=queue))

    def mend_all(self) -> None:
        """Mend the members whose annotation was lost before we led, or before their queue came to exist."""
        members = self._store.members
        for name in members.queues():
            for member in members.in_queue(name):
                self._mend(member)
        tree = self._store.snapshot.tree
        versions = self._writes.versions
        self._writes.versions = {queue: version for queue, version in versions.items() if queue in tree}

    # Members without their label

    def _may_be_bound(self, member: UnlabelledMember) -> bool:
        if not member.waits or member.cause is not Cause.MOVED:
            return member.waits
        stored = self._store.members.by_uid(member.uid)
        return stored is None or stored.waiting

    def _bindable(self, queues: Iterable[str]) -> Iterable[UnlabelledMember]:
        return (member for member in self._writes.of(queues) if self._may_be_bound(member))

    def _record_listed(self, pods: UnlabelledPods, *, waits: bool, version: int = 0) -> None:
        """Record listed pods without the label, on no node at `version` if they wait.

        A member that lost its label may also have lost what named its queue: the UID is enough.
        """
        for uid in self._writes.members.keys() & pods.uids:
            known = self._writes.members[uid]
            known.waits, known.seen_at, known.is_gone = (
                known.waits or waits,
                max(version, known.seen_at),
                False,
            )
            if not known.is_found or self._writes.is_to_be_written(uid):
                known.is_found = True
                self._writes.enqueue(known)
        for pod in pods.members:
            if pod.metadata.uid not in self._writes.members:
                self._add_found(pod, waits=waits, version=version)

    def _add_found(self, pod: Pod, *, waits: bool, version: int) -> None:
        """Record a pod without the label, if it is a member."""
        meta = pod.metadata
        cached = self._store.members.by_uid(meta.uid)
        if cached is not None and cached.written and cached.version >= meta.version:
            return  # it has got the label since
        membership = self._store.memberships.of_pod(pod)
        if membership is None:
            return
        self._writes.add(
            UnlabelledMember(
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

    def _is_accounted_for(self, member: UnlabelledMember) -> bool:
        """Whether what was let through before the pod had its label is accounted for; see (4) above."""
        stored = self._store.members.by_uid(member.uid)
        if stored is None or not stored.may_be_bound or not stored.queue or member.cause is Cause.MENDED:
            return True
        if stored.filtered:
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
        self._namespace_scans = [each for each in self._namespace_scans if each[1] > self._received_scan]
        self._term_version = self._term_version or waiting.version
        if waiting.version >= self._waiting.version:
            self._are_unlabelled = bool(waiting.pods.uids)
        listed = waiting.pods.uids
        self._record_listed(waiting.pods, waits=True, version=waiting.version)
        for member in list(self._writes.members.values()):
            if member.waits and not member.written and not member.is_writing and member.uid not in listed:
                self._not_waiting(member, number, waiting.version)
        self._writes.send(self._now())
        self._changed()

    def _not_waiting(self, member: UnlabelledMember, number: int, version: int) -> None:
        """The list does not have this pod: it is gone, or on a node, unless it is newer than the list."""
        if member.cause is Cause.MOVED or member.cause is Cause.MENDED:
            return  # it has a label
        if version < member.seen_at or number < member.scan:
            return
        member.waits = False
        if self._writes.is_to_be_written(member.uid):
            self._writes.enqueue(member)
        if not member.is_found:
            self._all.request(member.namespace, delay=DEPARTURE_SECONDS)

    def _close_departed(self, listing: Listing) -> None:
        """Close the members known before this list was begun that it does not have: they are gone, or have
        finished. One whose label was written is closed when the watch shows that.
        """
        for member in list(self._writes.members.values()):
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
                    self._writes.close(member)

    def _now(self) -> float:
        return self._store.clock.monotonic()
