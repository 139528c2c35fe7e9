"""What an operation would do to a queue, as a value: for who is asked before it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubectl_queue.edit.operation import Operation, apply_patch
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.queues import QueueObjects


class EditPreview(msgspec.Struct, frozen=True, kw_only=True):
    """As in `edit.operation.Decision`, with what the user should know once it is done.

    `resource_version`: what was decided on, to guard the write with. `after`: the queues as they would be.
    """

    name: str
    outcome: str
    refusal: str
    patch: Mapping[str, Any]
    resource_version: str
    warnings: tuple[str, ...]
    after: QueueObjects


def preview_edit(operation: Operation, name: str, queues: QueueObjects) -> EditPreview:
    """For a queue that was read. Raises QueueError where the operation cannot be done."""
    never = operation.refusal(name)
    if never:
        raise QueueError(never)
    item = queues.items[name]
    decision = operation.decide(item=item, queues=queues)
    after = queues
    if decision.patch:
        after = queues.with_item(apply_patch(item, {"spec": decision.patch}), now=queues.now)
    return EditPreview(
        name=name,
        outcome=decision.outcome,
        refusal=decision.refusal,
        patch=decision.patch,
        resource_version=str(item["metadata"].get("resourceVersion") or ""),
        warnings=tuple(operation.warnings(name, before=queues, after=after)),
        after=after,
    )


def edited(operation: Operation, names: Iterable[str], queues: QueueObjects) -> QueueObjects:
    """The queues as they would be after all edits; those that cannot be edited stay as they are."""
    for name in names:
        try:
            queues = preview_edit(operation, name, queues).after if name in queues.items else queues
        except QueueError:
            continue
    return queues
