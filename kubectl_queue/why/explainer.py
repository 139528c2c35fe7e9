"""`Explainer`: reads an object, its owners, its queue and the chain of that, and asks `queues.why.explain`.

Promises
- Nothing is read twice by one command, and only what the answer needs. A pod alone is read again, with its
  chain, where it has the gate and its queue schedules: it may have been read just before a resume.
- Where the queue may not be read, the object or a pod of the workload says what stops it, or why it has no
  room; its place is that among the pods that may be listed. Where neither does,
  there are the events of the object, which a user with the rights of the namespace may read: those of Sluice;
  where it has none, those of others.
- A queue or an ancestor that is not there is not in the tree: the rules say what that means. Where an
  ancestor may not be read, the status of the queue and the object or its pods say what stops it. Where the
  queue itself may not be read, there is no chain.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec.structs import replace

from kubectl_queue.access.client import ApiClient, Queues
from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.access.queue_reader import read_ancestors, read_chain, read_queues
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.cli.suggestions import similar_kinds, with_suggestions
from kubectl_queue.errors import ForbiddenError, NotFoundError, QueueError
from kubectl_queue.objects.explained import (
    object_reference,
    observed_chain,
    said_by_server,
    subject,
)
from kubectl_queue.objects.fields import (
    Object,
    condition_of,
    controller_of,
    labels_of,
    name_of,
    spec_of,
    value_at,
)
from kubectl_queue.objects.schedulers import names_other_scheduler
from kubectl_queue.objects.types import NAMESPACE, POD, PODGROUP, QUEUE, Type, type_of_owner
from kubectl_queue.views.why import Event, ShownExplanation, explain_queue
from kubectl_queue.why.events import (
    creation_failure,
    last_event_of_gone,
    latest_events,
    latest_evictions,
    read_events,
    says_missing,
)
from kubectl_queue.why.gang import read_group
from kubectl_queue.why.managed import unmanaged_reason
from kubectl_queue.why.membership import Owners, membership_of, queue_of_namespace
from kubectl_queue.why.owned_pods import read_owned_pods
from kubectl_queue.why.replica_sets import lacks_pods, read_replica_sets
from kubectl_queue.why.room import waiting_pod, waits_for_room
from kubectl_queue.why.room_reader import RoomReader, says_no_room
from kubectl_queue.why.targets import OWNER, ExplainedObject, unknown_type
from queues import well_known
from queues.messages import quoted_lack
from queues.similar_names import similar_names
from queues.text import printable, quoted
from queues.untaken import SCHEDULER_NOT_SEEN
from queues.why.explain import explain, of_owner
from queues.why.explanation import (
    ExplainedMembership,
    Explanation,
    Fate,
    ObjectRef,
    ObservedObject,
    ObservedQueues,
    Room,
)
from queues.why.room import (
    is_bounded,
)

#: Owners above each other that are followed: a cycle of references ends.
_MAX_OWNERS = 8
#: Pods of a workload that are looked at: the next one that waits says why.
_PODS_READ = 500
#: How often a pod is read that contradicts its queue, and the seconds between.
_READS, _BETWEEN_SECONDS = 4, 0.3
#: They have a condition that says why they wait, or make no pods.
_SAY_IT_THEMSELVES = frozenset({POD, PODGROUP, NAMESPACE})
#: What has ended, and what is of no queue.
_NEEDS_NO_EVENTS = frozenset({Fate.FINISHED, Fate.NOT_MEMBER})
#: Of a workload: nothing that was read stops it.
_MAY_LACK_ROOM = frozenset({Fate.FREE, Fate.UNREAD})


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
        self._rooms = RoomReader(client, api)
        self._namespace = namespace
        self._read_events: dict[str, Sequence[Object]] = {}
        self._read_pods: dict[str, Sequence[Object]] = {}

    def explain(self, target: ExplainedObject) -> ShownExplanation:
        """Explain one object. Raises the server's error where it cannot be read."""
        if target.type is QUEUE:
            return self._explain_queue(target.name)
        if target.type is OWNER:
            return self._explain_owner(target)
        for reads in range(1, _READS + 1):
            item = self._get(target)
            answer = self._explain_object(target, item)
            if reads == _READS or not _contradicts(item, answer.explanation):
                break
            time.sleep(_BETWEEN_SECONDS)
        return answer

    def _get(self, target: ExplainedObject) -> Object:
        """Raises the server's error; one that it is not there names the namespace."""
        try:
            return self._objects.get(target.type, target.name, namespace=self._namespace)
        except NotFoundError as exc:
            if target.type.namespaced:
                exc.add_note(f" in namespace {quoted(self._namespace)}; for another one give -n")
                self._note_last_event(exc, target)
            raise

    def _note_last_event(self, exc: NotFoundError, target: ExplainedObject) -> None:
        """An object that is gone may have been evicted: its events stay for an hour."""
        with suppress(QueueError):
            last = last_event_of_gone(
                self._client, kind=target.type.kind, name=target.name, namespace=self._namespace
            )
            if last is not None:
                exc.add_note(f"\nIt was there. {last.reason}, {last.at}: {printable(last.message)}")

    def _explain_owner(self, target: ExplainedObject) -> ShownExplanation:
        """An object of a kind that is not known, by its pods: the answer is that of the first that waits."""
        try:
            pods = read_owned_pods(
                self._client, self._find_owner, target.word, target.name, namespace=self._namespace
            )
        except ForbiddenError as exc:
            exc.add_note(similar_kinds(target.word, target.name))
            raise
        if not pods:
            named = f"{target.word}/{target.name}"
            where = f"no pod of namespace {quoted(self._namespace)} is owned by {named}, and "
            raise unknown_type(target.word, target.name, found=where)
        waiting = [pod for pod in pods if not _is_on_its_way(pod)]
        asked = min(waiting or pods, key=name_of)
        answer = self.explain(ExplainedObject(POD, name_of(asked)))
        explanation = of_owner(
            answer.explanation,
            ObjectRef(kind=target.word, name=target.name, namespace=self._namespace),
            pods=sorted(map(name_of, pods)),
            waiting=sorted(map(name_of, waiting)),
        )
        return replace(answer, explanation=explanation)

    def _find_owner(self, reference: Mapping[str, Any], namespace: str) -> Object | None:
        """The owner of a known kind that a reference names; None where it is not there or may not be read."""
        kind = type_of_owner(str(reference.get("kind")), str(reference.get("apiVersion")))
        owner = self._objects.find(kind, str(reference.get("name")), namespace=namespace) if kind else None
        if owner is None or value_at(owner, "metadata.uid") != reference.get("uid"):
            return None  # or a later object of the same name
        return owner

    def _explain_object(self, target: ExplainedObject, item: Object) -> ShownExplanation:
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
        if explanation.outcome in {Fate.FREE, Fate.UNREAD} and target.type not in _SAY_IT_THEMSELVES:
            explained = self._with_words(
                target.type,
                item,
                explained,
                unread=queue is not None and (queues is None or bool(queues.unread)),
            )
            explanation = explain(explained, membership, queues=queues)
        if explanation.outcome is Fate.FREE and target.type not in _SAY_IT_THEMSELVES:
            explained = replace(explained, untaken=self._untaken_of(target.type, item))
            explanation = explain(explained, membership, queues=queues)
        says_so = quoted_lack(explained.message, queue=queue or "") is not None
        if queue and queues is None:
            explained = replace(explained, room=self._unread_room_of(target.type, item, explanation, queue))
            explanation = explain(explained, membership, queues=queues)
        if queue and queues is not None and (says_so or queues.unread or is_bounded(queue, queues.tree)):
            explained = replace(explained, room=self._room_of(target.type, item, explanation, queues))
            explanation = explain(explained, membership, queues=queues)
        if target.type is PODGROUP and queue and queues is not None:
            explained = self._with_gang(item, explained, queue, queues)
            explanation = explain(explained, membership, queues=queues)
        if queue and queues is not None and queue not in queues.tree:
            explained = replace(explained, similar=self._similar_queues(queue))
            explanation = explain(explained, membership, queues=queues)
        if queue and queues is None and explanation.outcome in {Fate.STOPPED, Fate.UNREAD}:
            explained = replace(explained, similar=self._similar_to_missing(item, queue))
            explanation = explain(explained, membership, queues=queues)
        drains = queue and queues is not None and queues.verdict(queue).drains
        return ShownExplanation(
            explanation,
            draining=self._draining(str(queue))[:1] if drains else (),
            events=self._events(target.type, item, explanation),
        )

    def _with_words(
        self, kind: Type, item: Object, explained: ObservedObject, *, unread: bool
    ) -> ObservedObject:
        """A workload with what a pod of it says, where its queue may not be read; and with why its latest pod
        was not created, which only some kinds say themselves.
        """
        if unread:
            said = (said_by_server(POD, pod) for pod in self._pods_of(kind, item))
            explained = replace(explained, said=next(filter(None, said), ""))
        if explained.said or explained.failure:
            return explained
        events = [*self._event_items(item), *self._events_of_replica_sets(kind, item)]
        return replace(explained, failure=creation_failure(events))

    def _events_of_replica_sets(self, kind: Type, item: Object) -> Iterator[Object]:
        """Those of the ReplicaSets of a Deployment that lack pods: they make its pods."""
        if kind.kind != "Deployment":
            return
        with suppress(ForbiddenError):
            yield from (
                event
                for each in read_replica_sets(self._client, item)
                if lacks_pods(each)
                for event in self._event_items(each)
            )

    def _untaken_of(self, kind: Type, item: Object) -> str:
        """What the server has written on a pod of a workload that no scheduler takes; "" where none is so, or
        where the template names Kubernetes' own: no pod is read for that.
        """
        if not names_other_scheduler(item):
            return ""
        for pod in self._pods_of(kind, item):
            said = condition_of(pod, "PodScheduled")
            if said.get("reason") == SCHEDULER_NOT_SEEN:
                return str(said.get("message"))
        return ""

    def _pods_of(self, kind: Type, item: Object) -> Sequence[Object]:
        """The pods of a workload; none where they may not be listed."""
        uid = str(value_at(item, "metadata.uid"))
        if uid not in self._read_pods:
            self._read_pods[uid] = ()
            with suppress(ForbiddenError):
                self._read_pods[uid] = self._list_pods(kind, item)
        return self._read_pods[uid]

    def _list_pods(self, kind: Type, item: Object) -> Sequence[Object]:
        """The first ones that its selector selects; by their owners where it has none, as Jobs of Volcano,
        JobSets and CronJobs. Raises ForbiddenError.
        """
        place = str(value_at(item, "metadata.namespace") or "")
        labels = value_at(item, "spec.selector.matchLabels")
        if not isinstance(labels, dict) or not labels:
            word = f"{kind.kind}.{kind.group}"
            return read_owned_pods(self._client, self._find_owner, word, name_of(item), namespace=place)
        namespace = quote(place, safe="")
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        query = {"labelSelector": selector, "limit": str(_PODS_READ)}
        request = ApiRequest(method="GET", path=f"/api/v1/namespaces/{namespace}/pods", query=query)
        pods: Sequence[Object] = self._client.send(request, kind="pods").get("items") or ()
        return pods

    def _room_of(
        self, kind: Type, item: Object, explanation: Explanation, queues: ObservedQueues
    ) -> Room | None:
        """Why a pod has no room in a quota, or the next one of a workload; None where none waits for that."""
        queue = (explanation.membership and explanation.membership.queue) or ""

        def says_so(pod: Object) -> bool:
            return waits_for_room(pod) and (not queues.unread or says_no_room(pod, queue))

        if kind is POD:
            is_held = explanation.outcome is Fate.WAITS_FOR_OTHER and says_so(item)
            return self._rooms.room(item, queue, queues) if is_held else None
        if explanation.outcome not in _MAY_LACK_ROOM or kind in _SAY_IT_THEMSELVES:
            return None
        pods = [pod for pod in self._pods_of(kind, item) if says_so(pod)]
        if not pods:
            return None
        first = min(pods, key=lambda pod: waiting_pod(pod, queue).rank)
        return replace(self._rooms.room(first, queue, queues), pod=name_of(first), pods=len(pods))

    def _unread_room_of(self, kind: Type, item: Object, explanation: Explanation, queue: str) -> Room | None:
        """The same where the queue may not be read: as the pod says it, or the next one of a workload."""
        if kind is POD:
            is_held = explanation.outcome is Fate.WAITS_FOR_OTHER and waits_for_room(item)
            return self._rooms.unread_room(item, queue) if is_held else None
        if explanation.outcome is not Fate.UNREAD or kind in _SAY_IT_THEMSELVES:
            return None
        pods = [pod for pod in self._pods_of(kind, item) if waits_for_room(pod) and says_no_room(pod, queue)]
        if not pods:
            return None
        first = min(pods, key=lambda pod: waiting_pod(pod, queue).rank)
        return replace(self._rooms.unread_room(first, queue), pod=name_of(first), pods=len(pods))

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
            room = self._rooms.room_of_entry(group.entry, item, chain)
        return replace(explained, gang=group.report, room=room)

    def _similar_queues(self, queue: str) -> tuple[str, ...]:
        """None where queues may not be listed."""
        with suppress(ForbiddenError):
            return similar_names(queue, map(name_of, self._api.list().items))
        return ()

    def _similar_to_missing(self, item: Object, queue: str) -> tuple[str, ...]:
        """Where its queue may not be read, and an event of the object says that it is not there: those with a
        near name among the queues of its namespace and of the pods there.
        """
        if not says_missing(self._event_items(item)):
            return ()
        namespace = str(value_at(item, "metadata.namespace") or "")
        request = ApiRequest(
            method="GET",
            path=f"/api/v1/namespaces/{quote(namespace, safe='')}/pods",
            query={"labelSelector": well_known.QUEUE, "limit": str(_PODS_READ)},
        )
        names = {queue_of_namespace(item, self._objects)}
        with suppress(ForbiddenError):
            pods = self._client.send(request, kind="pods").get("items") or ()
            names |= {labels_of(pod).get(well_known.QUEUE, "") for pod in pods}
        return similar_names(queue, sorted(names - {queue, ""}))

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

    def _explain_queue(self, name: str) -> ShownExplanation:
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
            owner = self._find_owner(reference, namespace)
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
        """The queue that the namespace names now; read where it named the queue of work that is stopped, or
        may have.
        """
        queue = membership.queue if membership and membership.may_be_of_namespace else None
        stopped = queue and queues is not None and queues.verdict(queue).stop is not None
        return queue_of_namespace(item, self._objects) if stopped else ""

    def _events(self, kind: Type, item: Object, explanation: Explanation) -> Sequence[Event]:
        """Where nothing else says what stops it, those that say more than the pod's own condition; of a
        workload, which of its pods were evicted, since those are gone. An event that says that pods of a
        workload wait is of before, if all of them run.
        """
        is_workload = kind not in _SAY_IT_THEMSELVES and explanation.outcome not in _NEEDS_NO_EVENTS
        if explanation.outcome is not Fate.UNREAD or (is_workload and self._has_all_pods(kind, item)):
            return latest_evictions(self._event_items(item)) if is_workload else ()
        notes = "\n".join(explanation.notes)
        return [event for event in latest_events(self._event_items(item)) if event.message not in notes]

    def _has_all_pods(self, kind: Type, item: Object) -> bool:
        """Whether it has pods, as many as it wants, and none of them waits; False where that is not known."""
        pods = self._pods_of(kind, item)
        wanted = int(spec_of(item).get("replicas") or 0)
        return bool(pods) and len(pods) >= wanted and all(map(_is_on_its_way, pods))

    def _event_items(self, item: Object) -> Sequence[Object]:
        uid = str(value_at(item, "metadata.uid"))
        if uid not in self._read_events:
            self._read_events[uid] = read_events(self._client, item)
        return self._read_events[uid]

    def _draining(self, queue: str) -> Sequence[Object]:
        """The queue first, then those below it."""
        queues = read_queues(self._api, [queue])
        return queues.from_top(queue) if queue in queues.items else ()


def _is_on_its_way(pod: Object) -> bool:
    """Whether the pod is on a node, or has ended."""
    return bool(spec_of(pod).get("nodeName")) or value_at(pod, "status.phase") in {"Succeeded", "Failed"}


def _contradicts(item: Object, explanation: Explanation) -> bool:
    """Whether it has the gate, and nothing on the chain that was read keeps it there."""
    gates = {gate.get("name") for gate in spec_of(item).get("schedulingGates") or ()}
    is_free = explanation.outcome is Fate.WAITS_FOR_OTHER and bool(explanation.chain)
    return is_free and well_known.GATE in gates


def _read_owners(owners: Sequence[_Owner]) -> Owners:
    return tuple((owner.type, owner.item) for owner in owners if owner.type and owner.item is not None)
