"""Reads who waits for room in a queue, as the leader has them in line: pods, and the minimums of gangs.

Promises
- Where pods of all namespaces may not be listed, those of one are; where none may be, there is no line.
- What stands in line, and where, is what `queues.world.line` says, as of the leader's own world.
- Where PodGroups may not be listed, their pods stand in line one by one, with their own priorities. Where a
  Job may not be read, a gang of which pods have completed and are gone may be missing. The line says what may
  not be read.
- Pods on nodes, and the Jobs that made them, are read only where something of a gang may stand in line.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

from msgspec.structs import replace

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import Object, annotations_of, value_at
from kubectl_queue.objects.members import labelled_member
from kubectl_queue.why.devices import ObservedDevices
from kubectl_queue.why.gang import ReadJobs, read_jobs, read_strays
from kubectl_queue.why.podgroups import ReadPodGroups, read_podgroups
from kubectl_queue.why.room import is_waiting_for_room
from queues import well_known
from queues.membership import GROUP_ANNOTATION, label_value
from queues.queue import Queue
from queues.quota.pod_classes import WaitingPod
from queues.snapshot import QueueSnapshot
from queues.tree import Tree
from queues.why.gang import JOBS, as_far_as_read
from queues.why.room import ObservedLine
from queues.world.line import WaitingLine, line_of
from queues.world.listed import ListedWorld, UnreadDevices
from queues.world.members import Member
from queues.world.pod_rules import PodRules
from queues.world.podgroups import PodGroupKey

_ON_NO_NODE, _ON_A_NODE = "spec.nodeName=", "spec.nodeName!="


class ReadClaimants(NamedTuple):
    """For whom the leader asks others to go: pods, and minimums of gangs; for none without a gate of ours.
    `names`: of pods and PodGroups, by UID. `lacks_jobs`: gangs may be missing, since Jobs may not be read.
    """

    pods: Sequence[WaitingPod]
    names: Mapping[str, str]
    lacks_jobs: bool = False


def read_line(
    client: ApiClient,
    queue: str,
    *,
    namespace: str,
    tree: Tree,
    devices: ObservedDevices | None = None,
    told: Container[PodGroupKey] = frozenset(),
) -> ObservedLine | None:
    """Those that wait for room in the queue; None where no pods may be listed. `told`: as in
    `queues.world.line`.
    """
    for place in ("", namespace):
        with suppress(ForbiddenError):
            pods = _list_pods(client, queue, _ON_NO_NODE, namespace=place)
            read = read_podgroups(client, namespace=place)
            members = _members(pods, queue)
            others = partial(_list_pods, client, queue, _ON_A_NODE, namespace=place)
            everywhere = _with_others(members, queue, read, others)
            snapshot = QueueSnapshot(_with_quota(tree, queue), now=client.now)
            jobs = _jobs(client, everywhere, read, namespace=place)
            world = _world(client, snapshot, everywhere, read, jobs, devices=devices)
            line = _line(client, world, queue, told=told)
            unsure = _unsure(line, everywhere, jobs)
            taken = {claim for each in members if each.uses_quota for claim in each.claims if not claim.owner}
            waiting = filter(is_waiting_for_room, members)
            return ObservedLine(
                pods=[*line.first, *line.others],
                first=frozenset(each.uid for each in line.first),
                reasons={**line.reasons, **{uid: as_far_as_read(line.reasons[uid]) for uid in unsure}},
                names=_names(members, queue, read),
                groups={each.uid: f"{each.namespace}/{each.podgroup}" for each in waiting if each.podgroup},
                whole=not place,
                taken=frozenset(taken | devices.in_use) if devices is not None else frozenset(),
                unread=", ".join(filter(None, (read.unread, JOBS if unsure else ""))),
            )
    return None


def read_claimants(
    client: ApiClient,
    pods: Sequence[Object],
    queue: str,
    read: ReadPodGroups,
    *,
    tree: Tree,
    now: datetime,
    others: Callable[[], Iterable[Object]],
) -> ReadClaimants:
    """`pods`: of the queue, in all namespaces; `others`: lists those that are not among them."""
    members = _members(pods, queue)
    everywhere = _with_others(members, queue, read, others)
    jobs = _jobs(client, everywhere, read)
    world = _world(client, QueueSnapshot(_with_quota(tree, queue), now=now), everywhere, read, jobs)
    line = _line(client, world, queue)
    return ReadClaimants(
        line.others, _names(members, queue, read), lacks_jobs=bool(_unsure(line, everywhere, jobs))
    )


def _jobs(
    client: ApiClient, members: Sequence[Member], read: ReadPodGroups, *, namespace: str = ""
) -> ReadJobs:
    """None where PodGroups may not be listed: all pods go one by one."""
    return ReadJobs() if read.listed.is_unread else read_jobs(client, members, namespace=namespace)


def _unsure(line: WaitingLine, members: Iterable[Member], jobs: ReadJobs) -> Sequence[str]:
    """The UIDs of pods whose gang lacks pods, where a Job may not be read that made some."""
    made = (each for each in members if each.owner_uid in jobs.unread)
    groups = {PodGroupKey(each.namespace, each.podgroup) for each in made}
    return [uid for key in line.short.keys() & groups for uid in line.short[key]]


def _world(
    client: ApiClient,
    snapshot: QueueSnapshot,
    members: Sequence[Member],
    read: ReadPodGroups,
    jobs: ReadJobs,
    *,
    devices: ObservedDevices | None = None,
) -> ListedWorld:
    """With the Jobs of gangs, and the labels of namespaces where a queue selects by them."""
    return ListedWorld(
        snapshot,
        members=members,
        podgroups=read.listed,
        devices=devices,
        workloads=jobs.workloads,
        labels_of=ObjectReader(client).labels_of_namespace,
    )


def _line(
    client: ApiClient, world: ListedWorld, queue: str, *, told: Container[PodGroupKey] = frozenset()
) -> WaitingLine:
    return line_of(world, queue, _rules(world), strays_of=partial(_read_strays, client, queue), told=told)


def _read_strays(client: ApiClient, queue: str, key: PodGroupKey) -> Sequence[Member]:
    """None where they may not be listed."""
    with suppress(ForbiddenError):
        return read_strays(client, key, queue)
    return ()


def _rules(world: ListedWorld) -> PodRules:
    counts_devices = not isinstance(world.device_claims, UnreadDevices)
    return PodRules(world, counts_devices=lambda _queue: counts_devices)


def _with_others(
    members: Sequence[Member], queue: str, read: ReadPodGroups, others: Callable[[], Iterable[Object]]
) -> Sequence[Member]:
    """With those that decide what of a gang stands in line, where something may."""
    names_group = any(each.podgroup for each in members if each.waiting)
    if read.listed.is_unread or not (names_group or any(read.listed.in_queue(queue))):
        return members
    return [*members, *_members(others(), queue)]


def _names(members: Iterable[Member], queue: str, read: ReadPodGroups) -> dict[str, str]:
    groups = (read.groups or {}).items()
    return {
        **{each.uid: f"{each.namespace}/{each.name}" for each in members if each.waiting},
        **{group.gang.uid: f"PodGroup {key}" for key, group in groups if group.gang.queue == queue},
    }


def _with_quota(tree: Tree, queue: str) -> Tree:
    """It is only asked who waits for room in it: where no capability was read, one that was not read bounds
    it.
    """
    if queue in tree and any(each.capability is not None for each in tree.chain(queue).queues):
        return tree
    known = tree.queues[queue] if queue in tree else Queue(name=queue)
    return Tree({**tree.queues, queue: replace(known, capability=())})


def _members(pods: Iterable[Object], queue: str) -> list[Member]:
    return [member for pod in pods if (member := labelled_member(pod, queue=queue)) is not None]


def group_of(pod: Object) -> str:
    """The PodGroup that it names, NAMESPACE/NAME; "" for none."""
    name = annotations_of(pod).get(GROUP_ANNOTATION)
    return f"{value_at(pod, 'metadata.namespace')}/{name}" if name else ""


def _list_pods(client: ApiClient, queue: str, nodes: str, *, namespace: str) -> Sequence[Object]:
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    query = {"labelSelector": f"{well_known.QUEUE}={label_value(queue)}", "fieldSelector": nodes}
    return client.list(f"/api/v1{place}/pods", query=query, kind="pods").items
