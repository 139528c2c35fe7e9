"""Namespaces: the queue that one names for its pods is mirrored as a label.

A webhook can select namespaces by labels only, so that the pods of a namespace which names a queue
(annotation `scheduling.volcano.sh/queue-name`) reach us, the label `sluice.dev/member-namespace` says that
it does. It is written in the same request as the annotation, whoever sends it, and taken off with it.

What a new namespace names is noted until the watch tells of it: what is created in it may come sooner.
"""

from __future__ import annotations

import msgspec

from cluster.objects import Namespace
from cluster.store import Store
from queues import names
from queues.membership import VOLCANO_ANNOTATION, valid_name
from queues.showing import shown
from webhooks.patching import entries
from webhooks.review import Answer, Request, refused, subject

_namespaces = msgspec.json.Decoder(Namespace)


def mirrored(request: Request, *, store: Store) -> Answer:
    """The answer to the mutating webhook on CREATE and UPDATE."""
    meta = subject(request.object, _namespaces).metadata
    queue = meta.annotation(VOLCANO_ANNOTATION)
    if queue and not valid_name(queue):
        return refused(
            f'metadata.annotations[{VOLCANO_ANNOTATION}]: "{shown(queue, limit=80)}" is not a queue name; '
            "use lower case letters, digits, '-' and '.'",
            code=422,
        )
    named = bool(queue) and meta.name not in store.rules.exempt_namespaces
    if named and not request.dry_run:
        store.coming.note(meta.name, queue)
    wanted = {names.MEMBER_NAMESPACE: "true" if named else None}
    return Answer(patch=tuple(entries("/metadata/labels", meta.labels, wanted)))
