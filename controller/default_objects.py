"""What the controller keeps in the cluster besides statuses: the default queues and a label of namespaces.

- The queues `root`, which is not reclaimable, and `default`, which is, are created where they do not exist.
- A namespace whose annotation names a queue has the label `sluice.dev/member-namespace`. The webhook on
  namespaces sets it in the same request; this is for those that were annotated before the webhook was there.

Threads: the controller's thread decides; the threads of the write queue send the requests.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from cluster.cache.changes import NO_QUEUE
from cluster.object_reference import ObjectReference
from cluster.objects import Namespace
from controller.context import QUEUE_VERSION, QUEUES, ControllerContext
from queues import well_known
from queues.membership import VOLCANO_ANNOTATION
from queues.queue import DEFAULT, ROOT


def create_default_queues(context: ControllerContext) -> None:
    """Submit a request for each default queue that the store does not have."""
    for name in (ROOT, DEFAULT):
        if name not in context.store.queues:
            create = partial(context.client.create, QUEUES, default_queue(name))
            context.writers.submit(("queue", name), create, rank=(0,))


def default_queue(name: str) -> dict[str, object]:
    """Return the Queue to create: `root`, or a queue below it."""
    spec: dict[str, object] = {"weight": 1, "reclaimable": name != ROOT, "state": "Open"}
    if name != ROOT:
        spec["parent"] = ROOT
    return {"apiVersion": QUEUE_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def label_namespaces(context: ControllerContext) -> None:
    """Set or remove the label where a namespace does not have what its annotation asks for."""

    def correct_label(namespace: Namespace) -> None:
        label = missing_label(namespace, exempt=context.store.membership_settings.exempt_namespaces)
        if label is not None:
            _write_label(context, namespace, label)

    context.store.backoff.attempt_each(
        "namespace",
        list(context.store.namespaces.objects.values()),
        correct_label,
        key=lambda namespace: namespace.metadata.name,
        version=lambda namespace: namespace.metadata.version,
        queue=NO_QUEUE,
        subject=_namespace_subject,
    )


def missing_label(namespace: Namespace, *, exempt: Collection[str]) -> bool | None:
    """Return whether the label is to be set (True) or removed (False); None if it is right.

    `exempt`: the namespaces whose pods belong to no queue.
    """
    meta = namespace.metadata
    names_queue = bool(meta.annotation(VOLCANO_ANNOTATION)) and meta.name not in exempt
    return None if names_queue == bool(meta.label(well_known.MEMBER_NAMESPACE)) else names_queue


def _write_label(context: ControllerContext, namespace: Namespace, label: bool) -> None:
    name = namespace.metadata.name
    body = {"metadata": {"labels": {well_known.MEMBER_NAMESPACE: "true" if label else None}}}
    context.writers.submit(
        ("namespace_label", name),
        lambda: context.client.patch(f"/api/v1/namespaces/{name}", body),
        rank=(2,),
        queue=NO_QUEUE,  # what was refused is submitted again after its back-off
        subject=_namespace_subject(namespace),
    )


def _namespace_subject(namespace: Namespace) -> ObjectReference:
    meta = namespace.metadata
    return ObjectReference(
        api_version="v1", kind="Namespace", name=meta.name, namespace=meta.name, uid=meta.uid
    )
