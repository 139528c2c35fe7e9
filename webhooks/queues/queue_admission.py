"""The mutating webhook for Queues, on CREATE and UPDATE: defaults, windows and history.

- `status.state` of a new queue, which the API server drops, becomes `spec.state` where that is absent. So
  `vcctl queue create -S Closed` creates a closed queue. A word that is no state is refused.
- An edit that removes `spec.state` writes Open there: an absent state marks a queue that is older than
  Sluice, and that Volcano may have closed (`queues.volcano_close`).
- Fields that a client of another schema drops are put back, or a warning names them
  (`queues.admission.dropped_fields`).
- `SchedulerPolicy` is copied to `schedulerPolicy`.
- A change of state or stopPolicy removes the `resumeAt` and the `reason` of the stop before, unless the
  request sets them (`queues.admission.queue_edits`).
- `spec.inWindow` is the server's: an edit of the windows puts there which are on after it, any other leaves
  it as it was, a replace that lacks it too (`queues.admission.window_edits`).
- An edge of a change window, by the leader (`queues.well_known.EDGES`), has all of that already. The API
  server asks about it by an older configuration only.
- Warnings say what an edit loses of a stop, ends or lets run (`queues.admission.stop_edits`). If the
  validating webhook is going to refuse the edit by its own fields, there are none: nothing of it happens.
- Each change is added to the annotation `sluice.dev/changes`, with the author of the request, for
  any text that the user wrote there. The controller shows it as `status.changes`.

The validating webhook: `webhooks.queues.queue_validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from cluster.cache.queues import queue_from_object
from cluster.cache.store import Store
from cluster.exceptions import Unreadable
from cluster.objects import Metadata, QueueObject
from queues import well_known
from queues.admission import queue_edits
from queues.admission.dropped_fields import (
    NOTHING_DROPPED,
    DroppedFields,
    SentQueue,
    dropped_fields,
)
from queues.admission.stop_edits import consequences
from queues.admission.tree_edits import end_of_other_stop, released_pods
from queues.admission.window_edits import settle_edit
from queues.apimachinery.conversion import Converter
from queues.queue import ROOT, Queue
from queues.states import Desired, State, StopPolicy
from queues.status.changes import (
    HistoryLine,
    changes_between,
    history_text,
    parse_history,
)
from queues.text import quoted
from webhooks.json_patch import PatchStep, patch_map
from webhooks.queues.queue_validation import (
    SubmittedQueue,
    own_refusal,
    pod_numbers,
    stored_queue,
    submitted_queue_decoder,
)
from webhooks.queues.requested_fields import owned_fields, requested_fields
from webhooks.review import ALLOWED, ReviewAnswer, ReviewRequest, decode_object, deny
from webhooks.settings import AdmissionSettings

#: What a new queue is to be, by the `status.state` that it comes with. That of a queue that is created again
#: from a copy can be any; Unknown came from its chain, and it wanted to be Open.
_DESIRED_BY_STATE = {
    State.OPEN: Desired.OPEN,
    State.CLOSED: Desired.CLOSED,
    State.CLOSING: Desired.CLOSED,
    State.SUSPENDED: Desired.SUSPENDED,
    State.UNKNOWN: Desired.OPEN,
}
#: Other false values are of a wrong type; the validating webhook refuses them.
_ABSENT = (None, "")
#: What the controller has carried out. No other user writes or removes it, by a replace for example.
CARRIED_OUT = (well_known.COMMANDS, well_known.RESUMED)

_queue = Converter[QueueObject](QueueObject)


def mutate(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the mutating webhook on CREATE and UPDATE."""
    own = request.user_info.username == settings.own_user
    if own and request.field_manager == well_known.EDGES:
        return ALLOWED
    submitted = decode_object(request.object, submitted_queue_decoder)
    creating = request.operation == "CREATE"
    before = (
        None if creating else decode_object(request.old_object, submitted_queue_decoder, where="oldObject")
    )
    dropped = NOTHING_DROPPED if own else _dropped(request, before, submitted)
    try:
        steps, spec = _spec_steps(submitted, before, kept=dropped.kept)
        windows = settle_edit(
            before.spec or {} if before is not None else None,
            spec,
            queue=submitted.metadata.name,
            now=store.clock.now(),
            own=own,
        )
        steps += _field_steps(spec, windows.fields)
        spec = {**spec, **windows.fields}
        after = _value(submitted.metadata, spec)
    except Unreadable as exc:
        return deny(str(exc), code=422)
    stored = stored_queue(before) if before is not None else None
    was_spec = (before.spec or {}) if before is not None else {}
    refused = own_refusal(stored, submitted.metadata, was_spec, spec, now=store.clock.now())
    if before is None or stored is None:
        return ReviewAnswer(
            patch=(*steps, *_history_steps(submitted, [], dict.fromkeys(CARRIED_OUT))),
            warnings=() if refused else windows.warnings,
        )
    was = queue_from_object(stored)
    steps += _policy_steps(spec, before.spec or {})
    same = _same(spec, before.spec or {})
    cleared = queue_edits.fields_to_clear(
        was,
        after,
        same=same,
        set_anew=_set_anew(request, before, submitted.metadata, spec, settings=settings) if same else (),
        now=store.clock.now(),
    )
    steps += [{"op": "remove", "path": f"/spec/{key}"} for key in cleared]
    reason = "" if queue_edits.REASON in cleared and queue_edits.REASON in same else after.reason
    after = _value(submitted.metadata, {key: value for key, value in spec.items() if key not in cleared})
    now, author = store.clock.now(), _author(request, submitted, settings=settings)
    lines = changes_between(was, after, by=author, reason=reason, at=now)
    history = parse_history(before.metadata.annotation(well_known.CHANGES))
    kept = {} if own else {key: before.metadata.annotation(key) or None for key in CARRIED_OUT}
    told = (
        ()
        if own
        else consequences(
            was,
            after,
            now=now,
            by=author,
            history=history,
            waiting=_released(was, after, store=store),
            other_stop=_end_of_other_stop(was, after, store=store),
        )
    )
    return ReviewAnswer(
        patch=(*steps, *_history_steps(submitted, [*history, *lines], kept)),
        warnings=() if refused else (*dropped.warnings, *(one.text for one in told), *windows.warnings),
    )


