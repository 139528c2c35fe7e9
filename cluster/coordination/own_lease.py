"""Holds the Lease of this replica; `replicas` has the protocol and its invariants.

A renewal says that the replica has held its Lease since the one before, unless more time than the Lease lasts
has gone by, or the Lease that it renewed is not the one that it had: somebody has deleted it, and perhaps
created it anew. Then there was a gap. A stop may have been acknowledged without this replica, so it does not
answer until it has listed the queues after the renewal."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec

from cluster.background_thread import BackgroundThread
from cluster.coordination.leases import (
    LEASE_SECONDS,
    MARGIN_SECONDS,
    Lease,
    Leases,
)
from cluster.coordination.replica_lease import ENDED_ANNOTATION, LABEL, PREFIX, SEEN_ANNOTATION
from cluster.coordination.replica_report import ReplicaReport
from cluster.exceptions import ClusterError, Conflict, NotFound
from cluster.readiness import LeaseValidity

#: The others count from when they saw a renewal; this margin is for clocks of different speed.
GAP_MARGIN_SECONDS = 0.5
RENEW_SECONDS = 1.5
RETRY_SECONDS = 0.3
#: No replica waits for the report of the one that leads; it is written once the stop that it shows is
#: acknowledged, as a rule.
LEADER_REPORT_SECONDS = 0.05
#: How often a replica looks for the end of open passes.
OPEN_SECONDS = 0.02
#: How long a replica that stops waits for the end of binds that its guard allowed.
LAST_BINDS_SECONDS = 2.0

log = logging.getLogger(__name__)

#: Starts a new list of the queues. Returns a function that says whether it is done.
RelistQueues = Callable[[], Callable[[], bool]]


class ReplicaLease:
    """Holds the Lease of this replica, in a thread of its own. Owner: the server."""

    def __init__(  # noqa: PLR0913 - what it reports and when, and who learns of it
        self,
        leases: Leases,
        *,
        identity: str,
        clock: Callable[[], float],
        report: Callable[[], ReplicaReport],
        relist_queues: RelistQueues,
        lingering: Callable[[], bool] = lambda: False,
        has_binds: Callable[[], bool] = lambda: False,
        leads: Callable[[], bool] = lambda: False,
        renewed: Callable[[float, int], object] = lambda _at, _version: None,
        validity: LeaseValidity | None = None,
    ) -> None:
        """`lingering`: whether something that we admitted may still be stored. `has_binds`: whether a bind
        that only we know of may still be stored. `leads`: whether this replica leads. `renewed`: called after
        each renewal with its begin, in monotonic seconds, and its resource version.
        """
        self._leads = leads
        self._on_renewed = renewed
        self._lingering = lingering
        self._has_binds = has_binds
        self._leases = leases
        self._relist_queues = relist_queues
        self._is_fresh: Callable[[], bool] | None = None
        self._identity = identity
        self._name = f"{PREFIX}{identity}"
        self._clock = clock
        self._report = report
        self._validity = validity or LeaseValidity(clock)
        #: The begin of the last successful renewal, in monotonic seconds.
        self._renewed_at = float("-inf")
        #: The Lease as the last successful renewal left it.
        self._lease: Lease | None = None
        self._reported: ReplicaReport | None = None
        self._changed = threading.Event()
        #: Set to renew at once, whatever there is to report.
        self._urgent = threading.Event()
        #: Whether another replica waits for our report of the pods.
        self._asked_for_pods = False
        self._stopped = threading.Event()
        self._thread = BackgroundThread(self._run, name="presence")

    @property
    def alive(self) -> bool:
        """Whether our answers may be relied upon."""
        return self._validity.valid

    @property
    def running(self) -> bool:
        return self._thread.alive

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop answering for good, mark our Lease as ended and delete it, so that no replica waits for it."""
        self._stopped.set()
        self._renew_now()
        self._thread.join(timeout=10)

    def report_change(self) -> None:
        """Report again: what we have seen has changed; from any thread."""
        self._changed.set()

    def report_pods(self) -> None:
        """Report the pods: another replica waits for this; from any thread."""
        self._asked_for_pods = True
        self._changed.set()

    def cause_event(self) -> None:
        """Renew at once: the leader waits for an event of the Leases (`WatchProgress`); from any thread."""
        self._renew_now()

    def _renew_now(self) -> None:
        self._urgent.set()
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.clear()
            if self._stopped.is_set():  # asked after that: `stop` sets the other one later
                break
            pods_asked_for, self._asked_for_pods = self._asked_for_pods, False
            is_urgent = self._urgent.is_set()
            if is_urgent:
                self._urgent.clear()
            view = self._report()
            due = (
                self._clock() >= self._renewed_at + RENEW_SECONDS
                or self._queues_are_fresh()
                or pods_asked_for
                or is_urgent
            )
            if (due or not view.differs_only_in_pods(self._reported)) and not self._try_renew(view):
                if is_urgent:
                    self._urgent.set()
                self._stopped.wait(RETRY_SECONDS)
            elif self._changed.wait(self._pause(view)) and self._leads():
                self._urgent.wait(LEADER_REPORT_SECONDS)
        self._end()

    def _try_renew(self, view: ReplicaReport) -> bool:
        """Renew; after any exception the next try follows. Without a Lease we would no longer answer."""
        try:
            return self._renew(view)
        except Exception:
            log.exception("our own Lease")
            return False

    def _pause(self, view: ReplicaReport) -> float:
        if self._is_fresh is not None or view.has_open_work:
            return OPEN_SECONDS
        return max(0.0, self._renewed_at + RENEW_SECONDS - self._clock())

    def _renew(self, view: ReplicaReport) -> bool:
        began = self._clock()
        annotation = msgspec.json.encode(view).decode()
        extra = {"labels": {LABEL: "true"}, "annotations": {SEEN_ANNOTATION: annotation}}
        try:
            lease = self._write(extra)
        except ClusterError as exc:
            log.warning("our own Lease: %s", exc)
            return False
        self._reported = view
        self._on_renewed(began, lease.metadata.version)
        self._validity.held.set()
        gap = self._clock() - self._renewed_at > LEASE_SECONDS - GAP_MARGIN_SECONDS
        if self._lease is not None and self._lease.metadata.uid != lease.metadata.uid:
            log.warning("our own Lease was deleted; the queues are listed before anything passes again")
            self._validity.end()
            gap = True
        self._lease, self._renewed_at = lease, began
        if self._may_answer(gap=gap):
            self._validity.extend(began + LEASE_SECONDS - MARGIN_SECONDS)
        return True

    def _queues_are_fresh(self) -> bool:
        return self._is_fresh is not None and self._is_fresh()

    def _may_answer(self, *, gap: bool) -> bool:
        """Return whether the queues were listed while we have held the Lease without a gap.

        `gap`: a gap ended just now.
        """
        if self.alive:
            return True
        if self._is_fresh is None or gap:
            self._is_fresh = self._relist_queues()
        if not self._is_fresh():
            return False
        self._is_fresh = None
        return True

    def _write(self, extra: dict[str, dict[str, str]]) -> Lease:
        """Renew or create the Lease. One that is gone is held no more from here on."""
        try:
            return self._leases.renew(self._name, holder=self._identity, seconds=LEASE_SECONDS, extra=extra)
        except NotFound:
            self._validity.end()
            return self._leases.create(self._name, holder=self._identity, seconds=LEASE_SECONDS, extra=extra)

    def _end(self) -> None:
        self._validity.end()
        self._await_binds()
        if self._lingering() or self._has_binds():
            return
        try:
            if self._lease is not None:
                self._mark_ended(self._lease)
            self._leases.delete(self._name)
        except (NotFound, Conflict):
            return
        except ClusterError as exc:
            log.warning("our own Lease could not be deleted: %s", exc)

    def _mark_ended(self, lease: Lease) -> None:
        """Mark the Lease, so that no replica waits for it; also where somebody has just changed it."""
        try:
            self._leases.annotate(lease, {ENDED_ANNOTATION: lease.renewed_at})
        except Conflict:
            lease = self._leases.get(self._name)
            self._leases.annotate(lease, {ENDED_ANNOTATION: lease.renewed_at})

    def _await_binds(self) -> None:
        """Wait until the binds that only we know of have ended, but not for long."""
        until, pause = self._clock() + LAST_BINDS_SECONDS, threading.Event()
        while self._has_binds() and self._clock() < until:
            pause.wait(OPEN_SECONDS)
