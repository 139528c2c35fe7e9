"""Reads the pods of a PodGroup, as `queues.why.gang` takes them.

Promises
- The state of each pod, and what is asked for of the gang, is what the leader's own rules say of them
  (`queues.world.gang_pods`).
- Pods of other queues are listed only where nothing of it is asked for.
- Where the pods of its namespace may not be listed, there is no report.
- Where a Job that made pods of a gang may not be read, it is not known how many of its pods have completed
  and are gone. That is said of what the gang lacks, since these count (`queues.world.gang_pods`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.errors import ForbiddenError, KindMissingError, NotFoundError
from kubectl_queue.objects.fields import Object, condition_of
from kubectl_queue.objects.members import labelled_member
from kubectl_queue.objects.types import TYPES
from queues import well_known
from queues.membership import label_value
from queues.quota.gangs import Gang, GangPod, NotAsked, PodState, ask, is_started, own_pods
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import limits_of, never_lack
from queues.snapshot import QueueSnapshot
from queues.status.podgroup_conditions import released_until
from queues.tree import Tree
from queues.why.explanation import GangReport
from queues.why.gang import as_far_as_read, gang_report
from queues.workload_kinds import KINDS
from queues.world.gang_pods import gang_pods
from queues.world.listed import ListedPodGroups, ListedWorld
from queues.world.members import Member
from queues.world.pod_rules import PodRules
from queues.world.podgroups import PodGroupKey, gang_of_podgroup
from queues.world.reading import as_podgroup, as_workload
from queues.world.workloads import Workload, read_workload

#: Jobs that are read by name; more than that are listed.
MAX_SINGLE = 5
_JOB = KINDS["jobs"]
_JOBS = next(each for each in TYPES if (each.resource, each.group) == (_JOB.resource, _JOB.group))


class ReadJobs(NamedTuple):
    """The Jobs that made pods of gangs. `unread`: the UIDs of those that may not be read."""

    workloads: Sequence[Workload] = ()
    unread: frozenset[str] = frozenset()


class ReadGroup(NamedTuple):
    """`entry`: what waits for room; None where nothing is asked for."""

    report: GangReport
    entry: WaitingPod | None


def read_group(client: ApiClient, group: Object, queue: str, *, tree: Tree) -> ReadGroup | None:
    """The pods of the PodGroup in its queue; None where they may not be listed."""
    with suppress(ForbiddenError):
        return _GroupReader(client, group, queue, tree).read()
    return None


class _GroupReader:
    def __init__(self, client: ApiClient, group: Object, queue: str, tree: Tree) -> None:
        self._client = client
        self._queue = queue
        self._tree = tree
        self._snapshot = QueueSnapshot(tree, now=client.now)
        self._group = as_podgroup(group)
        self._until = released_until(str(condition_of(group, "Scheduled").get("message") or ""))
        self._gang = msgspec.structs.replace(gang_of_podgroup(self._group), queue=queue)
        #: Whether a Job may not be read that made pods of it.
        self._lacks_jobs = False
        self._limits = limits_of(tree.chain(queue)) if queue in tree else ()

    def read(self) -> ReadGroup:
        """Raises ForbiddenError where its pods may not be listed."""
        members = self._members(f"{well_known.QUEUE}={label_value(self._queue)}", self._queue)
        pods = self._gang_pods(members)
        if _lacks_pods(self._gang, pods):
            # One that has moved meanwhile may be in both lists.
            members = list({each.uid: each for each in (*members, *self._of_other_queues())}.values())
            pods = self._gang_pods(members)
        released = {pod.pod.uid for pod in own_pods(self._gang, pods) if pod.state is PodState.RELEASED}
        report, entry = gang_report(
            self._gang,
            pods,
            phase=self._group.status.phase,
            said=[each.condition for each in members if each.uid in released],
            until=self._until,
            never=partial(never_lack, self._limits),
            is_held=bool(self._limits) or self._queue not in self._tree,
            may_reserve=self._queue not in self._tree or self._snapshot.decision(self._queue).schedules,
        )
        if self._lacks_jobs and report.lacks and not report.never:
            report = msgspec.structs.replace(report, lacks=as_far_as_read(report.lacks))
        return ReadGroup(report, entry)

    def _gang_pods(self, members: Sequence[Member]) -> list[GangPod]:
        jobs = read_jobs(self._client, members, namespace=self._group.metadata.namespace)
        self._lacks_jobs = bool(jobs.unread)
        world = ListedWorld(
            self._snapshot,
            members=members,
            podgroups=ListedPodGroups([self._group]),
            workloads=jobs.workloads,
            labels_of=ObjectReader(self._client).labels_of_namespace,
        )
        rules = PodRules(world, counts_devices=lambda _queue: False)
        return gang_pods(self._gang, members, rules=rules, workloads=world.workloads)

    def _of_other_queues(self) -> list[Member]:
        meta = self._group.metadata
        return read_strays(self._client, PodGroupKey(meta.namespace, meta.name), self._queue)

    def _members(self, selector: str, queue: str) -> list[Member]:
        """Those of this queue that name it."""
        meta = self._group.metadata
        key = PodGroupKey(meta.namespace, meta.name)
        return _members_of(self._client, key, selector, queue=queue, of_group=self._queue)


def read_strays(client: ApiClient, key: PodGroupKey, queue: str) -> list[Member]:
    """The pods that name the PodGroup, but for those that have the label of its queue.

    Raises ForbiddenError.
    """
    selector = f"{well_known.QUEUE},{well_known.QUEUE}!={label_value(queue)}"
    return _members_of(client, key, selector, queue="", of_group=queue)


def _members_of(
    client: ApiClient, key: PodGroupKey, selector: str, *, queue: str, of_group: str
) -> list[Member]:
    """`queue`: of this one; "": of any. `of_group`: the queue of the PodGroup."""

    def queue_of_group(namespace: str, name: str) -> str | None:
        return of_group if (namespace, name) == key else None

    path = f"/api/v1/namespaces/{quote(key.namespace, safe='')}/pods"
    listed = client.list(path, query={"labelSelector": selector}, kind="pods").items
    found = (labelled_member(pod, queue=queue, podgroup=queue_of_group) for pod in listed)
    return [each for each in found if each is not None and each.podgroup == key.name]


def _lacks_pods(gang: Gang, pods: Sequence[GangPod]) -> bool:
    asked = ask(gang, pods, started=is_started(own_pods(gang, pods)))
    return isinstance(asked, NotAsked) and not asked.kind.never


def read_jobs(client: ApiClient, members: Iterable[Member], *, namespace: str = "") -> ReadJobs:
    """`namespace`: of all of these; "": of several."""
    named = {
        each.owner_uid: (each.namespace, each.owner_name)
        for each in members
        if each.podgroup and each.owner_kind == _JOB.kind and each.owner_uid
    }
    unread: set[str] = set()
    items = (
        _single_jobs(client, named, unread) if len(named) <= MAX_SINGLE else _listed_jobs(client, namespace)
    )
    try:
        read = [read_workload(_JOB, as_workload(item), queue="") for item in items]
    except ForbiddenError:  # of the list
        return ReadJobs(unread=frozenset(named))
    return ReadJobs([each for each in read if each.uid in named], frozenset(unread))


def _single_jobs(
    client: ApiClient, named: Mapping[str, tuple[str, str]], unread: set[str]
) -> Iterator[Object]:
    """`unread`: gets the UIDs of those that may not be read."""
    objects = ObjectReader(client)
    for uid, (place, name) in named.items():
        try:
            yield objects.get(_JOBS, name, namespace=place)
        except ForbiddenError:
            unread.add(uid)
        except (NotFoundError, KindMissingError):
            continue


def _listed_jobs(client: ApiClient, namespace: str) -> Iterator[Object]:
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    for page in client.pages(f"{_JOBS.base}{place}/{_JOBS.resource}", query={}, kind=_JOBS.full):
        yield from page.items
