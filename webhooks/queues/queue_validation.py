"""The validating webhook for Queues, on CREATE, UPDATE and DELETE: which edits are allowed.

The checks, in this order: the contact (`queues.contacts`); each field by itself
(`queues.admission.field_validation`); the windows (`queues.admission.window_edits`); the deadline of a drain,
the spec, the end of the stop and the parent (`queues.admission.queue_edits`); the resources
(`queues.admission.resource_validation`); the table of actions (`queues.states`). A queue that names a
scheduling policy which is not there is admitted, with a warning that says which one counts. So is a move, a
drain or another quota, with warnings that say what it does to pods (`queues.admission.tree_edits`,
`queues.admission.quota_edits`), and a quota with names that nothing counts, or that nothing here has
(`queues.quota.resource_names`).

Every edit is checked among the queues as they will be: those in the store, and those that were admitted a
moment ago (`cluster.inflight.queue_edits`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from typing import Any

import msgspec

from cluster.cache.queues import queue_from_object
from cluster.cache.store import Store
from cluster.objects import Metadata, QueueObject
from queues import well_known
from queues.admission.field_validation import field_refusal
from queues.admission.ignored_words import field_warnings
from queues.admission.queue_edits import (
    ROOT_HAS_NO_PARENT,
    deadline_refusal,
    deletion_refusal,
    deletion_warning,
    edit_refusal,
    parent_pods_refusal,
    parent_refusal,
    resume_time_refusal,
    return_refusal,
    spec_refusal,
    termination_refusal,
)
from queues.admission.quota_edits import QueueUse, changes_quota, quota_consequences
from queues.admission.resource_validation import (
    Quota,
    QuotaFamily,
    quota_of,
    quota_refusal,
)
from queues.admission.tree_edits import PodNumbers, tree_consequences
from queues.admission.window_edits import window_refusal
from queues.apimachinery.conversion import Converter
from queues.contacts import contact_fault
from queues.drain.model import may_keep
from queues.metadata.findings import PlacedMetadata, findings
from queues.metadata.keys import Place
from queues.metadata.warnings import metadata_warnings
from queues.node_groups import nowhere_warning
from queues.policies.resolution import resolve_policy
from queues.queue import BUILT_IN, ROOT, Amounts, Queue
from queues.quota.devices import add_claims, add_classes, shared_counts
from queues.quota.force_deletion import ended_fault
from queues.quota.resource_names import KnownResources, name_warnings
from queues.states import State, StopPolicy, own_state
from queues.status.policy_condition import admission_text
from queues.tree import Tree
from queues.verdict import verdict
from webhooks.existing import is_queue_there
from webhooks.review import ALLOWED, ReviewAnswer, ReviewRequest, decode_object, deny
from webhooks.settings import AdmissionSettings

#: Characters of a warning; the API server cuts it after 256.
POLICY_WARNING_LENGTH = 225


class SubmittedQueue(msgspec.Struct, frozen=True):
    """A queue as it was submitted: the whole spec, and the state that its author may have written."""

    metadata: Metadata
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class AdmittedQueues:
    """All queues as they will be once the admitted edits are stored. For one request, which holds the lock of
    the edits.

    Most edits are judged without the others: these are read at the first use. So a thousand edits at once
    cost no more each than one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def _pending(self) -> Mapping[str, QueueObject | None]:
        """Edits that are not stored yet. They are read before the snapshot: what is no longer pending is in
        the snapshot."""
        return self._store.queue_edits.pending(self._store.queues)

    @cached_property
    def tree(self) -> Tree:
        pending = self._pending
        changes = {name: None if obj is None else queue_from_object(obj) for name, obj in pending.items()}
        return self._store.snapshot.tree.with_changes(changes)

    def object(self, name: str) -> QueueObject | None:
        return self._pending[name] if name in self._pending else self._store.queues.get(name)

    def quota(self, name: str) -> Quota:
        obj = self.object(name)
        return _quota(obj) if obj is not None else Quota()

    def quotas(self, names: tuple[str, ...], *, but: str = "") -> dict[str, Quota]:
        return {name: self.quota(name) for name in names if name != but}


class _QueueEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A Queue before and after an edit, as objects and as the rules read them, and what is around it.
    `before`, `was`: None for a new queue."""

    before: QueueObject | None
    after: QueueObject
    was: Queue | None
    wanted: Queue
    queues: AdmittedQueues
    store: Store


submitted_queue_decoder = msgspec.json.Decoder(SubmittedQueue)
_queues = msgspec.json.Decoder(QueueObject)
_queue = Converter[QueueObject](QueueObject)
_time = Converter[datetime | None](datetime | None)


def validate(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the validating webhook."""
    with store.queue_edits.lock:
        answer, before, after = _validate(request, store=store, settings=settings)
        # A creation of what is there is refused: recorded, it would displace an edit that is under way.
        refused = before is None and after is not None and is_queue_there(after.metadata.name, store=store)
        if answer.allowed and not request.dry_run and not refused:
            latest = after or before
            if latest is not None:
                store.queue_edits.record(latest.metadata.name, before=before, after=after)
    return answer