def _dropped(
    request: ReviewRequest, before: SubmittedQueue | None, submitted: SubmittedQueue
) -> DroppedFields:
    if before is None:
        return NOTHING_DROPPED
    return dropped_fields(
        submitted.metadata.name,
        _sent(before),
        _sent(submitted),
        manager=request.field_manager,
        owned=partial(owned_fields, request),
    )


def _sent(queue: SubmittedQueue) -> SentQueue:
    return SentQueue(spec=queue.spec or {}, status=queue.status or {})


def _released(was: Queue, wanted: Queue, *, store: Store) -> int:
    """The pods that wait in the queue and below it, and that a close would let run."""
    if not _closes_suspended(was, wanted):
        return 0
    tree = store.snapshot.tree
    return released_pods(
        was.name,
        before=tree.with_queue(was),
        after=tree.with_queue(wanted),
        pods=partial(pod_numbers, store),
        now=store.clock.now(),
    )


def _end_of_other_stop(was: Queue, wanted: Queue, *, store: Store) -> str:
    """When the pods run that a close of a suspended queue would let run; "" if at once."""
    if not _closes_suspended(was, wanted):
        return ""
    tree = store.snapshot.tree.with_queue(wanted)
    return end_of_other_stop(wanted.name, tree=tree, now=store.clock.now())


def _closes_suspended(was: Queue, wanted: Queue) -> bool:
    return was.desired is Desired.SUSPENDED and wanted.desired is Desired.CLOSED


