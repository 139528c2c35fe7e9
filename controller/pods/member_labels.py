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

What a stop waits for (`look_for` begins it; `queues.status.acknowledgement` has the rule):

1. the list of the pods on no node that lack the label, as of the version of pods that the stop needs
   (`StopAcknowledgement`), has been read; and one that was begun after each change of what a namespace names,
   up to that version, was seen here. So no member that could be bound is unknown. Later changes have no share
   in it: a namespace that changes all the time puts off no stop. If there are such pods at all, the watch of
   namespaces is made to catch up with that version (`cluster.cache.watch_progress`): a namespace that it is
   late to show could make members of them;
2. each member in it of the stopped queues, and each that lost or changed its label while it was on no node,
   has its label again;
3. the watches of all replicas have that label: they are to be as new as the write, and as the first list of
   the term, since a former leader may have written labels before it (`version_since`);
4. what was let through before that is accounted for. A replica that did not know the pod as a member has
   recorded no pass of it. So for a pod that filter is called for a pass is assumed on the leader
   (`SettlingBinds.assume` says why that is enough), and for any other `BYPASS_SECONDS` must pass: by then
   its bind has been stored or meets a guard that knows it.

A pod that cannot be labelled, since something refuses the write, is an obstacle of the stops of its own queue
alone, with the reason. One that is on a node is none: it is bound already. It keeps its queue from Closed and
from Drained (`look_for_all`). So do the list of all pods that was begun after the close, and those of
namespaces.

Invariants
- Only the leader writes (`label_writes`). What it found is forgotten when its term ends; the next leader
  lists all again.
- Owner: the controller's thread. Lists run in the threads of the listers, writes in the writers'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from cluster.cache.changes import StoreChange
from cluster.cache.label_changes import ChangedLabels, Departure
from cluster.cache.members import Member
from cluster.objects import Pod
from controller.context import ControllerContext
from controller.parts import Part
from controller.pods.label_writes import LabelWrites
from controller.pods.ungating import awaits_assignment
from controller.pods.unlabelled_lists import ALL_NAMESPACES, AllPodLists, Listing, WaitingPodLists
from controller.pods.unlabelled_members import LabelReason, UnlabelledMember, UnlabelledMembers
from controller.pods.unlabelled_pods import PodSelection, UnlabelledPods, UnlabelledWaitingPods
from queues.status.acknowledgement import UnlabelledView

#: How often the pods on no node are listed while some queue does not schedule.
STOPPED_SECONDS = 5.0
#: A namespace that has come to name a queue is listed again after this time.
NAMESPACE_SECONDS = 2.0
#: Members that leave the watch are looked for together.
DEPARTURE_SECONDS = 0.25
#: While more labels than this are to be written, no further page of all pods is read. Those whose write was
#: refused do not count: they would keep the list from its end.
MAX_OPEN = 2000
#: A bind by a scheduler that does not call the extender is stored within this time of its admission.
BYPASS_SECONDS = 2.0
NAMESPACES = "namespaces"


