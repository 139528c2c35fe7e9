"""The validating webhook for the ConfigMap with the scheduling policies, on CREATE, UPDATE and DELETE.

| the request                                     | the answer                                              |
|-------------------------------------------------|---------------------------------------------------------|
| a policy whose new text is wrong                | denied: each such key, with the line and the reason     |
| a policy with parts that have no effect         | a warning for those that are not known, one for those   |
|                                                 | that do nothing here, and one for each other fault      |
| no global policy, but one under a key that      | a warning                                               |
| others have it under                            |                                                         |
| a key that holds no policy                      | nothing: it is somebody else's                          |
| a policy that queues name goes, or the key      | a warning that names these queues                       |
| that they name holds none                       |                                                         |

Which ConfigMap that is, the conditions of the webhook say (manifests/webhooks): no other one comes here. A
text that gets past this webhook does no harm: its last good policy counts (`queues.policies.policy_set`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from cluster.cache.store import Store
from queues.admission.policy_edits import (
    check_policies,
    deletion_warnings,
    removal_warnings,
    unheld_warnings,
)
from queues.policies.policy_set import GLOBAL_KEY
from queues.policies.policy_texts import policy_keys, texts_of
from queues.queue import Queue
from webhooks.review import ReviewAnswer, ReviewRequest, decode_object, deny


class SubmittedPolicies(msgspec.Struct, frozen=True):
    """The texts of a submitted ConfigMap, by key."""

    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = msgspec.field(default=None, name="binaryData")

    @property
    def texts(self) -> Mapping[str, str]:
        return texts_of(self.data, self.binary_data)


_policies = msgspec.json.Decoder(SubmittedPolicies)


def validate(request: ReviewRequest, *, store: Store) -> ReviewAnswer:
    """The answer to the validating webhook."""
    before: Mapping[str, str] = {}
    if request.operation != "CREATE":
        before = decode_object(request.old_object, _policies, where="oldObject").texts
    if request.operation == "DELETE":
        _record((), request, store=store)
        return ReviewAnswer(warnings=deletion_warnings(before, _queues_by_policy(store)))
    after = decode_object(request.object, _policies).texts
    edit = check_policies(before, after)
    if edit.refusal:
        return deny(edit.refusal, code=422)
    _record(set(policy_keys(after)) - {GLOBAL_KEY}, request, store=store)
    if before == after:
        return ReviewAnswer()
    named = _queues_by_policy(store)
    gone, unheld = removal_warnings(before, after, named), unheld_warnings(after, named)
    return ReviewAnswer(warnings=(*gone, *unheld, *edit.warnings))


def _record(names: Iterable[str], request: ReviewRequest, *, store: Store) -> None:
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