def stored_queue(before: SubmittedQueue) -> QueueObject:
    """The stored object; without a spec where that is faulty, so that it can be corrected."""
    meta = msgspec.to_builtins(before.metadata)
    try:
        return _queue({"metadata": meta, "spec": before.spec or {}})
    except msgspec.ValidationError:
        return QueueObject(metadata=before.metadata)


def own_refusal(
    before: QueueObject | None,
    metadata: Metadata,
    was: Mapping[str, Any],
    spec: Mapping[str, Any],
    *,
    now: datetime,
) -> str | None:
    """Why an edit is refused, whatever other queues say. `was`, `spec`: the spec before and after it."""
    return (
        _contact_refusal(before, metadata)
        or field_refusal(was, spec)
        or window_refusal(was, spec, now=now)
        or deadline_refusal(
            _deadline(was), _deadline(spec), now=now, begins=_drains(spec) and not _drains(was)
        )
    )


def _validate(
    request: ReviewRequest, *, store: Store, settings: AdmissionSettings
) -> tuple[ReviewAnswer, QueueObject | None, QueueObject | None]:
    """The answer, and the queue before and after."""
    before = None
    was: dict[str, Any] = {}
    shown_closed = False
    if request.operation != "CREATE":
        old = decode_object(request.old_object, submitted_queue_decoder, where="oldObject")
        before, was = stored_queue(old), old.spec or {}
        # What is being deleted was Closed when it was, and has taken nothing since.
        settled = before.metadata.deletion_timestamp is not None or _observed(old, store=store)
        shown_closed = settled and (old.status or {}).get("state") == State.CLOSED
    if request.operation == "DELETE":
        return _deletion(before, store=store, settled=shown_closed), before, None
    submitted = decode_object(request.object, submitted_queue_decoder)
    spec = submitted.spec or {}
    now = store.clock.now()
    wrong = own_refusal(before, submitted.metadata, was, spec, now=now)
    if wrong:
        return deny(wrong, code=422), before, None
    after = decode_object(request.object, _queues)
    edit = _QueueEdit(
        before=before,
        after=after,
        was=queue_from_object(before) if before is not None else None,
        wanted=queue_from_object(after),
        queues=AdmittedQueues(store),
        store=store,
    )
    refusal = _root(before, after) or _edit(edit, settings=settings)
    if refusal:
        return deny(refusal, code=422), before, after
    if before is not None and _is_end(before.metadata, after.metadata):
        if after.metadata.name in BUILT_IN:  # past us it came so far, and the controller makes it anew
            return ALLOWED, before, None
        answer = _deletion(after, store=store, settled=shown_closed)
        return answer, before, None if answer.allowed else after
    warnings = (
        *_policy_warnings(edit),
        *_tree_warnings(edit),
        *_quota_warnings(edit),
        *name_warnings(was, spec, _known_resources(store)),
        *_node_group_warnings(edit),
        *key_warnings(before.metadata if before else Metadata(), after.metadata),
        *_ended_warnings(before.metadata if before else Metadata(), after.metadata, now=now),
        *field_warnings(was, spec),
    )
    return ReviewAnswer(warnings=warnings), before, after


def _ended_warnings(before: Metadata, after: Metadata, *, now: datetime) -> tuple[str, ...]:
    """For an annotation that is to say until when what was deleted by force has ended, and does not."""
    was, text = (meta.annotation(well_known.FORCE_DELETED_ENDED) for meta in (before, after))
    fault = ended_fault(text, now=now) if text != was else ""
    return (fault,) if fault else ()


def _contact_refusal(before: QueueObject | None, after: Metadata) -> str:
    """Of the annotation that names a contact, where the edit sets it; "" where it may."""
    contact = after.annotation(well_known.CONTACT)
    is_kept = before is not None and before.metadata.annotation(well_known.CONTACT) == contact
    return "" if is_kept else contact_fault(contact)


def key_warnings(before: Metadata, after: Metadata) -> tuple[str, ...]:
    """For labels and annotations of Volcano and Kueue that do nothing on a queue."""
    was, now = (
        PlacedMetadata(Place.QUEUE, meta.labels or {}, meta.annotations or {}) for meta in (before, after)
    )
    return metadata_warnings(findings([now], [was]))


def _is_end(before: Metadata, after: Metadata) -> bool:
    """Whether the edit takes off the last finalizer of what is being deleted: then the API server removes
    it, and asks about no DELETE.
    """
    return after.deletion_timestamp is not None and bool(before.finalizers) and not after.finalizers


