"""Reads who waits for room in a queue, as the leader has them in line: pods, and the minimums of gangs.

Promises
- Where pods of all namespaces may not be listed, those of one are; where none may be, there is no line.
- What of a gang stands in line, and where, is what `queues.why.gang.in_line` says of its PodGroup and its
  pods. Of a PodGroup that does not exist nothing does.
- Where PodGroups may not be listed, their pods stand in line one by one, with their own priorities. The line
  says what may not be listed.
- Pods on nodes are listed only where something of a gang may stand in line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import Object, annotations_of, name_of, value_at
from kubectl_queue.why.devices import ObservedDevices
from kubectl_queue.why.gang import gang_pod
from kubectl_queue.why.podgroups import ReadPodGroups, read_podgroups
from kubectl_queue.why.room import claims_of, has_left_its_room, waiting_pod, waits_for_room
from queues import well_known
from queues.membership import GROUP_ANNOTATION, label_value
from queues.quota.gangs import GangPod
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import limits_of, never_lack
from queues.tree import Tree
from queues.why.gang import in_line, may_ask_before
from queues.why.room import ObservedLine

_ON_NO_NODE, _ON_A_NODE = "spec.nodeName=", "spec.nodeName!="


def read_line(
    client: ApiClient, queue: str, *, namespace: str, tree: Tree, devices: ObservedDevices | None = None
) -> ObservedLine | None:
    """Those that wait for room in the queue; None where no pods may be listed."""
    for place in ("", namespace):
        with suppress(ForbiddenError):
            pods = _list_pods(client, queue, _ON_NO_NODE, namespace=place)
            read = read_podgroups(client, namespace=place)
            entries, names = stand_in_line(
                pods,
                queue,
                read,
                tree=tree,
                devices=devices,
                others=partial(_list_pods, client, queue, _ON_A_NODE, namespace=place),
            )
            waiting = [pod for pod in pods if waits_for_room(pod)]
            counted = (pod for pod in pods if not (waits_for_room(pod) or has_left_its_room(pod)))
            released = map(claims_of, counted)
            taken = {claim for claims in released for claim in claims if not claim.owner}
            return ObservedLine(
                pods=entries,
                names=names,
                groups={_uid(pod): group for pod in waiting if (group := group_of(pod))},
                whole=not place,
                taken=frozenset(taken | devices.in_use) if devices is not None else frozenset(),
                unread=read.unread,
            )
    return None


def stand_in_line(
    pods: Sequence[Object],
    queue: str,
    read: ReadPodGroups,
    *,
    tree: Tree,
    devices: ObservedDevices | None = None,
    others: Callable[[], Iterable[Object]],
) -> tuple[list[WaitingPod], dict[str, str]]:
    """What stands in line, and the names of pods and PodGroups by UID. `others`: lists the pods of the queue
    that are not among the `pods`.
    """
    waiting = [pod for pod in pods if waits_for_room(pod)]
    names = {_uid(pod): f"{value_at(pod, 'metadata.namespace')}/{name_of(pod)}" for pod in waiting}
    if read.groups is None:
        return [waiting_pod(pod, queue, devices) for pod in waiting], names
    entries, gangs = list[WaitingPod](), set[str]()
    for pod in waiting:
        named = group_of(pod)
        found = read.groups.get(named)
        if not named or (found is not None and found.gang.is_single):
            entries.append(waiting_pod(pod, queue, devices))
        elif found is not None:
            gangs.add(named)
    gangs |= {
        key
        for key, group in read.groups.items()
        if group.gang.queue == queue and may_ask_before(group.gang, phase=group.phase)
    }
    limits = limits_of(tree.chain(queue)) if queue in tree else ()
    members: dict[str, list[GangPod]] = {key: [] for key in sorted(gangs)}
    everywhere = {_uid(pod): pod for pod in (*pods, *others())} if gangs else {}
    for pod in everywhere.values():
        if (of := members.get(group_of(pod))) is not None:
            member = gang_pod(pod, queue, is_bounded=bool(limits), devices=devices)
            of += [member] if member is not None else []
    for key, of in members.items():
        group = read.groups[key]
        names[group.gang.uid] = f"PodGroup {key}"
        entries += in_line(group.gang, of, phase=group.phase, never=partial(never_lack, limits))
    return entries, names


def group_of(pod: Object) -> str:
    """The PodGroup that it names, NAMESPACE/NAME; "" for none."""
    name = annotations_of(pod).get(GROUP_ANNOTATION)
    return f"{value_at(pod, 'metadata.namespace')}/{name}" if name else ""


def _list_pods(client: ApiClient, queue: str, nodes: str, *, namespace: str) -> Sequence[Object]:
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    query = {"labelSelector": f"{well_known.QUEUE}={label_value(queue)}", "fieldSelector": nodes}
    return client.list(f"/api/v1{place}/pods", query=query, kind="pods").items


def _uid(pod: Object) -> str:
    return str(value_at(pod, "metadata.uid"))
