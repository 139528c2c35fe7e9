"""The label of namespaces that name a queue, for those that were annotated before we came.

Later ones get it from the webhook on namespaces in the same request.
"""

from __future__ import annotations

from cluster.object_reference import ObjectReference
from cluster.objects import Namespace
from controller.context import ControllerContext
from queues import labels as names
from queues.membership import VOLCANO_ANNOTATION


def label_namespace(context: ControllerContext) -> None:
    """Have the label on just those namespaces whose annotation names a queue."""

    def mirror_one(namespace: Namespace) -> None:
        wanted = _names_a_queue(namespace, context)
        if wanted != bool(namespace.metadata.label(names.MEMBER_NAMESPACE)):
            _write(namespace, wanted, context)

    context.store.backoff.attempt_each(
        "namespace",
        list(context.store.namespaces.values()),
        mirror_one,
        key=lambda namespace: namespace.metadata.name,
        version=lambda namespace: namespace.metadata.version,
        queue="",
        subject=_subject,
    )


def _names_a_queue(namespace: Namespace, context: ControllerContext) -> bool:
    exempt = namespace.metadata.name in context.store.rules.exempt_namespaces
    return bool(namespace.metadata.annotation(VOLCANO_ANNOTATION)) and not exempt


def _subject(namespace: Namespace) -> ObjectReference:
    meta = namespace.metadata
    return ObjectReference(
        api_version="v1", kind="Namespace", name=meta.name, namespace=meta.name, uid=meta.uid
    )


def _write(namespace: Namespace, wanted: bool, context: ControllerContext) -> None:
    name = namespace.metadata.name
    body = {"metadata": {"labels": {names.MEMBER_NAMESPACE: "true" if wanted else None}}}
    context.writers.submit(
        ("mirror", name),
        lambda: context.client.patch(f"/api/v1/namespaces/{name}", body),
        rank=(2,),
        subject=_subject(namespace),
    )
