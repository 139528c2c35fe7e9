"""The Leases of the other replicas, read by other threads.

Invariants
- A reading shows the Leases at or after the moment at which it began. It begins when it is requested, before
  its request is sent. A caller names the moment that the reading must not be older than (`since`).
- Readings are accepted in the order in which they began: one that arrives after a younger one is dropped. So
  a request that hangs delays no stop: after `HEDGE_SECONDS` the Leases are read again beside it, by at most
  `AT_ONCE` requests at a time.
- A watch of the Leases shows what a replica has reported since it was listed. It never shows which replicas
  there are: it may be late. The version of a reading is at least that of each report in it.
- When it shows a replica that the newest reading does not have, the Leases are read at once. Until then the
  replica counts by what the watch has shown, also if its Lease is gone by now.
- The store learns of each replica that has come to answer by other policies, or is there again
  (`RefusedMembers.replica_reported`): what it denied before may be retried.
- Pods that are newer than a list of Leases which was read later show that two etcds keep them. Then the
  versions of both cannot be compared, and the reading is dropped.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from functools import partial

import msgspec

from cluster.cache.changes import StoreChange
from cluster.coordination.leases import Lease, LeaseList
from cluster.coordination.replica_report import ReplicaReport
from cluster.coordination.replicas import ReplicaReading
from cluster.exceptions import ClusterError
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext

HEDGE_SECONDS = 0.3
#: While a replica has something to report the Leases are read again so often, since the watch may be late.
AGAIN_SECONDS = 0.02
AT_ONCE = 3
PODS = "pods"

log = logging.getLogger(__name__)


class ReplicaReadings:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext, *, received: Callable[[ReplicaReading], object]) -> None:
        """`received`: is given each accepted reading, before the changes that wait for one are added."""
        self._context = context
        self._replicas = context.other_replicas
        self._received = received
        self._numbers = itertools.count()
        #: When each request under way began, by its number.
        self._under_way: dict[int, float] = {}
        self._newest: ReplicaReading | None = None
        #: When the newest reading began and when it arrived, in monotonic seconds.
        self._began = self.arrived_at = float("-inf")
        #: Whether it arrived between the previous sync and this one; whether one has arrived in this one.
        self._is_new = self._has_arrived = False
        #: The changes that are added to the work queue when the next reading arrives.
        self._waiting: set[tuple[str | None, StoreChange]] = set()
        #: By replica: what the watch showed last, and its version.
        self._watched: dict[str, tuple[int, ReplicaReport]] = {}
        #: By replica: the version of the policies that it reported last.
        self._policies: dict[str, int | None] = {}
        context.other_replicas.events.listen(self._observe)

    def start_sync(self) -> None:
        """Begin a new sync."""
        self._is_new, self._has_arrived = self._has_arrived, False

    def latest(self, *, since: float = float("-inf")) -> ReplicaReading | None:
        """The newest reading, unless it began before `since`; with each replica that the watch has shown and
        that reading does not know.
        """
        newest = self._newest if self._began >= since else None
        if newest is not None:
            for name, version, report in self._replicas.unread(newest):
                newest = _with_report(newest, name, report, version=version)
        return newest

    def request(self, queue: str | None, change: StoreChange, *, since: float = float("-inf")) -> None:
        """Have the Leases read again, and this change added to the work queue then; without a queue a
        sync begins.

        If a reading that is new enough arrived just before this sync, a later sync requests one, unless the
        watch shows a report before.
        """
        self._waiting.add((queue, change))
        now = self._context.store.clock.monotonic()
        is_recent = since > float("-inf") and now < self.arrived_at + AGAIN_SECONDS
        if self._began >= since and (self._is_new or is_recent):
            return
        self.refresh(since=since)

    def refresh(self, *, since: float = float("-inf")) -> None:
        """Have the Leases read again, unless a young enough reading is under way."""
        now = self._context.store.clock.monotonic()
        newest = max(self._under_way.values(), default=float("-inf"))
        if len(self._under_way) >= AT_ONCE or (newest >= since and now < newest + HEDGE_SECONDS):
            return
        number = next(self._numbers)
        if self._context.submit(
            self._context.lease_readers,
            ("leases", number),
            self._read,
            partial(self._receive, number),
            rank=WriteRank.EVIDENCE,
        ):
            self._under_way[number] = now

    def _read(self) -> tuple[LeaseList | None, int]:
        """In another thread: the Leases, and the version of the pods that were known before."""
        pods = self._context.store.watch_progress.applied(PODS)
        try:
            return self._replicas.list(), pods
        except ClusterError as exc:
            log.info("the Leases of other replicas cannot be read: %s", exc)
            return None, pods

    def _receive(self, number: int, answer: tuple[LeaseList | None, int] | None) -> None:
        began = self._under_way.pop(number)
        leases, pods = answer or (None, 0)
        if leases is None or began <= self._began:
            return
        if leases.version < pods:
            log.error("pods and Leases are kept in different etcds, so no stop can be acknowledged")
            return
        reading = self._replicas.read(leases, began=began)
        self._watched = {name: seen for name, seen in self._watched.items() if name in reading.views}
        for name, (version, report) in self._watched.items():
            if version > leases.version:
                reading = _with_report(reading, name, report, version=version)
        self._newest, self._began, self._has_arrived = reading, began, True
        self._policies = {name: self._policies[name] for name in self._policies.keys() & reading.views.keys()}
        for name, report in reading.views.items():
            self._note_policies(name, report)
        self.arrived_at = self._context.store.clock.monotonic()
        self._received(reading)
        for lease in reading.unmarked:
            self._context.writers.submit(
                ("lease", lease.metadata.name),
                partial(self._replicas.mark_expired, lease),
                rank=WriteRank.UPKEEP,
            )
        for lease in reading.ended:
            self._context.writers.submit(
                ("lease", lease.metadata.name), partial(self._replicas.delete, lease), rank=WriteRank.UPKEEP
            )
        self._add_waiting()

    def _observe(self, lease: Lease | None) -> None:
        """In the reflector's thread: a replica has reported, or one of them is gone."""
        self._context.work_queue.deliver(partial(self._receive_event, lease), batched=True)

    def _receive_event(self, lease: Lease | None) -> None:
        now = self._context.store.clock.monotonic()
        if lease is None:
            if self._waiting:
                self.refresh(since=now)
            return
        reported = self._replicas.report_of(lease)
        if reported is None:
            return
        (name, report), version = reported, lease.metadata.version
        self._watched[name] = version, report
        self._note_policies(name, report)
        if self._newest is None:
            return
        if name not in self._newest.views:
            self.refresh(since=now)
            return
        if version <= self._newest.version:
            return
        self._newest = _with_report(self._newest, name, report, version=version)
        self._add_waiting()

    def _note_policies(self, name: str, report: ReplicaReport) -> None:
        if report.policies is not None and self._policies.get(name) != report.policies:
            self._context.store.refused_members.replica_reported(report.policies)
        self._policies[name] = report.policies

    def _add_waiting(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for queue, change in waiting:
            if queue is None:
                self._context.work_queue.wake()
            else:
                self._context.work_queue.add(queue, change)


def _with_report(
    reading: ReplicaReading, name: str, report: ReplicaReport, *, version: int
) -> ReplicaReading:
    """The reading with what a replica has reported since, at that version."""
    return msgspec.structs.replace(
        reading, views={**reading.views, name: report}, version=max(version, reading.version)
    )
