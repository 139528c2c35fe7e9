"""Namespaces: the queue that one names for its pods is mirrored as a label.

A webhook can select namespaces by labels only, so that the pods of a namespace which names a queue
(annotation `scheduling.volcano.sh/queue-name`) reach us, the label `sluice.dev/member-namespace` says that
it does. It is written in the same request as the annotation, whoever sends it, and taken off with it.

A namespace cannot come to name a queue that does not select it, by the labels that it has after the request.
One whose labels change later keeps its annotation: what it submits is answered by itself.

What a new namespace names is noted until the watch tells of it: what is created in it may come sooner.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cluster.cache.store import Store
from cluster.objects import Metadata, Namespace
from queues import labels as names
from queues.membership import VOLCANO_ANNOTATION, valid_name
from queues.namespace_selectors import NAME_LABEL
from queues.snapshot import decision_for_namespace
from queues.text import printable
from webhooks.json_patch import patch_map
from webhooks.review import Answer, Request, decode_object, deny

_namespaces = msgspec.json.Decoder(Namespace)


def mutate(request: Request, *, store: Store) -> Answer:
    """The answer to the mutating webhook on CREATE and UPDATE."""
    meta = decode_object(request.object, _namespaces).metadata
    queue = meta.annotation(VOLCANO_ANNOTATION)
    if queue and not valid_name(queue):
        return deny(
            f'metadata.annotations[{VOLCANO_ANNOTATION}]: "{printable(queue, limit=80)}" is not a '
            "queue name; use lower case letters, digits, '-' and '.'",
            code=422,
        )
    labels = {NAME_LABEL: meta.name, **(meta.labels or {})}
    refusal = _not_selected(request, meta, labels, store=store)
    if refusal:
        return deny(refusal)
    named = bool(queue) and meta.name not in store.rules.exempt_namespaces
    if named and not request.dry_run:
        store.pending_namespaces.record(meta.name, queue, labels)
    wanted = {names.MEMBER_NAMESPACE: "true" if named else None}
    return Answer(patch=tuple(patch_map("/metadata/labels", meta.labels, wanted)))


def _not_selected(request: Request, meta: Metadata, labels: Mapping[str, str], *, store: Store) -> str | None:
    """Why the namespace may not come to name the queue; None where it may, or named it before."""
    queue = meta.annotation(VOLCANO_ANNOTATION)
    if not queue or meta.name in store.rules.exempt_namespaces or meta.deletion_timestamp is not None:
        return None
    ruling = store.snapshot.decision(queue)
    if not ruling.restricted:
        return None
    if request.operation != "CREATE":
        before = decode_object(request.old_object, _namespaces, where="oldObject").metadata
        if before.annotation(VOLCANO_ANNOTATION) == queue:
            return None
    after = decision_for_namespace(ruling, namespace=meta.name or meta.generate_name, labels=labels)
    return None if after.selected else f"metadata.annotations[{VOLCANO_ANNOTATION}]: {after.text}"
