"""What the controller keeps in the cluster besides statuses: the default queues and a label of namespaces.

- The queues `root`, which is not reclaimable, and `default`, which is, are created where they do not exist.
- A namespace whose annotation names a queue has the label `sluice.dev/member-namespace`. The webhook on
  namespaces sets it in the same request; this is for those that were annotated before the webhook was there.

Threads: the controller's thread decides; the threads of the write queue send the requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from cluster.cache.changes import NO_QUEUE, ClusterChange, QueueChange, StoreChange
from cluster.object_reference import ObjectReference
from cluster.objects import Namespace
from cluster.write_ranks import WriteRank
from controller.context import QUEUE_VERSION, QUEUES, ControllerContext
from controller.parts import Part
from queues import well_known
from queues.membership import VOLCANO_ANNOTATION
from queues.queue import DEFAULT, ROOT

#: The changes of no queue after which labels are looked at. A RESYNC comes after a back-off, too.
_OF_NAMESPACES = frozenset[StoreChange]({ClusterChange.NAMESPACES, QueueChange.RESYNC})


class DefaultQueues(Part):
    """Owner: the controller's thread."""

    name = "default queues"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def step(self) -> None:
        """Submit a request for each default queue that the store does not have."""
        context = self._context
        for name in (ROOT, DEFAULT):
            if name not in context.store.queues:
                create = partial(context.client.create, QUEUES, default_queue(name))
                context.writers.submit(("queue", name), create, rank=WriteRank.STOP)


def default_queue(name: str) -> dict[str, object]:
    """Return the Queue to create: `root`, or a queue below it."""
    spec: dict[str, object] = {"weight": 1, "reclaimable": name != ROOT, "state": "Open"}
    if name != ROOT:
        spec["parent"] = ROOT
    return {"apiVersion": QUEUE_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


class NamespaceLabelPart(Part):
    """Owner: the controller's thread."""

    name = "namespaces"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._is_due = False

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        self._is_due = self._is_due or not _OF_NAMESPACES.isdisjoint(changes.get(NO_QUEUE, ()))

    def step(self) -> None:
        """Set or remove the label where a namespace does not have what its annotation asks for."""
        if not self._is_due:
            return
        self._is_due = False
        store = self._context.store
        store.backoff.attempt_each(
            "namespace",
            list(store.namespaces.objects.values()),
            self._correct_label,
            key=lambda namespace: namespace.metadata.name,
            version=lambda namespace: namespace.metadata.version,
            queue=NO_QUEUE,
            subject=_namespace_subject,
        )

    def _correct_label(self, namespace: Namespace) -> None:
        exempt = self._context.store.membership_settings.exempt_namespaces
        label = missing_label(namespace, exempt=exempt)
        if label is not None:
            _write_label(self._context, namespace, label)


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
        rank=WriteRank.UPKEEP,
        queue=NO_QUEUE,  # what was refused is submitted again after its back-off
        subject=_namespace_subject(namespace),
    )


def _namespace_subject(namespace: Namespace) -> ObjectReference:
    meta = namespace.metadata
    return ObjectReference(
        api_version="v1", kind="Namespace", name=meta.name, namespace=meta.name, uid=meta.uid
    )