def _drains(spec: Mapping[str, Any]) -> bool:
    return spec.get("stopPolicy") == StopPolicy.HOLD_AND_DRAIN


def _deadline(spec: Mapping[str, Any]) -> datetime | None:
    """`spec.drain.deadline`; one without a zone is UTC, and none where it cannot be read."""
    drain = spec.get("drain")
    text = drain.get("deadline") if isinstance(drain, dict) else None
    try:
        at = _time(text)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def _edit(edit: _QueueEdit, *, settings: AdmissionSettings) -> str | None:
    return (
        _spec(edit.was, edit.wanted)
        or resume_time_refusal(edit.was, edit.wanted, now=edit.store.clock.now())
        or _parent(edit, settings=settings)
        or _quota_among(edit)
        or _state(edit)
    )


def _spec(was: Queue | None, wanted: Queue) -> str | None:
    refusal = spec_refusal(wanted)
    return None if was is not None and refusal == spec_refusal(was) else refusal


def _root(before: QueueObject | None, after: QueueObject) -> str | None:
    """`queue_from_object` reads no parent of `root`. A stored one may stay until it is removed."""
    if after.metadata.name != ROOT or (before is not None and before.spec.parent == after.spec.parent):
        return None
    return ROOT_HAS_NO_PARENT if after.spec.parent else None


def _parent(edit: _QueueEdit, *, settings: AdmissionSettings) -> str | None:
    """Whether its parent allows it, where the parent is new."""
    was, wanted = edit.was, edit.wanted
    if wanted.name == ROOT or (was is not None and was.parent == wanted.parent):
        return None
    parent = wanted.parent or ROOT
    return (
        parent_refusal(wanted, tree=edit.queues.tree, depth_limit=settings.depth_limit)
        or parent_pods_refusal(parent, pods=edit.store.live_members.pods_of(parent))
        or (return_refusal(wanted, former=_former_parent(edit)) if was is None else None)
    )


def _former_parent(edit: _QueueEdit) -> str | None:
    former = edit.store.queue_cache.former_parent(edit.wanted.name)
    return former if former in edit.queues.tree else None


def _quota_among(edit: _QueueEdit) -> str | None:
    """Its quota compared with its parent's, siblings' and children's, if its quota or its parent changes."""
    was, wanted, queues = edit.was, edit.wanted, edit.queues
    quotas = _quota(edit.before) if edit.before else Quota(), _quota(edit.after)
    if was is not None and was.parent == wanted.parent and quotas[0] == quotas[1]:
        return None
    parent = wanted.parent
    above = queues.quota(parent) if parent and parent in queues.tree else None
    shared = above is not None and (above.guarantee or above.deserved)
    around = QuotaFamily(
        name=wanted.name,
        parent=parent or "",
        parent_quota=above,
        sibling_quotas=queues.quotas(queues.tree.children(parent), but=wanted.name)
        if parent and shared
        else {},
        child_quotas=queues.quotas(queues.tree.children(wanted.name), but=wanted.name),
    )
    is_child = was is not None and was.parent == parent
    return quota_refusal(
        msgspec.structs.replace(around, own=quotas[0], is_child=is_child),
        msgspec.structs.replace(around, own=quotas[1]),
    )


def _state(edit: _QueueEdit) -> str | None:
    """The table of actions, in the queue's own state."""
    was, wanted = edit.was, edit.wanted
    if was is None or was.desired is wanted.desired:
        return None
    around = edit.queues.tree.with_queue(was)
    own = own_state(
        was.desired,
        broken=around.chain(was.name).broken is not None,
        live=edit.store.live_members.below(was.name, tree=around) > 0,
        terminating=was.terminating,
    )
    return termination_refusal(was, wanted, now=edit.store.clock.now()) or edit_refusal(was, wanted, own=own)


def _policy_warnings(edit: _QueueEdit) -> tuple[str, ...]:
    """A warning where the queue comes to name a scheduling policy that cannot be used as it is."""
    was, wanted, store = edit.was, edit.wanted, edit.store
    if not wanted.scheduler_policy or (was is not None and was.scheduler_policy == wanted.scheduler_policy):
        return ()
    chain = edit.queues.tree.with_queue(wanted).chain(wanted.name).queues
    changes = store.policies.changes  # read before what they have become
    resolution = resolve_policy(
        store.policies.policies, chain=[(queue.name, queue.scheduler_policy) for queue in chain]
    )
    own = next((problem for problem in resolution.problems if problem.queue == wanted.name), None)
    if own is None or (own.missing and store.pending_policies.is_coming(own.name, changes=changes)):
        return ()
    text = admission_text(wanted.name, resolution, limit=POLICY_WARNING_LENGTH)
    return (f"spec.schedulerPolicy: {text}",)


