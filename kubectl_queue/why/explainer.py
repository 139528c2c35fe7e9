"""`Explainer`: reads an object, its owners, its queue and the chain of that, and asks `queues.why.explain`.

Promises
- Nothing is read twice by one command, and only what the answer needs.
- Where the queue may not be read, the object or a pod of the workload says what stops it. Where neither does,
  there are the events of the object, which a user with the rights of the namespace may read: those of Sluice;
  where it has none, those of others.
- A queue or an ancestor that is not there is not in the tree: the rules say what that means. An ancestor that
  may not be read counts as Open; where the queue itself may not be read, there is no chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

from msgspec.structs import replace

from kubectl_queue.access.client import ApiClient, Queues
from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.access.queue_reader import read_ancestors, read_chain, read_queues
from kubectl_queue.access.responses import Request
from kubectl_queue.cli.suggestions import with_suggestions
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.explained import (
    object_reference,
    observed_chain,
    observed_queues,
    said_by_server,
    subject,
)
from kubectl_queue.objects.fields import (
    Object,
    condition_of,
    controller_of,
    labels_of,
    name_of,
    value_at,
)
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.objects.types import NAMESPACE, POD, PODGROUP, QUEUE, Type, type_of_owner
from kubectl_queue.views.why import Answer, Event, explain_queue
from kubectl_queue.why.devices import read_devices
from kubectl_queue.why.events import creation_failure, latest_events, read_events
from kubectl_queue.why.gang import read_group
from kubectl_queue.why.line import read_line
from kubectl_queue.why.managed import unmanaged_reason
from kubectl_queue.why.membership import Owners, membership_of, queue_of_namespace
from kubectl_queue.why.podgroups import PODGROUPS
from kubectl_queue.why.room import hindering_claims, waiting_pod, waits_for_room
from kubectl_queue.why.targets import Target
from queues import well_known
from queues.membership import Source
from queues.messages import quoted_gang, quoted_lack, quoted_together
from queues.quota.pod_classes import WaitingPod
from queues.similar_names import similar_names
from queues.why.explain import explain
from queues.why.explanation import (
    ExplainedMembership,
    Explanation,
    ObjectRef,
    ObservedObject,
    ObservedQueues,
    Outcome,
    Room,
)
from queues.why.room import (
    is_bounded,
    limits_devices,
    of_waiting_gang,
    room_of,
    with_claimants,
    with_gang,
)

#: Owners above each other that are followed: a cycle of references ends.
_MAX_OWNERS = 8
#: Pods of a workload that are looked at: the next one that waits says why.
_PODS_READ = 500
#: They have a condition that says why they wait, or make no pods.
_SAY_IT_THEMSELVES = frozenset({POD, PODGROUP, NAMESPACE})


class _Owner(NamedTuple):
    """An owner; `type` is None for a kind that is not known, `item` where it may not be read."""

    reference: ObjectRef
    type: Type | None
    item: Object | None


class Explainer:
    """For one command."""

    def __init__(self, client: ApiClient, api: Queues, *, namespace: str) -> None:
        self._client = client
        self._api = api
        self._objects = ObjectReader(client)
        self._namespace = namespace
        self._read_events: dict[str, Sequence[Object]] = {}

    def explain(self, target: Target) -> Answer:
        """Explain one object. Raises the server's error where it cannot be read."""
        if target.type is QUEUE:
            return self._explain_queue(target.name)
        item = self._objects.get(target.type, target.name, namespace=self._namespace)
        owners = tuple(self._owners(item))
        membership = membership_of(target.type, item, owners=_read_owners(owners), objects=self._objects)
        unmanaged = self._unmanaged(target.type, item, membership)
        membership = None if unmanaged else membership
        queue = membership.queue if membership else None
        queues = self._observed_chain(queue) if queue else None
        explained = subject(
            target.type,
            item,
            owners=tuple(owner.reference for owner in owners),
            labels=self._namespace_labels(target.type, item, queues),
            namespace_queue=self._namespace_queue(item, membership, queues),
            unmanaged=unmanaged,
        )
        explanation = explain(explained, membership, queues=queues)
        if explanation.outcome in {Outcome.FREE, Outcome.UNREAD} and target.type not in _SAY_IT_THEMSELVES:
            explained = self._with_words(item, explained, unread=queue is not None and queues is None)
            explanation = explain(explained, membership, queues=queues)
        says_so = quoted_lack(explained.message, queue=queue or "") is not None
        if queue and queues is not None and (says_so or is_bounded(queue, queues.tree)):
            explained = replace(explained, room=self._room_of(target.type, item, explanation, queues))
            explanation = explain(explained, membership, queues=queues)
        if target.type is PODGROUP and queue and queues is not None:
            explained = self._with_gang(item, explained, queue, queues)
            explanation = explain(explained, membership, queues=queues)
        if queue and queues is not None and queue not in queues.tree:
            explained = replace(explained, similar=self._similar_queues(queue))
            explanation = explain(explained, membership, queues=queues)
        drains = queue and queues is not None and queues.verdict(queue).drains
        return Answer(
            explanation,
            draining=self._draining(str(queue))[:1] if drains else (),
            events=self._events(item, explanation) if explanation.outcome is Outcome.UNREAD else (),
        )

    def _with_words(self, item: Object, explained: ObservedObject, *, unread: bool) -> ObservedObject:
        """A workload with what a pod of it says, where its queue may not be read; and with why its latest pod
        was not created, which only some kinds say themselves.
        """
        if unread:
            said = (said_by_server(POD, pod) for pod in self._pods_of(item))
            explained = replace(explained, said=next(filter(None, said), ""))
        if explained.said or explained.failure:
            return explained
        return replace(explained, failure=creation_failure(self._event_items(item)))

    def _pods_of(self, item: Object) -> Sequence[Object]:
        """The first pods of a workload; none where it does not say which, or they may not be listed."""
        labels = value_at(item, "spec.selector.matchLabels")
        if not isinstance(labels, dict) or not labels:
            return ()
        namespace = quote(str(value_at(item, "metadata.namespace") or ""), safe="")
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        query = {"labelSelector": selector, "limit": str(_PODS_READ)}
        request = Request(method="GET", path=f"/api/v1/namespaces/{namespace}/pods", query=query)
        try:
            pods: Sequence[Object] = self._client.send(request, kind="pods").get("items") or ()
        except ForbiddenError:
            return ()
        return pods

    def _room_of(
        self, kind: Type, item: Object, explanation: Explanation, queues: ObservedQueues
    ) -> Room | None:
        """Why a pod has no room in a quota, or the next one of a workload; None where none waits for that."""
        queue = (explanation.membership and explanation.membership.queue) or ""
        if kind is POD:
            is_held = explanation.outcome is Outcome.WAITS_FOR_OTHER and waits_for_room(item)
            return self._room(item, queue, queues) if is_held else None
        if explanation.outcome is not Outcome.FREE or kind in _SAY_IT_THEMSELVES:
            return None
        pods = [pod for pod in self._pods_of(item) if waits_for_room(pod)]
        if not pods:
            return None
        first = min(pods, key=lambda pod: waiting_pod(pod, queue).rank)
        return replace(self._room(first, queue, queues), pod=name_of(first), pods=len(pods))

    def _room(self, pod: Object, queue: str, chain: ObservedQueues) -> Room:
        """All queues say who holds what lacks; where they may not be listed, the chain says what lacks."""
        message = str(condition_of(pod, "PodScheduled").get("message") or "")
        if gang := quoted_gang(message, queue=queue):
            return of_waiting_gang(gang)
        queues = chain
        with suppress(ForbiddenError):
            queues = observed_queues(QueueObjects(self._api.list().items, now=self._api.now))
        namespace = str(value_at(pod, "metadata.namespace") or "")
        devices = read_devices(self._client, namespace) if limits_devices(queue, chain.tree) else None
        line = read_line(self._client, queue, namespace=namespace, tree=chain.tree, devices=devices)
        together = quoted_together(message, queue=queue)
        asked = None
        if line is not None and line.unread != PODGROUPS:
            asked = line.entry_of(str(value_at(pod, "metadata.uid")))
        if asked is None:
            asked = with_gang(waiting_pod(pod, queue, devices), line, together=together)
        said = quoted_lack(message, queue=queue)
        room = room_of(asked, line=line, queues=queues, devices=devices, said=said)
        room = with_claimants(room, f"{namespace}/{name_of(pod)}", queue, queues=queues)
        return room if devices is None else replace(room, claims=hindering_claims(pod, devices))

    def _room_of_entry(self, entry: WaitingPod, group: Object, chain: ObservedQueues) -> Room:
        """Why the minimum of a PodGroup has no room."""
        queues = chain
        with suppress(ForbiddenError):
            queues = observed_queues(QueueObjects(self._api.list().items, now=self._api.now))
        namespace = str(value_at(group, "metadata.namespace") or "")
        line = read_line(self._client, entry.queue, namespace=namespace, tree=chain.tree)
        entry = (line.entry_of(entry.uid) if line is not None else None) or entry
        room = room_of(entry, line=line, queues=queues)
        return with_claimants(room, f"{namespace}/{name_of(group)}", entry.queue, queues=queues)

    def _with_gang(
        self, item: Object, explained: ObservedObject, queue: str, chain: ObservedQueues
    ) -> ObservedObject:
        """A PodGroup with how its pods stand, and why its minimum has no room; as it was where its pods may
        not be listed.
        """
        group = read_group(self._client, item, queue, tree=chain.tree)
        if group is None:
            return explained
        room = None
        if group.entry is not None and is_bounded(queue, chain.tree):
            room = self._room_of_entry(group.entry, item, chain)
        return replace(explained, gang=group.report, room=room)

    def _similar_queues(self, queue: str) -> tuple[str, ...]:
        """None where queues may not be listed."""
        with suppress(ForbiddenError):
            return similar_names(queue, map(name_of, self._api.list().items))
        return ()

    def _unmanaged(self, kind: Type, item: Object, membership: ExplainedMembership | None) -> str:
        """Why it is in no queue, whatever it names; "" where its namespace is managed, and for a member that
        stays one.
        """
        stays = kind in {POD, PODGROUP} and well_known.QUEUE in labels_of(item)
        return "" if membership is None or stays else unmanaged_reason(kind, item, self._objects)

    def _observed_chain(self, queue: str) -> ObservedQueues | None:
        """None where the queue may not be read."""
        with suppress(ForbiddenError):
            return observed_chain(queue, read_chain(self._api, queue))
        return None

    def _explain_queue(self, name: str) -> Answer:
        with with_suggestions(self._api, name):
            item = self._api.get(name)
        owners = tuple(owner.reference for owner in self._owners(item))
        answer = explain_queue(name, read_ancestors(self._api, item), owners=owners)
        return replace(answer, draining=self._draining(name)) if answer.draining else answer

    def _owners(self, item: Object) -> Iterator[_Owner]:
        """The owners above each other, nearest first."""
        namespace = str(value_at(item, "metadata.namespace") or "")
        for _ in range(_MAX_OWNERS):
            reference = controller_of(item)
            if not reference:
                return
            kind = type_of_owner(str(reference.get("kind")), str(reference.get("apiVersion")))
            name = str(reference.get("name"))
            owner = self._objects.find(kind, name, namespace=namespace) if kind else None
            if owner is not None and value_at(owner, "metadata.uid") != reference.get("uid"):
                owner = None  # a later object of the same name
            if kind is None or owner is None:
                yield _Owner(ObjectRef(str(reference.get("kind")), name, namespace), kind, None)
                return
            yield _Owner(object_reference(kind, owner), kind, owner)
            item = owner

    def _namespace_labels(
        self, kind: Type, item: Object, queues: ObservedQueues | None
    ) -> Mapping[str, str] | None:
        """The labels of the object's namespace, read where a queue of its chain has a selector."""
        if kind is NAMESPACE:
            return labels_of(item)
        name = str(value_at(item, "metadata.namespace") or "")
        needed = queues is not None and any(queue.namespace_selector for queue in queues.tree.queues.values())
        namespace = self._objects.find(NAMESPACE, name, namespace="") if name and needed else None
        return labels_of(namespace) if namespace is not None else None

    def _namespace_queue(
        self, item: Object, membership: ExplainedMembership | None, queues: ObservedQueues | None
    ) -> str:
        """The queue that the namespace names now; read where it named the queue of work that is stopped."""
        queue = membership.queue if membership and membership.origin == Source.NAMESPACE.value else None
        stopped = queue and queues is not None and queues.verdict(queue).stop is not None
        return queue_of_namespace(item, self._objects) if stopped else ""

    def _events(self, item: Object, explanation: Explanation) -> Sequence[Event]:
        """Those that say more than the explanation, which has the pod's own condition."""
        notes = "\n".join(explanation.notes)
        return [event for event in latest_events(self._event_items(item)) if event.message not in notes]

    def _event_items(self, item: Object) -> Sequence[Object]:
        uid = str(value_at(item, "metadata.uid"))
        if uid not in self._read_events:
            self._read_events[uid] = read_events(self._client, item)
        return self._read_events[uid]

    def _draining(self, queue: str) -> Sequence[Object]:
        """The queue first, then those below it."""
        queues = read_queues(self._api, [queue])
        return queues.from_top(queue) if queue in queues.items else ()


def _read_owners(owners: Sequence[_Owner]) -> Owners:
    return tuple((owner.type, owner.item) for owner in owners if owner.type and owner.item is not None)
