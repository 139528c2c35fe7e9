"""The validating webhook for the ConfigMap with the scheduling policies, on CREATE, UPDATE and DELETE.

| the request                                     | the answer                                              |
|-------------------------------------------------|---------------------------------------------------------|
| a key whose new text is no policy               | denied: each such key, with the line and the reason     |
| a policy with parts that are ignored            | a warning for each part                                 |
| a policy that queues name goes                  | a warning that names these queues                       |

Which ConfigMap that is, the conditions of the webhook say (manifests/webhooks): no other one comes here. A
text that gets past this webhook does no harm: its last good policy counts (`queues.policies.policy_set`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from cluster.cache.store import Store
from queues.admission.policy_edits import check_policies, deletion_warnings, removal_warnings
from queues.policies.policy_set import GLOBAL_KEY
from queues.queue import Queue
from webhooks.review import Answer, Request, decode_object, deny


class SubmittedPolicies(msgspec.Struct, frozen=True):
    """The texts of a submitted ConfigMap, by key."""

    data: dict[str, str] | None = None


_policies = msgspec.json.Decoder(SubmittedPolicies)


def validate(request: Request, *, store: Store) -> Answer:
    """The answer to the validating webhook."""
    before: Mapping[str, str] = {}
    if request.operation != "CREATE":
        before = decode_object(request.old_object, _policies, where="oldObject").data or {}
    if request.operation == "DELETE":
        _record((), request, store=store)
        return Answer(warnings=deletion_warnings(before, _queues_by_policy(store)))
    after = decode_object(request.object, _policies).data or {}
    edit = check_policies(before, after)
    if edit.refusal:
        return deny(edit.refusal, code=422)
    _record(after.keys() - {GLOBAL_KEY}, request, store=store)
    gone = removal_warnings(before, after, _queues_by_policy(store)) if before.keys() - after.keys() else ()
    return Answer(warnings=(*gone, *edit.warnings))


def _record(names: Iterable[str], request: Request, *, store: Store) -> None:
    """Queues of the same manifest may name these before the watch brings them."""
    if not request.dry_run:
        store.pending_policies.record(names, changes=store.policies.changes)


def _queues_by_policy(store: Store) -> Mapping[str, list[str]]:
    """The queues that name a policy, by its name."""
    queues: Iterable[Queue] = store.snapshot.tree.queues.values()
    named: dict[str, list[str]] = {}
    for queue in queues:
        if queue.scheduler_policy:
            named.setdefault(queue.scheduler_policy, []).append(queue.name)
    return named