def _tree_warnings(edit: _QueueEdit) -> tuple[str, ...]:
    """What a move, a drain or other node groups do to the pods of the queue and of those below it."""
    was, wanted, queues = edit.was, edit.wanted, edit.queues
    if was is None or (
        (was.parent, was.node_groups) == (wanted.parent, wanted.node_groups)
        and wanted.stop_policy is not StopPolicy.HOLD_AND_DRAIN
    ):
        return ()

    def keeps(name: str) -> bool:
        obj = edit.after if name == wanted.name else queues.object(name)
        return obj is not None and may_keep(obj.spec.drain)

    return tree_consequences(
        wanted.name,
        before=queues.tree.with_queue(was),
        after=queues.tree.with_queue(wanted),
        pods=partial(pod_numbers, edit.store),
        keeps=keeps,
        now=edit.store.clock.now(),
    )


def _quota_warnings(edit: _QueueEdit) -> tuple[str, ...]:
    """What other limits, or a move below others, do to the pods of the queue and of those below it."""
    was, wanted, store = edit.was, edit.wanted, edit.store
    if was is not None and not changes_quota(was, wanted):
        return ()
    tree, snapshot = edit.queues.tree, store.snapshot
    return quota_consequences(
        wanted.name,
        before=tree.with_queue(was) if was is not None else tree,
        after=tree.with_queue(wanted),
        use=partial(queue_use, store),
        now=store.clock.now(),
        overcommits=lambda name: name in snapshot.tree and snapshot.overcommit(name) is not None,
        claims=shared_counts(store.device_claims),
    )


def _known_resources(store: Store) -> KnownResources:
    classes = store.device_claims.classes

    @cache
    def others() -> frozenset[str]:
        requested = (name for queue in store.snapshot.tree.queues for name in store.quota_use(queue))
        return frozenset((*classes.by_resource, *requested))

    return KnownResources(
        nodes=store.node_totals.names, classes=classes.names if classes.is_listed else None, others=others
    )


def _node_group_warnings(edit: _QueueEdit) -> tuple[str, ...]:
    before = edit.was.node_groups if edit.was is not None else None
    warning = nowhere_warning(before, edit.wanted.node_groups)
    return (warning,) if warning else ()


def queue_use(store: Store, queue: str) -> QueueUse:
    """What a queue alone uses, and how many of its pods wait where there is a quota."""
    counts = store.members.counts(queue)
    claims, used = counts.claims.copy().items(), store.quota_use(queue)
    if store.snapshot.names_devices:
        add_classes(used, tuple(used.items()), store.device_claims)
        add_claims(used, claims, store.device_claims)
    return QueueUse(used=used, waiting=counts.held)


def pod_numbers(store: Store, queue: str) -> PodNumbers:
    """How many pods of a queue alone run and wait."""
    counts = store.members.counts(queue)
    return PodNumbers(running=counts.running, waiting=counts.pending)


def _observed(queue: SubmittedQueue, *, store: Store) -> bool:
    """Whether a queue's status is for its spec, and its ancestors', as they are now."""
    if (queue.status or {}).get("observedGeneration") != queue.metadata.generation:
        return False
    chain = (
        store.snapshot.tree.chain(queue.metadata.name).queues
        if queue.metadata.name in store.snapshot.tree
        else ()
    )
    above = [store.queues.get(queue.name) for queue in chain[1:]]
    return all(obj is None or obj.status.observed_generation == obj.metadata.generation for obj in above)


def _deletion(obj: QueueObject | None, *, store: Store, settled: bool) -> ReviewAnswer:
    queue = queue_from_object(obj) if obj else Queue(name="")
    tree = AdmittedQueues(store).tree.with_queue(queue)
    live = store.live_members.below(queue.name, tree=tree) > 0
    result = verdict(queue.name, tree=tree, live=live, now=store.clock.now())
    refusal = deletion_refusal(
        result,
        children=tree.children(queue.name),
        settled=settled,
        counts=_counts_above(queue, store=store, tree=tree),
    )
    if refusal:
        return deny(refusal)
    warning = deletion_warning(queue.name, namespaces=store.namespaces.naming(queue.name))
    return ReviewAnswer(warnings=(warning,)) if warning else ALLOWED


def _counts_above(queue: Queue, *, store: Store, tree: Tree) -> Amounts:
    """What the queue's own pods take of a quota above it. None of them need be live for its close: pods of
    namespaces that it does not select are not, nor are those that were deleted by force.
    """
    above = queue.parent or ROOT
    if queue.name == ROOT or above not in tree or not store.snapshot.decision(above).has_quota:
        return ()
    return tuple(
        sorted((name, amount) for name, amount in queue_use(store, queue.name).used.items() if amount)
    )


def _quota(obj: QueueObject) -> Quota:
    spec = obj.spec
    return quota_of(guarantee=spec.guarantee, deserved=spec.deserved, capability=spec.capability)
