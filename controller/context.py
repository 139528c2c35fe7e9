"""What every part of the controller works with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from cluster.api.client import Client
from cluster.api.servers import ApiServers
from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.cache.workloads import Workload
from cluster.coordination.replicas import Others
from cluster.metrics import Counting
from cluster.object_reference import Subject
from cluster.objects import QueueObject
from cluster.recorder import Recorder
from cluster.write_queue import Writers

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
QUEUE_VERSION = "scheduling.volcano.sh/v1beta1"


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The store to read, the client and the writers to write, the recorder to tell."""

    store: Store
    client: Client
    api_servers: ApiServers
    writers: Writers
    guard_writers: Writers
    drain_writers: Writers
    #: Evictions a second, and pods that are evicted and not gone yet, of the whole server.
    drain_rate: float
    drain_in_flight: int
    #: Seconds that a terminating pod counts as in flight at most, where its drain does not say.
    drain_grace_limit: int
    recorder: Recorder
    others: Others
    leading: Callable[[], bool]
    #: How many times we have taken the lead: somebody else may have led in between.
    term: Callable[[], int]
    namespace: str
    counting: Counting


def queue_subject(obj: QueueObject) -> Subject:
    return Subject(api_version=QUEUE_VERSION, kind="Queue", name=obj.metadata.name, uid=obj.metadata.uid)


def pod_subject(member: Member) -> Subject:
    return Subject(api_version="v1", kind="Pod", name=member.name, namespace=member.namespace, uid=member.uid)


def workload_subject(work: Workload) -> Subject:
    return Subject(
        api_version=work.kind.api_version,
        kind=work.kind.kind,
        name=work.name,
        namespace=work.namespace,
        uid=work.uid,
    )


def each_member(
    parts: Parts, step: str, members: Iterable[Member], work: Callable[[Member], object], *, queue: str
) -> None:
    """Do it for each, one failing or not; the queue is looked at again for those that do."""
    parts.store.isolation.each(
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
