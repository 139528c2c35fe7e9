"""The controller's surroundings where other replicas hold Leases: a test says what they say, and when which
request is answered."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from cluster.coordination.lease_events import LeaseEvents
from cluster.coordination.leases import LEASES, Lease, LeaseList, Leases, LeaseSpec
from cluster.coordination.replica_lease import ENDED_ANNOTATION, EXPIRED_ANNOTATION, PREFIX, SEEN_ANNOTATION
from cluster.coordination.replica_report import ReplicaReport
from cluster.coordination.replicas import OtherReplicas
from cluster.exceptions import Unreachable
from cluster.metrics import Metrics
from cluster.objects import ListMeta, Metadata
from cluster.waiting_writes import PendingWrite
from cluster.write_queue import WriteQueue
from controller.workqueue import ChangesByPart, WorkQueue
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
        return len(self.in_order())

    def answer(self, number: int = 0) -> None:
        """Send one of those that wait, by the order in which they were asked for, and take its answer."""
        entry = self.in_order()[number]
        self._waiting.begin(entry)
        self._carry_out(entry)

    def in_order(self) -> list[PendingWrite]:
        """Those that wait, as they would be sent."""
        return sorted(self._waiting._waiting.values())


class Surroundings:
    """`reports`: what each other replica's Lease says; a Lease changes with what it says.

    `expired`: the replicas whose Lease is marked so. `uids`: of their Leases. `strangers`: Leases of others.
    `version`: the version of the list of Leases. `pods`: up
    to which version the pods are known here. `reachable`: whether the Leases can be read.
    """

    def __init__(self) -> None:
        self.server = Server()
        self.clock = self.server.clock
        self.reports: dict[str, ReplicaReport] = {}
        self.expired: set[str] = set()
        self.uids: dict[str, str] = {}
        self.strangers: list[Lease] = []
        self.version = self.pods = 100
        self.reachable = True
        self.deleted: list[str] = []
        self.readers, self.writers = ByHand(), ByHand()
        self.work_queue = WorkQueue(self.clock.monotonic)
        #: Up to which version the watch has shown the Leases.
        self.watched = 1_000_000
        attach = self.server.store.watch_progress.attach
        attach("pods", cast(Any, _Watched(lambda: self.pods)))
        attach(LEASES, cast(Any, _Watched(lambda: self.watched)))
        events = LeaseEvents(clock=self.clock.monotonic)
        events.certain_at, events.gaps = self.clock.monotonic(), 1
        leases = cast(Leases, SimpleNamespace(list=self._list, annotate=self._annotate, delete=self._delete))
        self.context = context_with(
            store=self.server.store,
            other_replicas=OtherReplicas(
                leases,
                identity="self",
                clock=self.clock.monotonic,
                events=events,
            ),
            lease_readers=self.readers,
            writers=self.writers,
            status_writers=self.writers,
            guard_writers=self.writers,
            work_queue=self.work_queue,
        )

    def changes(self) -> ChangesByPart:
        """What the controller looks at next; results that have come are received."""
        return self.work_queue.get([0.0], at_once=True)

    def ends(self, name: str) -> None:
        """The replica ends in order, and the watch shows that."""
        said = self.reports.pop(name)
        self.context.other_replicas.events.upsert(lease(name, said))
        self.context.other_replicas.events.remove(lease(name, said, ended=True))

    def _list(self) -> LeaseList:
        if not self.reachable:
            raise Unreachable("as ordered")
        items = [
            lease(name, report, expired=name in self.expired, uid=self.uids.get(name, ""))
            for name, report in self.reports.items()
        ]
        metadata = ListMeta(resource_version=str(self.version))
        return LeaseList(metadata=metadata, items=[*items, *self.strangers])

    def _annotate(self, lease: Lease, annotations: dict[str, str]) -> None:
        assert annotations == {EXPIRED_ANNOTATION: RENEWED_AT}
        self.expired.add(lease.metadata.name.removeprefix(PREFIX))

    def _delete(self, name: str, *, version: str) -> None:
        self.deleted.append(name)


class _Watched:
    """The reflector of a kind."""

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version

    @property
    def applied(self) -> int:
        return self._version()


def lease(
    name: str,
    report: ReplicaReport,
    *,
    version: int = 0,
    expired: bool = False,
    ended: bool = False,
    renewed_at: str = RENEWED_AT,
    uid: str = "",
) -> Lease:
    """`version`: 0 for one that follows from the report. `expired`, `ended`: it was marked so, after
    `RENEWED_AT`.
    """
    said = msgspec.json.encode(report).decode()
    mark = {EXPIRED_ANNOTATION: RENEWED_AT} if expired else {}
    mark |= {ENDED_ANNOTATION: RENEWED_AT} if ended else {}
    return Lease(
        metadata=Metadata(
            name=f"{PREFIX}{name}",
            uid=uid,
            resource_version=str(version or hash((said, expired))),
            annotations={SEEN_ANNOTATION: said, **mark},
        ),
        spec=LeaseSpec(lease_duration_seconds=6, renew_time=renewed_at),
    )
