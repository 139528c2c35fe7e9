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
- A replica takes its Lease before it lists the queues. So a leader that knows all Leases that were there at
  the version of a stop either knows the replica, or knows that its later list has the stop. A replica that
  lost its Lease lists the queues again: stops may have been acknowledged without it. It has lost it also
  where the Lease that it renews is not the one that it had.
- A replica reports a version only after its answers use it: the snapshot is published first.
- A dead replica counts until its Lease has not changed for `LEASE_SECONDS`, and no longer. A replica that
  stops marks its Lease as ended and deletes it, unless something that it let through may still be stored: an
  object that it admitted, or a bind of a pod that no scheduler calls filter for. Then the Lease is left to
  expire, and the leader that sees it expired knows that a replica was lost.
- A Lease that is gone without a mark says nothing: anybody may have deleted it. Its replica counts by its
  last report until `LEASE_SECONDS` after it was noticed to be gone, and then as lost. So does each that was
  there between two lists, which the watch shows (`lease_events`). What was deleted before the watch began is
  waited out as well (`certain_at`).
- An expired Lease is kept for as long as a request takes from when it was seen to have expired. So each
  replica that may lead meanwhile knows that a replica was lost.
- Who sees a Lease expire marks it with the time of its last renewal, unless it has changed meanwhile. So
  whoever leads next knows at once that it has expired, and takes back no acknowledgement to wait for it. The
  next renewal makes the mark void.

====================================  ==================================================================
a Lease that the last list or the     what it counts as
watch had
====================================  ==================================================================
is there, renewed                     live: it counts by its report
is there, not renewed in its time     lost: what it let through is assumed; marked, and deleted later
is there, with a mark that holds      lost, or ended in order
is gone, marked as ended              ended in order: no bind that only it knew of is under way
is gone, and created anew             its new Lease counts
is gone without a mark                live for `LEASE_SECONDS`, then lost
====================================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cluster.coordination.lease_events import LeaseEvents
from cluster.coordination.leases import LEASE_SECONDS, Lease, LeaseList, Leases, ObservedLease
from cluster.coordination.replica_lease import (
    EXPIRED_ANNOTATION,
    PREFIX,
    LeaseKey,
    is_marked_ended,
    is_marked_expired,
    key_of,
    report_on,
)
from cluster.coordination.replica_report import ReplicaReport
from cluster.inflight.binds import REQUEST_SECONDS


