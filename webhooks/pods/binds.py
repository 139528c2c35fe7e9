"""The bind guard: the validating webhook on `pods/binding` and `bindings`.

It denies the binds that were under way when their queue was stopped.

| the pod                                          | the answer                                          |
|--------------------------------------------------|-----------------------------------------------------|
| is the controller's probe (a dry run)            | denied with `PROBE_SEEN`: the guard is on           |
| any, while the API server is lost                | denied: stops may have been acknowledged without us |
| is in no queue, or unknown                       | allowed                                             |
| is a member whose gate would stay, or one that   | denied with the text of `queues.start_decision`     |
| its quota was not asked about                    |                                                     |
| is any other member                              | allowed, and a pass is open                         |

As in filter, a pass is recorded before the snapshot is read.
"""

from __future__ import annotations

import msgspec

from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.objects import Metadata
from queues import well_known
from webhooks.review import ALLOWED, ReviewAnswer, ReviewRequest, decode_object, deny
from webhooks.settings import AdmissionSettings

CUT_OFF = (
    "sluice cannot rely on what it knows of the queues: it has lost the API server or their definitions, "
    "and lets no bind pass here until it has read them anew"
)


class ReviewedBinding(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata = Metadata()


_bindings = msgspec.json.Decoder(ReviewedBinding)


def validate(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the validating webhook on `pods/binding` and `bindings`."""
    binding = decode_object(request.object, _bindings)
    namespace = request.namespace or binding.metadata.namespace
    name = request.name or binding.metadata.name
    if request.dry_run and name.startswith(well_known.PROBE_PREFIX):
        return deny(well_known.PROBE_SEEN)
    if store.cut_off:
        return deny(CUT_OFF)
    member = store.members.get(namespace, name)
    if member is not None and not member.queue:
        return deny(store.decisions.of_member(member).text)
    queue = store.settling_binds.queue_of(namespace, name)
    if not queue:
        return ALLOWED
    if request.dry_run:
        return _answer(member, queue, namespace, store=store)
    by_scheduler = request.user_info.username in settings.scheduler_users
    store.bind_passes.record_bind_pass(
        request=request.uid, namespace=namespace, name=name, queue=queue, by_scheduler=by_scheduler
    )
    answer = _answer(member, queue, namespace, store=store)
    if not answer.allowed:
        store.bind_passes.record_bind_refusal(
            request.uid, namespace, name, by_scheduler=by_scheduler, uid=binding.metadata.uid
        )
    return answer


def _answer(member: Member | None, queue: str, namespace: str, *, store: Store) -> ReviewAnswer:
    """`member`: None where only our own pass says which queue the pod is in: filter has looked for room."""
    released = member is None or not member.unreleased
    start = store.decisions.of_place(queue, namespace=namespace, released=released)
    return deny(start.text) if start.denies_bind else ALLOWED
