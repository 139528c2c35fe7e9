"""What every part of the controller works with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from cluster.api.client import Client
from cluster.api.servers import ApiServerEndpoints
from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.cache.workloads import Workload
from cluster.coordination.replicas import OtherReplicas
from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference
from cluster.objects import QueueObject
from cluster.recorder import EventRecorder
from cluster.write_queue import WriteQueue

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
QUEUE_VERSION = "scheduling.volcano.sh/v1beta1"


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The store to read, the client and the writers to write, the recorder to tell."""

    store: Store
    client: Client
    api_servers: ApiServerEndpoints
    writers: WriteQueue
    guard_writers: WriteQueue
    drain_writers: WriteQueue
    #: Evictions a second, and pods that are evicted and not gone yet, of the whole server.
    drain_rate: float
    drain_in_flight: int
    #: Seconds that a terminating pod counts as in flight at most, where its drain does not say.
    drain_grace_limit: int
    recorder: EventRecorder
    others: OtherReplicas
    leading: Callable[[], bool]
    #: How many times we have taken the lead: somebody else may have led in between.
    term: Callable[[], int]
    namespace: str
    counting: Metrics


def queue_subject(obj: QueueObject) -> ObjectReference:
    return ObjectReference(
        api_version=QUEUE_VERSION, kind="Queue", name=obj.metadata.name, uid=obj.metadata.uid
    )


def pod_subject(member: Member) -> ObjectReference:
    return ObjectReference(
        api_version="v1", kind="Pod", name=member.name, namespace=member.namespace, uid=member.uid
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
    """Do it for each, one failing or not; the queue is looked at again for those that do."""
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
