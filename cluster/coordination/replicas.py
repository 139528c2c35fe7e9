"""Which replicas answer requests, and how much each of them has seen.

Each replica holds a Lease of its own, `sluice-replica-<identity>`. An annotation on it
(`cluster.coordination.replica_report`) says up to which resource version the replica's snapshot has the
changes of the queues and its cache those of the pods. It names the stopped queues with open passes
(`cluster.inflight.binds`) and the closed queues with open admissions (`cluster.inflight.admissions`).

Replicas of different versions run side by side during a roll-out. A field that an annotation lacks is
unknown; its default means so. The names and meanings that older versions read do not change.

Invariants
- A replica answers (`alive`) only while it holds its Lease: until `MARGIN_SECONDS` before the Lease expires,
  by its own monotonic clock, counted from before the last renewal was sent.
- A replica takes its Lease before it lists the queues. So a leader that reads the Leases after a stop was
  written either sees the replica, or knows that its later list has the stop. A replica that lost its Lease
  lists the queues again: stops may have been acknowledged without it.
- A replica reports a version only after its answers use it: the snapshot is published first.
- A dead replica counts until its Lease has not changed for `LEASE_SECONDS`, and no longer. A replica that
  stops deletes its Lease, unless something that it let through may still be stored: an object that it
  admitted, or a bind of a pod that no scheduler calls filter for. Then the Lease is left to expire, and the
  leader that sees it expired knows that a replica was lost.
- An expired Lease is kept for as long as a request takes from when it was seen to have expired. So each
  replica that may lead meanwhile knows that a replica was lost. A Lease that is gone without that is of a
  replica that ended in order, or so long ago that nothing is under way any more that only it knew.
- Who sees a Lease expire marks it with the time of its last renewal, unless it has changed meanwhile. So
  whoever leads next knows at once that it has expired, and takes back no acknowledgement to wait for it. The
  next renewal makes the mark void.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import msgspec

from cluster.background_thread import BackgroundThread
from cluster.coordination.leases import (
    LEASE_SECONDS,
    MARGIN_SECONDS,
    Lease,
    LeaseList,
    Leases,
    LeaseSightings,
    ObservedLease,
)
from cluster.coordination.replica_report import ReplicaReport
from cluster.exceptions import ClusterError, Conflict, NotFound
from cluster.inflight.binds import REQUEST_SECONDS
from cluster.readiness import LeaseValidity

PREFIX = "sluice-replica-"
LABEL = "sluice.dev/replica"
SEEN_ANNOTATION = "sluice.dev/seen"
#: On a Lease that has expired: its last renewal then, so that the mark is void once it is renewed again.
EXPIRED_ANNOTATION = "sluice.dev/expired"
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


class ReplicaReading(msgspec.Struct, frozen=True):
    """What the Leases of the other replicas say, by the replica's name.

    `version`: a resource version that was current when they were read. `left`: a former replica is gone, or
    may be. `vanished`: one is known to be gone. `expired`: one did not end in order. `lost`: the last reports
    of the replicas that are gone, if those of all of them are known. Each that is gone is in one reading.
    """

    views: dict[str, ReplicaReport]
    version: int
    left: bool
    vanished: bool
    lost: list[ReplicaReport] | None = None
    expired: bool = False
    #: Leases that we have seen expire, to be marked.
    unmarked: tuple[Lease, ...] = ()
    #: Leases that expired long ago, to be deleted.
    ended: tuple[Lease, ...] = ()


#: Starts a new list of the queues. Returns a function that says whether it is done.
RelistQueues = Callable[[], Callable[[], bool]]

_views = msgspec.json.Decoder(ReplicaReport)


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
        self._reported: ReplicaReport | None = None
        self._changed = threading.Event()
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
        """Stop answering for good and delete our Lease, so that no replica waits for it."""
        self._stopped.set()
        self._changed.set()
        self._thread.join(timeout=10)

    def report_change(self) -> None:
        """Report again: what we have seen has changed; from any thread."""
        self._changed.set()

    def report_pods(self) -> None:
        """Report the pods: another replica waits for this; from any thread."""
        self._asked_for_pods = True
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.clear()
            if self._stopped.is_set():  # asked after that: `stop` sets the other one later
                break
            pods_asked_for, self._asked_for_pods = self._asked_for_pods, False
            view = self._report()
            due = (
                self._clock() >= self._renewed_at + RENEW_SECONDS
                or self._queues_are_fresh()
                or pods_asked_for
            )
            if (due or not view.differs_only_in_pods(self._reported)) and not self._try_renew(view):
                self._stopped.wait(RETRY_SECONDS)
            elif self._changed.wait(self._pause(view)) and self._leads():
                self._stopped.wait(LEADER_REPORT_SECONDS)
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
            version = self._write(extra)
        except ClusterError as exc:
            log.warning("our own Lease: %s", exc)
            return False
        self._reported = view
        self._on_renewed(began, version)
        self._validity.held.set()
        gap = self._clock() - self._renewed_at > LEASE_SECONDS - GAP_MARGIN_SECONDS
        self._renewed_at = began
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

    def _write(self, extra: dict[str, dict[str, str]]) -> int:
        """Renew or create the Lease; return its resource version."""
        try:
            lease = self._leases.renew(self._name, holder=self._identity, seconds=LEASE_SECONDS, extra=extra)
        except NotFound:
            lease = self._leases.create(self._name, holder=self._identity, seconds=LEASE_SECONDS, extra=extra)
        return lease.metadata.version

    def _end(self) -> None:
        self._validity.end()
        self._await_binds()
        if self._lingering() or self._has_binds():
            return
        try:
            self._leases.delete(self._name)
        except (NotFound, Conflict):
            return
        except ClusterError as exc:
            log.warning("our own Lease could not be deleted: %s", exc)

    def _await_binds(self) -> None:
        """Wait until the binds that only we know of have ended, but not for long."""
        until, pause = self._clock() + LAST_BINDS_SECONDS, threading.Event()
        while self._has_binds() and self._clock() < until:
            pause.wait(OPEN_SECONDS)


class LeaseEvents:
    """Passes on what the watch of the Leases shows (`cluster.informers`): a hint of what a replica reports.

    Which replicas there are is read by `OtherReplicas.list`, since the watch may be late. The Leases that are
    no replica's, the leader's among them, are watched for `sightings` alone. Threads: the reflector's;
    `listen` is called before it starts.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.sightings = LeaseSightings(clock)
        self._listeners: list[Callable[[Lease | None], object]] = []
        #: The last report of each, so that renewals alone are not passed on.
        self._reports: dict[str, str] = {}

    def listen(self, listener: Callable[[Lease | None], object]) -> None:
        """Add a callback: it is given a Lease whose report has changed, and None if one is gone."""
        self._listeners.append(listener)

    def replace(self, objects: list[Lease]) -> None:
        present = {lease.metadata.name for lease in objects}
        gone = self._reports.keys() - present
        self.sightings.keep_only(present)
        for lease in objects:
            self.upsert(lease)
        for name in gone:
            self._forget(name)

    def upsert(self, obj: Lease) -> None:
        self.sightings.record(obj)
        name, report = obj.metadata.name, obj.metadata.annotation(SEEN_ANNOTATION)
        if name.startswith(PREFIX) and self._reports.get(name) != report:
            self._reports[name] = report
            self._pass_on(obj)

    def remove(self, obj: Lease) -> None:
        self._forget(obj.metadata.name)

    def _forget(self, name: str) -> None:
        self.sightings.forget(name)
        if self._reports.pop(name, None) is not None:
            self._pass_on(None)

    def _pass_on(self, lease: Lease | None) -> None:
        for listener in self._listeners:
            listener(lease)


