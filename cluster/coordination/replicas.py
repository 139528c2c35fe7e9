"""Which replicas answer requests, and how much of the queues each has seen.

Each replica holds a Lease of its own, `sluice-replica-<identity>`, whose annotation says up to which
resource version its board has every queue's change and its members every pod's, and for which stopped
queues it still has passes open (`cluster.inflight.binds`) or admissions (`cluster.inflight.admissions`).

Replicas of different versions run side by side during a roll-out. What an annotation does not say is not
known: each field has a default that says so, and what an older version reads keeps its name and meaning.

Invariants
- A replica answers (`alive`) only while its Lease is held, by its own monotonic clock counted from
  before the last renewal was sent, and `MARGIN_SECONDS` less. It holds its Lease before it lists
  the queues, so that whoever reads the Leases after a stop was written either finds the replica or
  knows that its list, coming later, has the stop. The same after it had lost its Lease: stops may have
  been acknowledged without it.
- What it says it has seen, its answers are taken from: the board is published first.
- A dead replica counts until its Lease has gone unchanged for `LEASE_SECONDS`, and no longer. One that stops
  takes its Lease away, unless what it admitted may still come: then it is left to expire, so that whoever
  finds it expired knows of somebody lost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec

from cluster.coordination.leases import (
    Lease,
    LeaseList,
    Leases,
    ObservedLease,
)
from cluster.coordination.replica_report import ReplicaReport
from cluster.exceptions import ClusterError, Conflict, NotFound
from cluster.readiness import LeaseValidity

PREFIX = "sluice-replica-"
LABEL = "sluice.dev/replica"
SEEN_ANNOTATION = "sluice.dev/seen"
LEASE_SECONDS = 6
MARGIN_SECONDS = 2.0
#: Others count from when they saw the renewal; for clocks that do not run alike.
GAP_MARGIN_SECONDS = 0.5
RENEW_SECONDS = 1.5
RETRY_SECONDS = 0.3
#: While passes are open their end is looked for this often.
OPEN_SECONDS = 0.02

log = logging.getLogger(__name__)


class ReplicaReading(msgspec.Struct, frozen=True):
    """What the Leases of the other replicas say now, by the replica's name.

    `version`: one that was current when they were read. `left`: one that was there is gone, or may be;
    `vanished`: one is known to be. `lost`: what those that are gone had said last, if that is known of all of
    them.
    """

    views: dict[str, ReplicaReport]
    version: int
    left: bool
    vanished: bool
    lost: list[ReplicaReport] | None = None
    #: Leases of replicas that are gone, to be deleted.
    ended: tuple[Lease, ...] = ()


#: Asks for the queues to be listed anew; what it returns tells whether that has been done.
RelistQueues = Callable[[], Callable[[], bool]]

_views = msgspec.json.Decoder(ReplicaReport)


class ReplicaLease:
    """Keeps our own Lease, in a thread of its own. Owner: the server."""

    def __init__(
        self,
        leases: Leases,
        *,
        identity: str,
        clock: Callable[[], float],
        report: Callable[[], ReplicaReport],
        relist_queues: RelistQueues,
        lingering: Callable[[], bool] = lambda: False,
        renewed: Callable[[float, int], object] = lambda _at, _version: None,
        validity: LeaseValidity | None = None,
    ) -> None:
        """`lingering`: whether something that we admitted may still come. `renewed`: called after each
        renewal with the time at which it was begun, in monotonic seconds, and the version of it."""
        self._tell_renewed = renewed
        self._lingering = lingering
        self._leases = leases
        self._relist_queues = relist_queues
        self._is_fresh: Callable[[], bool] | None = None
        self._identity = identity
        self._name = f"{PREFIX}{identity}"
        self._clock = clock
        self._report = report
        self._validity = validity or LeaseValidity(clock)
        #: When the last renewal that succeeded was begun.
        self._renewed_at = float("-inf")
        self._reported: ReplicaReport | None = None
        self._changed = threading.Event()
        #: Whether what we know of the pods is waited for.
        self._asked_for_pods = False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        """Whether what we answer may be relied upon."""
        return self._validity.valid

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop answering for good and take our Lease away, so that nobody waits for it."""
        self._stopped.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def report_change(self) -> None:
        """What we have seen has changed; from any thread."""
        self._changed.set()

    def report_pods(self) -> None:
        """Somebody waits for what we know of the pods; from any thread."""
        self._asked_for_pods = True
        self._changed.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._changed.clear()
            pods_asked_for, self._asked_for_pods = self._asked_for_pods, False
            view = self._report()
            due = (
                self._clock() >= self._renewed_at + RENEW_SECONDS
                or self._queues_are_fresh()
                or pods_asked_for
            )
            if (due or not view.differs_only_in_pods(self._reported)) and not self._renewed(view):
                self._stopped.wait(RETRY_SECONDS)
            else:
                self._changed.wait(self._pause(view))
        self._end()

    def _renewed(self, view: ReplicaReport) -> bool:
        """Whatever goes wrong, the next try comes: without a Lease we would answer nobody any more."""
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
            version = self._write(extra)
        except ClusterError as exc:
            log.warning("our own Lease: %s", exc)
            return False
        self._reported = view
        self._tell_renewed(began, version)
        self._validity.held.set()
        gap = self._clock() - self._renewed_at > LEASE_SECONDS - GAP_MARGIN_SECONDS
        self._renewed_at = began
        if self._may_answer(gap=gap):
            self._validity.extend(began + LEASE_SECONDS - MARGIN_SECONDS)
        return True

    def _queues_are_fresh(self) -> bool:
        return self._is_fresh is not None and self._is_fresh()

    def _may_answer(self, *, gap: bool) -> bool:
        """Whether the queues were listed since we hold our Lease without a gap. `gap`: one ended just now."""
        if self.alive:
            return True
        if self._is_fresh is None or gap:
            self._is_fresh = self._relist_queues()
        if not self._is_fresh():
            return False
        self._is_fresh = None
        return True

    def _write(self, extra: dict[str, dict[str, str]]) -> int:
        """Renew or make it; the version that it was stored as."""
        try:
            lease = self._leases.renew(self._name, holder=self._identity, seconds=LEASE_SECONDS, extra=extra)
        except NotFound:
            lease = self._leases.create(self._name, holder=self._identity, seconds=LEASE_SECONDS, extra=extra)
        return lease.metadata.version

    def _end(self) -> None:
        self._validity.end()
        if self._lingering():
            return
        try:
            self._leases.delete(self._name)
        except (NotFound, Conflict):
            return
        except ClusterError as exc:
            log.warning("our own Lease could not be deleted: %s", exc)


