"""Reads what says why a pod, or the minimum of a PodGroup, has no room in a quota (`queues.why.room`).

Promises
- Where the queue may not be read, the pod says why it has no room, and its place is that among the pods that
  may be listed. The same holds where a queue above may not be read, and no queue that was read lacks room.
- What keeps a pod out of the line is what the rules say, also before the pod says it. What a leader alone
  remembers (that its gang gives back) is taken from the pod.
- All queues say who holds what lacks. Where they may not be listed, the chain says what lacks.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from kubectl_queue.access.client import ApiClient, Queues
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.explained import observed_queues
from kubectl_queue.objects.fields import Object, annotations_of, condition_of, name_of, value_at
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.why.devices import ObservedDevices, read_devices
from kubectl_queue.why.line import read_line
from kubectl_queue.why.podgroups import PODGROUPS
from kubectl_queue.why.room import hindering_claims, waiting_pod
from queues.causes import StartReason
from queues.membership import GROUP_ANNOTATION
from queues.messages import quoted_gang, quoted_kept, quoted_lack, quoted_reason, quoted_together
from queues.quota.lack import LackKind
from queues.quota.pod_classes import WaitingPod
from queues.tree import Tree
from queues.why.explanation import ObservedQueues, Room
from queues.why.room import (
    ObservedLine,
    limits_devices,
    of_waiting_gang,
    room_of,
    unread_room,
    with_claimants,
    with_gang,
)
from queues.world.podgroups import PodGroupKey


class RoomReader:
    """For one command."""

    def __init__(self, client: ApiClient, api: Queues) -> None:
        self._client = client
        self._api = api

    def room(self, pod: Object, queue: str, chain: ObservedQueues) -> Room:
        """Why the pod has no room."""
        message = _said_by(pod)
        # Pods say so a little later than their queue.
        releases_nothing = queue in chain.tree and chain.record(queue).releases_nothing
        if not releases_nothing and (gang := quoted_gang(message, queue=queue)):
            return of_waiting_gang(gang)
        queues = self._all_queues(chain)
        namespace = str(value_at(pod, "metadata.namespace") or "")
        devices = read_devices(self._client, namespace) if limits_devices(queue, chain.tree) else None
        line = read_line(
            self._client,
            queue,
            namespace=namespace,
            tree=chain.tree,
            devices=devices,
            told={PodGroupKey(namespace, annotations_of(pod).get(GROUP_ANNOTATION, ""))},
        )
        if not releases_nothing and (reason := _reason_of(pod, line)):
            return of_waiting_gang(reason)
        asked = _entry_of(pod, queue, line, message=message, devices=devices)
        said = LackKind.BOOK if releases_nothing else quoted_lack(message, queue=queue)
        room = room_of(asked, line=line, queues=queues, devices=devices, said=said)
        if queues.unread and room.has_room:  # in those that were read
            told = unread_room(asked, line=line, message=message, said=said)
            room = replace(told, in_queue=room.in_queue, unread_queue=queues.unread)
        room = with_claimants(room, f"{namespace}/{name_of(pod)}", queue, queues=queues)
        room = replace(room, kept=quoted_kept(message, queue=queue))
        return room if devices is None else replace(room, claims=hindering_claims(pod, devices))

    def unread_room(self, pod: Object, queue: str) -> Room:
        """Why the pod has no room in a queue that may not be read."""
        message = _said_by(pod)
        if gang := quoted_gang(message, queue=queue):
            return of_waiting_gang(gang)
        line = read_line(
            self._client, queue, namespace=str(value_at(pod, "metadata.namespace") or ""), tree=Tree({})
        )
        asked = _entry_of(pod, queue, line, message=message)
        said = quoted_lack(message, queue=queue)
        room = unread_room(asked, line=line, message=message, said=said)
        return replace(room, kept=quoted_kept(message, queue=queue))

    def room_of_entry(self, entry: WaitingPod, group: Object, chain: ObservedQueues) -> Room | None:
        """Why the minimum of a PodGroup has no room; None where a queue that may not be read decides it."""
        queues = self._all_queues(chain)
        namespace = str(value_at(group, "metadata.namespace") or "")
        line = read_line(self._client, entry.queue, namespace=namespace, tree=chain.tree)
        entry = (line.entry_of(entry.uid) if line is not None else None) or entry
        room = room_of(entry, line=line, queues=queues)
        if queues.unread and room.has_room:
            return None
        return with_claimants(room, f"{namespace}/{name_of(group)}", entry.queue, queues=queues)

    def _all_queues(self, chain: ObservedQueues) -> ObservedQueues:
        """The chain alone, where they may not be listed."""
        with suppress(ForbiddenError):
            return observed_queues(QueueObjects(self._api.list().items, now=self._api.now))
        return chain


def says_no_room(pod: Object, queue: str) -> bool:
    """Whether the pod says that it waits for room in this queue."""
    return quoted_reason(_said_by(pod), queue=queue, podgroup="") is StartReason.NO_ROOM


def _entry_of(
    pod: Object,
    queue: str,
    line: ObservedLine | None,
    *,
    message: str,
    devices: ObservedDevices | None = None,
) -> WaitingPod:
    """What the pod stands in line as. `message`: of its condition."""
    if line is not None and line.unread != PODGROUPS:
        found = line.entry_of(str(value_at(pod, "metadata.uid")))
        if found is not None:
            return found
    together = quoted_together(message, queue=queue)
    return with_gang(waiting_pod(pod, queue, devices), line, together=together)


def _reason_of(pod: Object, line: ObservedLine | None) -> str:
    """Why it is not in line, by the rules; "" where it is, or that is not known."""
    return line.reasons.get(str(value_at(pod, "metadata.uid")), "") if line is not None else ""


def _said_by(pod: Object) -> str:
    return str(condition_of(pod, "PodScheduled").get("message") or "")
