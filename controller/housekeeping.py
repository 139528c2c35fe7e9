"""What the controller keeps true of the cluster besides queues and their members.

- The queues that always are: `root`, which is not reclaimable, and `default`, which is.
- The label of namespaces that name a queue, for those that were annotated before the webhook on namespaces
  was there. Later ones get it from the webhook, in the same request.
- The gauges that follow from the store: set now and then.

All of it is for the controller's thread; writes are sent by the writers' threads.
"""

from __future__ import annotations

from functools import partial

from cluster.cache.store import Store
from cluster.object_reference import ObjectReference
from cluster.objects import Namespace
from controller.context import (
    QUEUE_VERSION,
    QUEUES,
    ControllerContext,
)
from queues import labels as names
from queues.membership import VOLCANO_ANNOTATION
from queues.queue import DEFAULT, ROOT
from queues.verdict import CauseKind


def create_default_queues(context: ControllerContext) -> None:
    """Have those created that the store does not have."""
    for name in (ROOT, DEFAULT):
        if name not in context.store.queues:
            create = partial(context.client.create, QUEUES, _queue_body(name))
            context.writers.submit(("queue", name), create, rank=(0,))


def _queue_body(name: str) -> dict[str, object]:
    spec: dict[str, object] = {"weight": 1, "reclaimable": name != ROOT, "state": "Open"}
    if name != ROOT:
        spec["parent"] = ROOT
    return {
        "apiVersion": QUEUE_VERSION,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def label_namespaces(context: ControllerContext) -> None:
    """Have the label on just those namespaces whose annotation names a queue."""

    def label_one(namespace: Namespace) -> None:
        wanted = _names_a_queue(namespace, context)
        if wanted != bool(namespace.metadata.label(names.MEMBER_NAMESPACE)):
            _write_label(namespace, wanted, context)

    context.store.backoff.attempt_each(
        "namespace",
        list(context.store.namespaces.values()),
        label_one,
        key=lambda namespace: namespace.metadata.name,
        version=lambda namespace: namespace.metadata.version,
        queue="",
        subject=_namespace_subject,
    )


def _names_a_queue(namespace: Namespace, context: ControllerContext) -> bool:
    exempt = namespace.metadata.name in context.store.rules.exempt_namespaces
    return bool(namespace.metadata.annotation(VOLCANO_ANNOTATION)) and not exempt


def _namespace_subject(namespace: Namespace) -> ObjectReference:
    meta = namespace.metadata
    return ObjectReference(
        api_version="v1", kind="Namespace", name=meta.name, namespace=meta.name, uid=meta.uid
    )


def _write_label(namespace: Namespace, wanted: bool, context: ControllerContext) -> None:
    name = namespace.metadata.name
    body = {"metadata": {"labels": {names.MEMBER_NAMESPACE: "true" if wanted else None}}}
    context.writers.submit(
        ("namespace_label", name),
        lambda: context.client.patch(f"/api/v1/namespaces/{name}", body),
        rank=(2,),
        subject=_namespace_subject(namespace),
    )


def set_gauges(context: ControllerContext) -> None:
    metrics, store = context.metrics, context.store
    metrics.members.set(len(store.members))
    waiting = (member for queue in store.snapshot.tree for member in store.members.waiting_in(queue))
    metrics.unguarded.set(sum(1 for member in waiting if not member.marked))
    absent = [queue for queue in store.members.queues() if _is_absent(store, queue)]
    metrics.orphans.set(sum(len(store.members.in_queue(queue)) for queue in absent))
    for kind, number in store.unreadable.counts().items():
        metrics.unreadable.labels(kind).set(number)
    states: dict[str, int] = {}
    for obj in list(store.queues.values()):
        states[obj.status.state] = states.get(obj.status.state, 0) + 1
    metrics.queues.clear()
    for state, number in states.items():
        metrics.queues.labels(state).set(number)


def _is_absent(store: Store, queue: str) -> bool:
    stop = store.snapshot.decision(queue).stop
    return not queue or (stop is not None and stop.kind is CauseKind.NOT_FOUND)