class OtherReplicas:
    """Reads the Leases of the other replicas.

    `list`, `mark_expired` and `delete` send requests, from any thread. `read` is for one thread. `events`:
    what the watch of the Leases shows.
    """

    def __init__(
        self,
        leases: Leases,
        *,
        identity: str,
        clock: Callable[[], float],
        events: LeaseEvents | None = None,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """`request_seconds`: the API server's request time-out. An expired Lease is kept for so long."""
        self.events = events or LeaseEvents()
        self._leases = leases
        self._own = f"{PREFIX}{identity}"
        self._observed = ObservedLease(clock, sightings=self.events.sightings)
        self._request_seconds = request_seconds
        self._known: dict[str, ReplicaReport] | None = None
        #: The begin of the first list in which a Lease had expired, by its name, in monotonic seconds.
        self._expired_at: dict[str, float] = {}

    def list(self) -> LeaseList:
        """List the Leases of all replicas, in a consistent read. Raises `cluster.exceptions.ClusterError`."""
        return self._leases.list(label=f"{LABEL}=true")

    def mark_expired(self, lease: Lease) -> None:
        """Mark a Lease that was seen to expire. Raises `cluster.exceptions.ClusterError`."""
        self._leases.annotate(lease, {EXPIRED_ANNOTATION: lease.renewed_at})

    def delete(self, lease: Lease) -> None:
        """Delete the Lease of a replica that is gone. Raises `cluster.exceptions.ClusterError`."""
        self._leases.delete(lease.metadata.name, version=lease.metadata.resource_version)

    def report_of(self, lease: Lease) -> tuple[str, ReplicaReport] | None:
        """The name and the report of another replica's Lease; None for our own."""
        name = lease.metadata.name
        return None if name == self._own else (name.removeprefix(PREFIX), _view(lease))

    def read(self, listed: LeaseList, *, began: float) -> ReplicaReading:
        """Return what each replica has seen, and whether a former replica is gone.

        `began`: when `listed` was requested, in monotonic seconds. Lists are read in that order. At the first
        call a replica may always be gone: the process that ran before this one.
        """
        leases = [lease for lease in listed.items or () if lease.metadata.name != self._own]
        self._observed.keep_only(lease.metadata.name for lease in leases)
        unmarked = [
            lease
            for lease in leases
            if not _is_marked_expired(lease) and self._observed.expired(lease, began=began)
        ]
        gone = [lease for lease in leases if lease in unmarked or _is_marked_expired(lease)]
        counted = self._expired_at
        self._expired_at = {lease.metadata.name: counted.get(lease.metadata.name, began) for lease in gone}
        expired = bool(self._expired_at.keys() - counted.keys())
        ended = tuple(lease for lease in gone if self._is_outdated(lease, now=began))
        live = [lease for lease in leases if lease not in gone]
        before, self._known = self._known, {lease.metadata.name: _view(lease) for lease in live}
        views = {name.removeprefix(PREFIX): view for name, view in self._known.items()}
        reading = ReplicaReading(
            views,
            listed.version,
            left=True,
            vanished=expired,
            expired=expired,
            unmarked=tuple(lease for lease in unmarked if lease.renewed_at and lease not in ended),
            ended=ended,
        )
        if before is None:
            return reading
        # One that came after the former list, and was killed before this one, is known by its Lease alone.
        by_lease = [
            _view(lease) for lease in gone if lease.metadata.name not in counted.keys() | before.keys()
        ]
        lost = [*(view for name, view in before.items() if name not in self._known), *by_lease]
        is_lost = bool(lost or expired)
        return msgspec.structs.replace(reading, left=is_lost, vanished=is_lost, lost=lost)

    def _is_outdated(self, lease: Lease, *, now: float) -> bool:
        """Return whether nothing that the replica of this expired Lease let through can still be stored."""
        meta = lease.metadata
        return meta.deletion_timestamp is None and now >= self._expired_at[meta.name] + self._request_seconds


def _is_marked_expired(lease: Lease) -> bool:
    """Return whether a replica has seen the Lease expire, and nothing has renewed it since."""
    return bool(lease.renewed_at) and lease.metadata.annotation(EXPIRED_ANNOTATION) == lease.renewed_at


def _view(lease: Lease) -> ReplicaReport:
    try:
        return _views.decode(lease.metadata.annotation(SEEN_ANNOTATION))
    except msgspec.DecodeError:
        return ReplicaReport()
