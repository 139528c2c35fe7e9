"""The controller's surroundings where other replicas hold Leases: a test says what they say, and when which
request is answered."""

from __future__ import annotations

import heapq
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from cluster.coordination.leases import Lease, LeaseList, Leases, LeaseSpec
from cluster.coordination.replica_report import ReplicaReport
from cluster.coordination.replicas import (
    EXPIRED_ANNOTATION,
    PREFIX,
    SEEN_ANNOTATION,
    LeaseEvents,
    OtherReplicas,
)
from cluster.exceptions import Unreachable
from cluster.metrics import Metrics
from cluster.objects import ListMeta, Metadata
from cluster.write_queue import WriteQueue
from controller.workqueue import Changes, WorkQueue
from tests.support.controller.contexts import context_with
from tests.support.http.asking import Server

#: The last renewal of each Lease, which never is renewed again.
RENEWED_AT = "2026-11-23T09:00:00.000001Z"


class ByHand(WriteQueue):
    """Threads that send a request when the test says so."""

    def __init__(self) -> None:
        super().__init__(metrics=Metrics())

    def __len__(self) -> int:
        """How many wait to be sent."""
        return len(self._heap)

    def answer(self, number: int = 0) -> None:
        """Send one of those that wait, by the order in which they were asked for, and take its answer."""
        entry = sorted(self._heap)[number]
        self._heap.remove(entry)
        heapq.heapify(self._heap)
        self._carry_out(entry)


class Surroundings:
    """`reports`: what each other replica's Lease says; a Lease changes with what it says.

    `expired`: the replicas whose Lease is marked so. `version`: the version of the list of Leases. `pods`: up
    to which version the pods are known here. `reachable`: whether the Leases can be read.
    """

    def __init__(self) -> None:
        self.server = Server()
        self.clock = self.server.clock
        self.reports: dict[str, ReplicaReport] = {}
        self.expired: set[str] = set()
        self.version = self.pods = 100
        self.reachable = True
        self.deleted: list[str] = []
        self.readers, self.writers = ByHand(), ByHand()
        self.work_queue = WorkQueue(self.clock.monotonic)
        self.server.store.watch_progress.attach("pods", cast(Any, _Pods(self)))
        leases = cast(Leases, SimpleNamespace(list=self._list, annotate=self._annotate, delete=self._delete))
        self.context = context_with(
            store=self.server.store,
            other_replicas=OtherReplicas(
                leases,
                identity="self",
                clock=self.clock.monotonic,
                events=LeaseEvents(clock=self.clock.monotonic),
            ),
            lease_readers=self.readers,
            writers=self.writers,
            status_writers=self.writers,
            guard_writers=self.writers,
            work_queue=self.work_queue,
        )

    def changes(self) -> Changes:
        """What the controller looks at next; results that have come are received."""
        return self.work_queue.get([0.0], at_once=True)

    def _list(self, *, label: str) -> LeaseList:
        if not self.reachable:
            raise Unreachable("as ordered")
        items = [lease(name, report, expired=name in self.expired) for name, report in self.reports.items()]
        return LeaseList(metadata=ListMeta(resource_version=str(self.version)), items=items)

    def _annotate(self, lease: Lease, annotations: dict[str, str]) -> None:
        assert annotations == {EXPIRED_ANNOTATION: RENEWED_AT}
        self.expired.add(lease.metadata.name.removeprefix(PREFIX))

    def _delete(self, name: str, *, version: str) -> None:
        self.deleted.append(name)


class _Pods:
    """The reflector of the pods."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings

    @property
    def applied(self) -> int:
        return self._surroundings.pods


def lease(
    name: str,
    report: ReplicaReport,
    *,
    version: int = 0,
    expired: bool = False,
    renewed_at: str = RENEWED_AT,
) -> Lease:
    """`version`: 0 for one that follows from the report. `expired`: it was marked, after `RENEWED_AT`."""
    said = msgspec.json.encode(report).decode()
    mark = {EXPIRED_ANNOTATION: RENEWED_AT} if expired else {}
    return Lease(
        metadata=Metadata(
            name=f"{PREFIX}{name}",
            resource_version=str(version or hash((said, expired))),
            annotations={SEEN_ANNOTATION: said, **mark},
        ),
        spec=LeaseSpec(lease_duration_seconds=6, renew_time=renewed_at),
    )
