"""What every part of the controller works with, and how a request is submitted and its result received."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import msgspec

from cluster.api.client import Client
from cluster.api.servers import ApiServerEndpoints
from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.cache.workloads import Workload
from cluster.coordination.replicas import OtherReplicas
from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference
from cluster.objects import PodGroup, QueueObject
from cluster.recorder import EventRecorder
from cluster.waiting_writes import WriteKey
from cluster.write_queue import WriteQueue
from cluster.write_ranks import WriteRank
from controller.requests import RequestTables
from controller.workqueue import WorkQueue

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
#: Of Queues and PodGroups.
QUEUE_VERSION = "scheduling.volcano.sh/v1beta1"
#: After so many seconds the members of a queue are synced again if a request for one of them was given up.
RETRY_SECONDS = 1.0

T = TypeVar("T")


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The store to read, the threads that send requests, and the work queue that brings results back.

    The controller's thread sends no request itself: while it waited for an answer, it would do nothing else.
    """

    store: Store
    client: Client
    api_servers: ApiServerEndpoints
    writers: WriteQueue
    #: Statuses of queues, and what their acknowledgements wait for: no other write that hangs delays them.
    status_writers: WriteQueue
    guard_writers: WriteQueue
    drain_writers: WriteQueue
    #: List pods that have no label of ours, with a client of their own: no list delays another request.
    pod_listers: WriteQueue
    list_client: Client
    #: Read the Leases of other replicas, so that no other request delays an acknowledgement.
    lease_readers: WriteQueue
    work_queue: WorkQueue
    #: Of the whole server: evictions in a second, and pods that are evicted and not gone yet.
    drain_rate: float
    drain_in_flight: int
    #: Seconds that a terminating pod counts as in flight at most, where its drain does not say.
    drain_grace_limit: int
    recorder: EventRecorder
    other_replicas: OtherReplicas
    leading: Callable[[], bool]
    #: How often we have taken the lead. If it has changed, another replica may have led in between.
    term: Callable[[], int]
    namespace: str
    metrics: Metrics
    #: How long before a change window begins that is said; nothing: it is not.
    window_soon: timedelta = timedelta()
    #: Whether schedulers call the extender: in all modes but `gate`.
    schedulers_ask: bool = True
    #: What was asked for in this term.
    requests: RequestTables = msgspec.field(default_factory=RequestTables)

    def submit(  # noqa: PLR0913 - those of `WriteQueue.submit`, and the way back
        self,
        writers: WriteQueue,
        key: WriteKey,
        send: Callable[[], T],
        receive: Callable[[T | None], object],
        *,
        rank: WriteRank,
        order: tuple[Any, ...] = (),
        queue: str | None = None,
        subject: ObjectReference | None = None,
        batched: bool = False,
        lane: Hashable = None,
    ) -> bool:
        """Submit a request to `writers`. Returns False if it is not taken (see `WriteQueue.submit`).

        `receive` is called once, on the controller's thread: with what `send` returned, or with None if the
        request was given up. `batched`: that call may wait for others like it. `lane`:
        see `WriteQueue`.
        """
        returned: list[T] = []

        def write() -> None:
            returned.append(send())

        def done(ok: bool) -> None:
            self.work_queue.deliver(partial(receive, returned[-1] if ok else None), batched=batched)

        return writers.submit(
            key, write, rank=rank, order=order, done=done, lane=lane, queue=queue, subject=subject
        )

    def submit_write(
        self,
        key: WriteKey,
        write: Callable[[], bool],
        not_written: Callable[[bool], object],
        *,
        rank: WriteRank,
        order: tuple[Any, ...] = (),
        queue: str | None = None,
        subject: ObjectReference | None = None,
    ) -> bool:
        """Submit a write of which only the failure matters: a thousand that succeed deliver nothing.

        `write` returns whether it wrote anything. If it did not, `not_written` is called on the controller's
        thread, with whether the write was given up.
        """
        written = [False]

        def send() -> None:
            written[0] = write()

        def done(ok: bool) -> None:
            if not (ok and written[0]):
                self.work_queue.deliver(partial(not_written, not ok))

        return self.writers.submit(key, send, rank=rank, order=order, done=done, queue=queue, subject=subject)


def queue_subject(obj: QueueObject) -> ObjectReference:
    return ObjectReference(
        api_version=QUEUE_VERSION, kind="Queue", name=obj.metadata.name, uid=obj.metadata.uid
    )


def pod_subject(member: Member) -> ObjectReference:
    return ObjectReference(
        api_version="v1", kind="Pod", name=member.name, namespace=member.namespace, uid=member.uid
    )


def podgroup_subject(podgroup: PodGroup) -> ObjectReference:
    meta = podgroup.metadata
    return ObjectReference(
        api_version=QUEUE_VERSION,
        kind="PodGroup",
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
    )


def workload_subject(work: Workload) -> ObjectReference:
    return ObjectReference(
        api_version=work.kind.api_version,
        kind=work.kind.kind,
        name=work.name,
        namespace=work.namespace,
        uid=work.uid,
    )


def each_member(
    context: ControllerContext,
    step: str,
    members: Iterable[Member],
    work: Callable[[Member], object],
    *,
    queue: str,
) -> None:
    """Do the work for each member. A member that fails does not stop the others: it backs off, and its queue
    is synced again.
    """
    context.store.backoff.attempt_each(
        step,
        members,
        work,
        key=lambda member: member.key,
        version=lambda member: member.version,
        queue=queue,
        subject=pod_subject,
    )


def pod_path(member: Member) -> str:
    return f"/api/v1/namespaces/{member.namespace}/pods/{member.name}"