def _spec_steps(
    queue: SubmittedQueue, before: SubmittedQueue | None, *, kept: Mapping[str, Any]
) -> tuple[list[PatchStep], dict[str, Any]]:
    """The steps for what is missing or misspelt in `spec`, and the spec then. `kept`: what is put back.

    Raises `Unreadable`.
    """
    submitted = {**(queue.spec or {}), **kept}
    wanted: dict[str, Any] = {**kept}
    if submitted.get("state") is None:
        if before is None:
            wanted["state"] = _requested_state((queue.status or {}).get("state"))
        elif (before.spec or {}).get("state") is not None:
            wanted["state"] = Desired.OPEN.value
    if queue.metadata.name != ROOT and submitted.get("parent") in _ABSENT:
        wanted["parent"] = ROOT
    other = submitted.get("SchedulerPolicy")
    if other and submitted.get("schedulerPolicy") in _ABSENT:
        wanted["schedulerPolicy"] = other
    spec = {**submitted, **wanted}
    if not queue.spec:
        return [{"op": "add", "path": "/spec", "value": spec}], spec
    return [{"op": "add", "path": f"/spec/{key}", "value": value} for key, value in wanted.items()], spec


def _field_steps(spec: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[PatchStep]:
    """`wanted`: None removes a field."""
    return [
        {"op": "remove", "path": f"/spec/{key}"}
        if value is None
        else {"op": "add", "path": f"/spec/{key}", "value": value}
        for key, value in wanted.items()
        if value is not None or key in spec
    ]


def _requested_state(state: object) -> str:
    """The `spec.state` for the `status.state` of a new queue. Raises `Unreadable` for what is no state."""
    if state in _ABSENT:
        return Desired.OPEN.value
    if not isinstance(state, str) or state not in {known.value for known in State}:
        shown = quoted(str(state), limit=80)
        raise Unreadable(f"status.state: {shown} is not known; use one of {', '.join(Desired)}")
    return _DESIRED_BY_STATE[State(state)].value


def _policy_steps(after: dict[str, Any], before: dict[str, Any]) -> list[PatchStep]:
    """Where both spellings are there and one is changed, the other is changed too."""
    spellings = ("SchedulerPolicy", "schedulerPolicy")
    changed = [key for key in spellings if after.get(key) != before.get(key)]
    if len(changed) != 1 or not after.get("SchedulerPolicy") or not after.get(changed[0]):
        return []
    other = spellings[1 - spellings.index(changed[0])]
    return [{"op": "add", "path": f"/spec/{other}", "value": after[changed[0]]}]


def _same(after: dict[str, Any], before: dict[str, Any]) -> frozenset[str]:
    """The fields of a stop that are there, with the same value before and after."""
    fields = queue_edits.STOP_FIELDS
    return frozenset(key for key in fields if after.get(key) and after.get(key) == before.get(key))


def _set_anew(
    request: ReviewRequest,
    before: SubmittedQueue,
    meta: Metadata,
    spec: dict[str, Any],
    *,
    settings: AdmissionSettings,
) -> frozenset[str]:
    return requested_fields(
        request, before=(before.metadata, before.spec or {}), after=(meta, spec), settings=settings
    )


def _author(request: ReviewRequest, submitted: SubmittedQueue, *, settings: AdmissionSettings) -> str:
    user = request.user_info.username
    behalf = submitted.metadata.annotation(well_known.ON_BEHALF_OF)
    return behalf if user == settings.own_user and behalf else user


def _history_steps(
    submitted: SubmittedQueue, lines: list[HistoryLine], kept: Mapping[str, str | None]
) -> list[PatchStep]:
    wanted = {well_known.CHANGES: history_text(lines), well_known.ON_BEHALF_OF: None, **kept}
    return patch_map("/metadata/annotations", submitted.metadata.annotations, wanted)


def _value(meta: Metadata, spec: dict[str, Any]) -> Queue:
    """Raises `Unreadable`, naming the field, its fault and so the fix."""
    try:
        obj = _queue({"metadata": msgspec.to_builtins(meta), "spec": spec})
    except msgspec.ValidationError as exc:
        raise Unreadable(str(exc).replace(" - at `$.", ", at `")) from exc
    for key, kind in (("state", Desired), ("stopPolicy", StopPolicy)):
        word = spec.get(key)
        if word is not None and word not in {member.value for member in kind}:
            shown = quoted(str(word), limit=80)
            raise Unreadable(f"spec.{key}: {shown} is not known; use one of {', '.join(kind)}")
    return queue_from_object(obj)
