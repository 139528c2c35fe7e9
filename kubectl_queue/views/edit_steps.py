"""The way of an edit, step by step: written, seen, acknowledged, and for a drain or a close its end.

Promises
- A step is done only once those before it are.
- The last steps are those for which `--wait` waits, by the same conditions.
- A step that is not done says what is missing, such as the replica that the acknowledgement waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kubectl_queue.objects.fields import Object, generation_of, status_of
from kubectl_queue.views.acknowledgement import AcknowledgementWait, WaitCondition, edit_progress
from kubectl_queue.views.drain_status import DrainWait
from queues.status.conditions import ACTIVE
from queues.status.stop_status import ObservedChain, waiting_for


class EditStep(msgspec.Struct, frozen=True, kw_only=True):
    """`text`: what is missing, or what has come of it."""

    name: str
    done: bool
    text: str = ""


class EditSteps(msgspec.Struct, frozen=True, kw_only=True):
    """`never`: why it will never end, as far as is known. `left`, `gone`: pods of a drain, where counted."""

    steps: Sequence[EditStep]
    never: str = ""
    left: int | None = None
    gone: int | None = None


def edit_steps(
    condition: WaitCondition, items: Sequence[Object], *, since: int, chain: ObservedChain
) -> EditSteps:
    """`items`: the queue first, then those below it. `since`: the generation of the edit.

    Raises QueueError where a drain was ended meanwhile.
    """
    progress = edit_progress(condition, items, since=since, chain=chain)
    steps: list[EditStep] = []
    for step in _steps(condition, items, since=since, chain=chain):
        is_reached = all(each.done for each in steps)
        steps.append(step if is_reached else msgspec.structs.replace(step, done=False, text=""))
    return EditSteps(steps=steps, never=progress.never, left=progress.left, gone=progress.gone)


def _steps(
    condition: WaitCondition, items: Sequence[Object], *, since: int, chain: ObservedChain
) -> Iterator[EditStep]:
    item = items[0]
    yield EditStep(name="Written", done=generation_of(item) >= since)
    observed = int(status_of(item).get("observedGeneration") or 0)
    waits = waiting_for(status_of(item).get("stop"))
    yield EditStep(name="Seen", done=observed >= since, text=waits if observed < since else "")
    first, end = _conditions(condition)
    missing = first.missing(item, since=since, chain=chain)
    yield EditStep(name="Acknowledged", done=not missing, text=missing or first.done(items))
    if end:
        missing = condition.missing(item, since=since, chain=chain)
        text = f"{missing}; {condition.remaining(items)}" if missing else condition.done(items)
        yield EditStep(name=end, done=not missing, text=text)


def _conditions(condition: WaitCondition) -> tuple[WaitCondition, str]:
    """What acknowledges the edit, and the name of the step at the end; "" where that is all."""
    if isinstance(condition, DrainWait):
        return AcknowledgementWait(condition=ACTIVE, wanted=False), "Drained"
    if isinstance(condition, AcknowledgementWait) and condition.state is not None:
        return msgspec.structs.replace(condition, state=None), str(condition.state)
    return condition, ""