class MemberLabels(Part):
    """Owner: the controller's thread."""

    name = "member_labels"

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
        self._members = UnlabelledMembers()
        self._writes = LabelWrites(context, self._members, changed=changed)
        self._waiting = WaitingPodLists(context, selection, receive=self._receive_waiting)
        self._all = AllPodLists(
            context,
            selection,
            receive=partial(self._record_listed, waits=False),
            end=self._record_all,
            has_room=lambda: self._members.pending < MAX_OPEN,
        )
        self._changes = context.store.label_changes
        #: How many passes were assumed, so that passes that were gathered before are gathered again.
        self.passes_assumed = 0
        self.begin_term()

    def begin_term(self) -> None:
        self._changes.take()
        self._members.forget()
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

    # What stops, closes and drains have done for them

    def settle(self, queues: Iterable[str]) -> None:
        """Close the members of these queues that have their label, as far as our watch shows it.

        Passes may be assumed for them.
        """
        applied = self._progress.applied("pods")
        self._take_changes()  # all up to this version, our own writes too: before these members are closed
        for member in self._members.written(queues, applied):
            if self._is_accounted_for(member):
                self._members.close(member)

    def look_for(
        self, queues: frozenset[str], *, since: int, departures_until: float = math.inf
    ) -> UnlabelledView:
        """Take what the watches showed, begin the lists that a stop of these queues needs, and return what is
        known. `since`: the version that the pods must have. `departures_until`: members that left the watch
        later are not waited for.

        Call it after the other evidence was gathered: a member that left the watch before that is in what it
        takes. It closes no member, so that no pass is assumed after the passes were gathered: `settle` does.
        """
        is_late = self._take_changes_up_to(since)
        at = self._now()
        if not self._demand_lists(since):
            return UnlabelledView(at=at, listed=False, failure=self._waiting.failure)
        if is_late and self._progress.demand(NAMESPACES, since):
            self._changed()  # they have come since, and no listener is called
        bindable = list(self._bindable(queues))
        found = next((member for member in bindable if member.is_found), None)
        departed = min(
            (member for member in bindable if not member.is_found), key=lambda each: each.since, default=None
        )
        if departed is not None and departed.since <= departures_until:
            self._waiting.start()
        return UnlabelledView(
            at=at,
            listed=True,
            member="" if found is None else found.obstacle,
            departed="" if departed is None else departed.obstacle,
            departed_at=math.inf if departed is None else departed.since,
            namespaces_late=is_late,
        )

    def begin_list(self, version: int) -> None:
        """Begin the list that a stop waits for (1), if there is none of this version or later."""
        self._waiting.demand(version)

    def _take_changes_up_to(self, version: int) -> bool:
        """Take the changes. Return whether a namespace that changed before this version may be missing in
        them, where pods without a label wait that it could make members.
        """
        are_namespaces_known = self._progress.applied(NAMESPACES) >= version  # before their changes are taken
        self._take_changes()
        return self._are_unlabelled and not are_namespaces_known

    def _demand_lists(self, version: int) -> bool:
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

    def look_for_all(self, queues: frozenset[str], *, since: float = -math.inf) -> str:
        """Take what the watches showed, and begin the list that a close or drain of these queues needs.
        Return what of their members is not known yet, on nodes or not; "" if all is.

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
        first = next(self._members.of(queues), None)
        return first.obstacle if first is not None else ""

    def are_all_known(self, *, since: float) -> bool:
        """Whether each member that existed at `since`, in monotonic seconds, is known here: all pods without
        the label were listed since then, and our watch shows the labels that could be written.
        """
        self.settle(self._members.queues)
        if not self._all.demand(since) or self._members.pending:
            return False
        return self._progress.applied("pods") >= self._members.version(self._store.snapshot.tree)

    # Questions

    def is_restoring(self, uid: str) -> bool:
        """Whether another queue was written on the pod: the writes of that queue are not for it."""
        member = self._members.get(uid)
        return member is not None and member.cause is LabelReason.MOVED

    def version_since(self, queues: frozenset[str], version: int) -> int:
        """The version that all replicas must have: this one, or a later one at which a label was written.

        What a former leader wrote is not known. A pod that the first list of this term does not have got its
        label before that list's version.
        """
        return max(version, self._term_version, self._members.version(queues))

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
        self._all.request(ALL_NAMESPACES)

    def stand_by(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """Drop the changes of labels: the replica that leads sees to them."""
        self._changes.take()

    def step(self) -> None:
        """Take what the watches showed, and begin the lists and writes that are due."""
        now = self._now()
        self.settle(self._members.queues)
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
        """Record what the watches showed. If that fails, all of it is taken again: no stop is acknowledged
        without it."""
        changes = self._changes.take()
        try:
            self._record(changes, now=self._now())
        except BaseException:
            self._changes.put_back(changes)
            raise

    def _record(self, changes: ChangedLabels, *, now: float) -> None:
        """It may be called again with the same changes."""
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
            self.mend_all()

    def _restore(self, member: Member, now: float) -> None:
        """Another queue was written on the member, or none."""
        stored, known = self._store.members.by_uid(member.uid), self._members.get(member.uid)
        if stored is not None and stored.written and stored.queue == (known or member).queue:
            return  # our own write, or it was changed back
        self._members.record_moved(member, now=now)

    def _look_for(self, departure: Departure, now: float) -> None:
        """The member left the watch, and may still exist."""
        scan = 0 if departure.version else self._waiting.request_consistent()
        lost = self._members.record_left(departure, now=now, scan=scan)
        if lost is None:
            return
        if lost.waits:
            # Begun from now on: a list of a later version may have been read already.
            self._waiting.request(departure.version, delay=DEPARTURE_SECONDS)
        else:
            self._all.request(lost.namespace, delay=DEPARTURE_SECONDS)

    def _mend(self, member: Member | None) -> None:
        if member is None or member.written or not member.live or member.uid in self._members:
            return
        if awaits_assignment(member):
            return  # it gets its queue with node affinity to that's groups (`ungating`)
        queue = self._store.memberships.queue_of_label(member.queue)
        if "_" not in queue:  # no name has one: no queue with this label exists yet
            self._members.record_unfitting(member, queue)

    def resync(self) -> None:
        if self._context.leading():
            self.mend_all()

    def mend_all(self) -> None:
        """Mend the members whose annotation was lost before we led, or before their queue came to exist."""
        members = self._store.members
        for name in members.queues():
            for member in members.in_queue(name):
                self._mend(member)
        self._members.forget_versions_but(self._store.snapshot.tree)

    # Members without their label

    def _may_be_bound(self, member: UnlabelledMember) -> bool:
        if not member.waits or member.cause is not LabelReason.MOVED:
            return member.waits
        stored = self._store.members.by_uid(member.uid)
        return stored is None or stored.waiting

    def _bindable(self, queues: Iterable[str]) -> Iterable[UnlabelledMember]:
        return (member for member in self._members.of(queues) if self._may_be_bound(member))

    def _record_listed(self, pods: UnlabelledPods, *, waits: bool, version: int = 0) -> None:
        """Record listed pods without the label, on no node at `version` if they wait."""
        self._members.record_listed(pods.uids, waits=waits, version=version)
        for pod in pods.members:
            if pod.metadata.uid not in self._members:
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
        self._members.add(
            UnlabelledMember(
                uid=meta.uid,
                namespace=meta.namespace,
                name=meta.name,
                queue=membership.queue or "",
                cause=LabelReason.UNLABELLED,
                waits=waits,
                seen_at=version,
                since=self._now(),
            )
        )

    def _is_accounted_for(self, member: UnlabelledMember) -> bool:
        """Whether what was let through before the pod had its label is accounted for; see (4) above."""
        stored = self._store.members.by_uid(member.uid)
        if stored is None or not stored.may_be_bound or not stored.queue:
            return True
        if member.cause in {LabelReason.MENDED, LabelReason.NAMED}:
            return True
        if stored.filtered:
            self.passes_assumed += 1
            self._store.bind_passes.assume_pass(
                namespace=stored.namespace, name=stored.name, queue=stored.queue, uid=stored.uid
            )
            return True
        self._members.record_bindable(member)
        return self._now() >= member.written_at + BYPASS_SECONDS

    # Lists

    def _receive_waiting(self, number: int, waiting: UnlabelledWaitingPods) -> None:
        self._received_scan = max(self._received_scan, number)
        self._namespace_scans = [each for each in self._namespace_scans if each[1] > self._received_scan]
        self._term_version = self._term_version or waiting.version
        if waiting.version >= self._waiting.version:
            self._are_unlabelled = bool(waiting.pods.uids)
        self._record_listed(waiting.pods, waits=True, version=waiting.version)
        departed = self._members.record_waiting(waiting.pods.uids, number=number, version=waiting.version)
        for namespace in departed:
            self._all.request(namespace, delay=DEPARTURE_SECONDS)
        self._writes.send(self._now())
        self._changed()

    def _record_all(self, listing: Listing) -> None:
        self._members.record_all(listing.seen, namespace=listing.namespace, began=listing.began)

    def _now(self) -> float:
        return self._store.clock.monotonic()
