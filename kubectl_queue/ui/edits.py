"""Edits from the page: previewed in the plugin's text, then written as they were previewed, or not at all.

Invariants
- What is written was decided on the spec that the viewer saw: where the queue has another uid or generation
  meanwhile, nothing is written, and the answer says who changed it. A status that was written meanwhile is no
  change of the viewer's concern: the write, guarded by resourceVersion, is tried again on it.
- An occurrence of a window is the one of the preview: where time has made it another one, nothing is written.
- What the plugin would ask before (`asked`), the viewer has to have agreed to; for `root` its name is typed.
- The API server decides who may: a refusal is passed on in its words.

Threads: any; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubectl_queue.access.client import ApiClient, Queues
from kubectl_queue.cli.options import DryRun
from kubectl_queue.drain.inventory import InventoryReader
from kubectl_queue.edit.command_lines import EditLine, operation_of
from kubectl_queue.edit.consequences import all_texts, asked_texts
from kubectl_queue.edit.operation import Operation
from kubectl_queue.edit.preview import preview_edit
from kubectl_queue.edit.window_operation import window_wait
from kubectl_queue.errors import ConflictError, QueueError
from kubectl_queue.objects.fields import Object, generation_of, spec_of, value_at
from kubectl_queue.objects.queues import QueueObjects, changes_of
from kubectl_queue.views.drain_preview import (
    PreviewSection,
    may_evict_more_bare_pods,
    newly_evicted_bare_pods,
    previews,
)
from kubectl_queue.views.edit_steps import EditSteps, edit_steps
from kubectl_queue.views.text import plural
from queues.queue import ROOT
from queues.text import join_limited, printable

_ATTEMPTS = 5
_CONFLICT = 409
#: Bare pods that are named.
_NAMED = 20


class RequestedEdit(msgspec.Struct, frozen=True):
    """An edit: a verb with the values of its flags; of a `window`, where the verb is for one."""

    verb: str
    values: dict[str, str] = {}
    window: str = ""

    @property
    def line(self) -> EditLine:
        return EditLine(self.verb, self.values, self.window)


class Agreed(RequestedEdit, frozen=True):
    """What the viewer has seen and said: `uid`, `generation` and `outcome` as in the preview; `typed`: the
    name of the queue.
    """

    uid: str = ""
    generation: int = 0
    outcome: str = ""
    typed: str = ""
    agreed: bool = False


DECODE_WANTED = msgspec.json.Decoder(RequestedEdit)
DECODE_AGREED = msgspec.json.Decoder(Agreed)


class Preview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`refusal`: why it is not done. `is_change`: False where the queue is so already.

    `asked`: what the viewer has to agree to. `types_name`: whether the name has to be typed. `pods`: whether
    it evicts pods, so that `drain_pods` has something to say. `values`: those to write with, in which the
    times are the ones that were shown.
    """

    command: str
    outcome: str
    refusal: str
    is_change: bool
    warnings: Sequence[str]
    asked: Sequence[str]
    types_name: bool
    pods: bool
    values: Mapping[str, str]
    uid: str
    generation: int