class ReplicaReading(msgspec.Struct, frozen=True):
    """What the Leases of the other replicas say, by the replica's name.

    `version`: a resource version that was current when they were read. `left`: a former replica is gone, or
    may be. `vanished`: one is known to be gone. `expired`: one did not end in order. `lost`: the last reports
    of the replicas that are gone, if those of all of them are known. Each that is gone is in one reading.
    `keys`: all Leases that this is the outcome of.
    """

    views: dict[str, ReplicaReport]
    version: int
    left: bool
    vanished: bool
    lost: list[ReplicaReport] | None = None
    expired: bool = False
    keys: frozenset[LeaseKey] = frozenset()
    #: Leases that we have seen expire, to be marked.
    unmarked: tuple[Lease, ...] = ()
    #: Leases that expired long ago, to be deleted.
    ended: tuple[Lease, ...] = ()


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
        self._clock = clock
        self._own = f"{PREFIX}{identity}"
        self._observed = ObservedLease(clock, sightings=self.events.sightings)
        self._request_seconds = request_seconds
        #: The replicas that counted as live in the last reading: their Leases as they were seen last. None
        #: before the first reading.
        self._live: dict[LeaseKey, Lease] | None = None
        #: Of those that are gone without a mark: since when, in monotonic seconds.
        self._gone_since: dict[LeaseKey, float] = {}
        #: The begin of the first list in which a Lease had expired, in monotonic seconds.
        self._expired_at: dict[LeaseKey, float] = {}
        #: The Leases of replicas that were counted as gone. Each replica has one.
        self._counted: frozenset[LeaseKey] = frozenset()
        #: `LeaseEvents.gaps` of the last reading that was taken once all were certain; 0 before that.
        self._certain_gaps = 0

    def list(self) -> LeaseList:
        """List the Leases, in a consistent read. Raises `cluster.exceptions.ClusterError`."""
        return self._leases.list()

    def mark_expired(self, lease: Lease) -> None:
        """Mark a Lease that was seen to expire. Raises `cluster.exceptions.ClusterError`."""
        self._leases.annotate(lease, {EXPIRED_ANNOTATION: lease.renewed_at})

    def delete(self, lease: Lease) -> None:
        """Delete the Lease of a replica that is gone. Raises `cluster.exceptions.ClusterError`."""
        self._leases.delete(lease.metadata.name, version=lease.metadata.resource_version)

    def report_of(self, lease: Lease) -> tuple[str, ReplicaReport] | None:
        """The name and the report of another replica's Lease; None for our own."""
        name = lease.metadata.name
        return None if name == self._own else (name.removeprefix(PREFIX), report_on(lease))

    @property
    def is_certain(self) -> bool:
        """Whether no replica answers whose Lease was deleted before the Leases were watched."""
        return self._clock() >= self.events.certain_at

    @property
    def is_due(self) -> bool:
        """Whether the end of a gap is to be read: what was let through in it is assumed then."""
        return self.is_certain and self.events.gaps != self._certain_gaps

    def unread(self, reading: ReplicaReading) -> tuple[tuple[str, int, ReplicaReport], ...]:
        """Return the replicas whose Leases the watch has shown, and the reading does not know: each with the
        version of its Lease and its report, in the order of these versions.

        From any thread. The reading that is taken next has them.
        """
        shown = self.events.shown()
        leases = [shown[key].lease for key in shown if key not in reading.keys and key[0] != self._own]
        return tuple(
            (lease.metadata.name.removeprefix(PREFIX), lease.metadata.version, report_on(lease))
            for lease in sorted(leases, key=_version)
        )

    def read(self, listed: LeaseList, *, began: float) -> ReplicaReading:
        """Return what each replica has seen, and whether a former replica is gone.

        `began`: when `listed` was requested, in monotonic seconds. Lists are read in that order. Once no
        replica answers any more that was there before the watch began, one may always be gone: the process
        that ran before this one. So it is after each gap of the watch.
        """
        leases = {key_of(lease): lease for lease in listed.items or () if self._is_of_another(lease)}
        self._observed.keep_only(name for name, _ in leases)
        unmarked = [lease for lease in leases.values() if self._is_seen_expiring(lease, began=began)]
        gone = {
            key: lease
            for key, lease in leases.items()
            if lease in unmarked or is_marked_expired(lease) or is_marked_ended(lease)
        }
        counted, counted_before = self._expired_at, self._counted
        self._expired_at = {key: counted.get(key, began) for key in gone}
        before, gaps = self._live, self.events.gaps
        if began < self.events.certain_at:  # read after `gaps`: another gap may have begun in between
            gaps = self._certain_gaps
        absent = self._absent(leases, before or {})
        is_overdue = self._wait_for(absent, began=began)
        waiting = {key: lease for key, lease in absent.items() if key in self._gone_since}
        live = {key: lease for key, lease in leases.items() if key not in gone} | waiting
        # One that came after the former list, and was killed before this one, is known by its Lease alone.
        lost = [lease for key, lease in (absent | gone).items() if key not in live]
        lost = [each for each in lost if key_of(each) not in counted.keys() | counted_before]
        # The watch may show a Lease again that is gone from the list and counted.
        self._counted = (counted_before | counted.keys() | {key_of(each) for each in lost}) - live.keys()
        expired = is_overdue or any(key_of(each) in gone and not is_marked_ended(each) for each in lost)
        ends_gap = gaps != self._certain_gaps
        is_lost = bool(lost) or (ends_gap and self._certain_gaps > 0)
        self._live, self._certain_gaps = live, gaps
        ended = tuple(lease for lease in gone.values() if self._is_outdated(lease, now=began))
        return ReplicaReading(
            {name.removeprefix(PREFIX): report_on(lease) for (name, _), lease in live.items()},
            listed.version,
            left=is_lost or ends_gap,
            vanished=is_lost,
            lost=None if ends_gap else [report_on(lease) for lease in lost],
            expired=expired,
            keys=frozenset(leases) | frozenset(absent),
            unmarked=tuple(lease for lease in unmarked if lease.renewed_at and lease not in ended),
            ended=ended,
        )

    def _is_of_another(self, lease: Lease) -> bool:
        name = lease.metadata.name
        return name.startswith(PREFIX) and name != self._own

    def _is_seen_expiring(self, lease: Lease, *, began: float) -> bool:
        is_marked = is_marked_expired(lease) or is_marked_ended(lease)
        return not is_marked and self._observed.expired(lease, began=began)

    def _absent(self, leases: dict[LeaseKey, Lease], before: dict[LeaseKey, Lease]) -> dict[LeaseKey, Lease]:
        """The Leases that the last reading or the watch had and that are not listed, by their last state. Of
        each replica the last one that it had, and none if it has another by now.
        """
        shown = self.events.shown()
        known = before | {key: each.lease for key, each in shown.items() if self._is_of_another(each.lease)}
        absent = sorted((lease for key, lease in known.items() if key not in leases), key=_version)
        last = {lease.metadata.name: lease for lease in absent}
        for lease in leases.values():
            last.pop(lease.metadata.name, None)
        left = {key_of(lease): lease for lease in last.values()}
        self.events.forget(key for key in shown.keys() - left.keys() if key in known and key not in leases)
        return left

    def _wait_for(self, absent: dict[LeaseKey, Lease], *, began: float) -> bool:
        """Note since when each Lease without a mark is gone. Return whether that of one is overdue: its
        replica did not end in order, and answered no more when the list was requested (`began`).
        """
        now, shown, known = self._clock(), self.events.shown(), self._gone_since
        since = {
            key: min(known.get(key, now), shown[key].gone_at if key in shown else now)
            for key, lease in absent.items()
            if not (is_marked_ended(lease) or is_marked_expired(lease))
        }
        self._gone_since = {key: at for key, at in since.items() if began <= at + LEASE_SECONDS}
        self.events.forget(absent.keys() - self._gone_since.keys())
        return len(self._gone_since) < len(since)

    def _is_outdated(self, lease: Lease, *, now: float) -> bool:
        """Return whether nothing that the replica of this expired Lease let through can still be stored."""
        at = self._expired_at[key_of(lease)]
        return lease.metadata.deletion_timestamp is None and now >= at + self._request_seconds


def _version(lease: Lease) -> int:
    return lease.metadata.version