class OtherReplicas:
    """The other live replicas, as their Leases say.

    `list` and `delete` send requests, in any thread; `read` is for one thread alone.
    """

    def __init__(self, leases: Leases, *, identity: str, clock: Callable[[], float]) -> None:
        self._leases = leases
        self._own = f"{PREFIX}{identity}"
        self._watched = ObservedLease(clock)
        self._known: dict[str, ReplicaReport] | None = None

    def list(self) -> LeaseList:
        """The Leases of all replicas, read consistently now. Raises `cluster.exceptions.ClusterError`."""
        return self._leases.list(label=f"{LABEL}=true")

    def delete(self, lease: Lease) -> None:
        """Remove the Lease of a replica that is gone. Raises `cluster.exceptions.ClusterError`."""
        self._leases.delete(lease.metadata.name, version=lease.metadata.resource_version)

    def read(self, listed: LeaseList, *, began: float) -> ReplicaReading:
        """What each replica has seen, and whether one that was there is gone.

        `began`: when `listed` was asked for, in monotonic seconds. Lists are read in that order.
        At the first reading somebody always may be gone: the process that we came after.
        """
        leases = [lease for lease in listed.items or () if lease.metadata.name != self._own]
        self._watched.keep_only(lease.metadata.name for lease in leases)
        gone = [lease for lease in leases if self._watched.expired(lease, began=began)]
        ended = tuple(lease for lease in gone if lease.metadata.deletion_timestamp is None)
        live = [lease for lease in leases if lease not in gone]
        before, self._known = self._known, {lease.metadata.name: _view(lease) for lease in live}
        views = {name.removeprefix(PREFIX): view for name, view in self._known.items()}
        if before is None:
            return ReplicaReading(views, listed.version, left=True, vanished=bool(gone), ended=ended)
        lost = [view for name, view in before.items() if name not in self._known]
        is_lost = bool(lost or gone)
        return ReplicaReading(views, listed.version, left=is_lost, vanished=is_lost, lost=lost, ended=ended)


def _view(lease: Lease) -> ReplicaReport:
    try:
        return _views.decode(lease.metadata.annotation(SEEN_ANNOTATION))
    except msgspec.DecodeError:
        return ReplicaReport()