class DrainSections(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's policy: what goes, what stays, what is blocked."""

    summary: str
    sections: Sequence[PreviewSection]


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    drains: Sequence[DrainSections]
    warnings: Sequence[str]


class EditResult(msgspec.Struct, frozen=True, kw_only=True):
    """`generation`: of the spec that was written, or is there already."""

    outcome: str
    warnings: Sequence[str]
    generation: int


def preview(wanted: RequestedEdit, name: str, queues: QueueObjects) -> Preview:
    """Raises QueueError where it cannot be done."""
    operation = operation_of(wanted.line, name, queues, simulates=True)
    shown = preview_edit(operation, name, queues)
    texts = all_texts(name, before=queues, after=shown.after) if shown.patch else ()
    item = queues.items[name]
    evicts = bool(shown.patch) and _evicts_more(queues, shown.after)
    return Preview(
        command=wanted.line.command(name),
        outcome=shown.outcome,
        refusal=shown.refusal,
        is_change=bool(shown.patch),
        warnings=list(dict.fromkeys((*texts, *shown.warnings))),
        asked=_asked(operation, name, queues),
        types_name=name == ROOT,
        pods=evicts,
        values=_with_times(wanted, shown.patch, item),
        uid=_uid(item),
        generation=generation_of(item),
    )


def _with_times(wanted: RequestedEdit, patch: Mapping[str, Any], item: Object) -> Mapping[str, str]:
    """A span from now is another time when it is written."""
    fixed = dict(wanted.values)
    if wanted.line.is_of_window:
        until = _new_end(patch, item)
        return {**{key: value for key, value in fixed.items() if key != "for"}, **until} if until else fixed
    if fixed.get("for") and patch.get("resumeAt"):
        del fixed["for"]
        fixed["until"] = patch["resumeAt"]
    deadline = (patch.get("drain") or {}).get("deadline")
    if fixed.get("deadline") and deadline:
        fixed["deadline"] = deadline
    return fixed


def _new_end(patch: Mapping[str, Any], item: Object) -> dict[str, str]:
    """Of the occurrence that is to begin now or to end later: of the override that the patch adds."""
    raw = spec_of(item).get("windowOverrides")
    before = raw if isinstance(raw, list) else []
    added = [
        each["until"] for each in patch.get("windowOverrides") or () if each not in before and "until" in each
    ]
    return {"until": added[-1]} if added else {}


def _asked(operation: Operation, name: str, queues: QueueObjects) -> list[str]:
    return list(asked_texts(operation, [name], queues))


def _evicts_more(before: QueueObjects, after: QueueObjects) -> bool:
    """Whether a queue comes to drain, or by another policy, or a policy evicts pods that it left alone."""
    drained = before.decisions.draining_queues()
    more = after.decisions.draining_queues().items()
    return any(set(names) - set(drained.get(by, ())) for by, names in more) or may_evict_more_bare_pods(
        before=before, after=after
    )


def drain_pods(wanted: RequestedEdit, name: str, queues: QueueObjects, client: ApiClient) -> Pods:
    """What `--dry-run` says of the pods, read with the viewer's rights."""
    operation = operation_of(wanted.line, name, queues, simulates=True)
    after = preview_edit(operation, name, queues).after
    warnings: list[str] = []
    reader = InventoryReader(client, namespace=lambda: "default", warn=warnings.append)
    inventory = reader.read(after, names=[name])
    bare = newly_evicted_bare_pods(inventory, before=queues, after=after)
    if bare:
        named = join_limited([str(pod) for pod in bare], limit=_NAMED)
        count = plural(len(bare), "pod")
        warnings.append(
            f"{count} without a controller would be evicted, and nothing makes them again: {named}"
        )
    drains = [
        DrainSections(summary=each.summary, sections=each.sections)
        for each in previews(inventory, after, names=[name])
    ]
    return Pods(drains=drains, warnings=warnings)


def write(agreed: Agreed, name: str, queues: QueueObjects, api: Queues) -> tuple[EditResult, Object]:
    """What was written, and the queue as it is then. `queues`: as the board has them.

    Raises QueueError; ConflictError where the queue is not the one of the preview.
    """
    operation = operation_of(agreed.line, name, queues)
    _check_said(agreed, operation, name, queues)
    for attempt in range(_ATTEMPTS):
        item = _checked(api.get(name), agreed, name)
        queues = queues.with_item(item, now=api.now)
        before = preview_edit(operation, name, queues)
        _check_occurrence(agreed, before.outcome)
        if before.refusal:
            raise QueueError(before.refusal)
        if not before.patch:
            break
        try:
            item = api.patch(name, _guarded(item, before.patch), dry_run=DryRun.NONE)
            item = _patched_again(operation, name, item, queues, api)
            break
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
    after = queues.with_item(item, now=api.now)
    warnings = operation.warnings(name, before=queues, after=after)
    return EditResult(outcome=before.outcome, warnings=warnings, generation=generation_of(item)), item


def _patched_again(
    operation: Operation, name: str, item: Object, queues: QueueObjects, api: Queues
) -> Object:
    """A reason or time as that of the stop before is removed by admission, and so is set once more."""
    again = preview_edit(operation, name, queues.with_item(item, now=api.now))
    return api.patch(name, _guarded(item, again.patch), dry_run=DryRun.NONE) if again.patch else item


def _guarded(item: Object, spec: Mapping[str, Any]) -> Object:
    return {"metadata": {"resourceVersion": item["metadata"]["resourceVersion"]}, "spec": spec}


def _check_said(agreed: Agreed, operation: Operation, name: str, queues: QueueObjects) -> None:
    if name == ROOT and agreed.typed != ROOT:
        raise QueueError("queue root is above all others: type its name to do this")
    if not agreed.agreed and name in queues.items and _asked(operation, name, queues):
        raise QueueError("nothing was changed: what this loses was not agreed to")


def _check_occurrence(agreed: Agreed, outcome: str) -> None:
    """Another occurrence may be on by now, or the next one, though nothing was written."""
    if agreed.line.is_of_window and outcome != agreed.outcome:
        raise ConflictError(
            f"nothing was changed: by now it would be {outcome}; look at the preview again",
            code=_CONFLICT,
        )


def _checked(item: Object, agreed: Agreed, name: str) -> Object:
    if _uid(item) == agreed.uid and generation_of(item) == agreed.generation:
        return item
    if _uid(item) != agreed.uid:
        raise ConflictError(f'queue "{name}" was deleted and made again meanwhile', code=_CONFLICT)
    changes = changes_of(item)
    last = changes[-1] if changes else None
    who = (
        f" by {printable(last.by)}: {last.field} from {printable(last.from_) or 'nothing'} to "
        f"{printable(last.to) or 'nothing'}"
        if last is not None
        else ""
    )
    raise ConflictError(
        f'nothing was changed: queue "{name}" was changed meanwhile{who}; look at the preview again',
        code=_CONFLICT,
    )


def with_warning(shown: Preview, text: str) -> Preview:
    return msgspec.structs.replace(shown, warnings=[*shown.warnings, text])


def with_warnings(written: EditResult, texts: Sequence[str]) -> EditResult:
    """With what the API server warned of, which comes first."""
    return msgspec.structs.replace(written, warnings=list(dict.fromkeys((*texts, *written.warnings))))


def progress(verb: str, name: str, queues: QueueObjects, *, since: int) -> EditSteps:
    """How far an edit with this verb is. Raises QueueError where a drain was ended meanwhile."""
    verdict = queues.decisions.verdict(name, live=True)
    values = {"parent": ROOT} if verb == "move" else {}
    line = EditLine(verb, values)
    if line.is_of_window:
        condition = window_wait(verdict)
    else:
        condition = operation_of(line, name, queues).wait_condition(verdict)
    return edit_steps(condition, queues.from_top(name), since=since, chain=queues.chain(name))


def _uid(item: Object) -> str:
    return str(value_at(item, "metadata.uid") or "")
