"""What hold, drain and stop make of a queue: an edit of `spec.stopPolicy` and `spec.drain`, or nothing.

Promises
- An edit holds only what differs, as a JSON merge patch of `spec`; None removes a field.
- `reason` and `resumeAt` belong to a stop: they are set with it, and a change of policy takes those of the
  stop before away, as admission does.
- Of `spec.drain` only the fields that were asked for change, and a field that is set is set whole.
- Nothing begins to drain under a deadline that is over: with afterDeadline Delete every pod would be deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from kubectl_queue.access.responses import Object
from kubectl_queue.drain.progress import Emptied
from kubectl_queue.edit.decide import (
    Decision,
    above,
    differing,
)
from kubectl_queue.edit.merge_patch import replacing
from kubectl_queue.edit.wait import Awaited, Goal
from kubectl_queue.errors import QueueError
from kubectl_queue.output.ages import written
from kubectl_queue.snapshot import (
    Snapshot,
    name,
    spec,
)
from queues.drain.model import parse_drain_spec
from queues.messages import stop_text
from queues.queue import Queue
from queues.states import Desired, State, StopPolicy
from queues.status.conditions import ACTIVE
from queues.verdict import Verdict

_SAID = {StopPolicy.HOLD: "held", StopPolicy.HOLD_AND_DRAIN: "draining"}
_ALREADY = {StopPolicy.HOLD: "it is held already", StopPolicy.HOLD_AND_DRAIN: "it is to be drained already"}
#: What a `spec.drain` without the field means; it is not worth a word.
_DEFAULTS = {"barePods": "Evict", "afterDeadline": "Keep"}


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """What the command line asks for: Hold or HoldAndDrain.

    `reason` None: not a word was said of it. `drain`: the fields of `spec.drain` to set; None takes one away.
    `bar`: how far a drain is may be drawn.
    """

    policy: StopPolicy
    reason: str | None = None
    resume_at: datetime | None = None
    drain: Mapping[str, Any] = field(default_factory=dict)
    bar: bool = False

    def refusal(self, name: str) -> str | None:
        """Any queue may have a stop policy."""
        return None

    def decide(self, *, item: Object, snapshot: Snapshot) -> Decision:
        """The decision for the queue `item`, which is in the snapshot. Raises QueueError."""
        queue, present = snapshot.tree.queues[name(item)], spec(item)
        _see_that_it_may_resume(self, snapshot.own_state(queue.name), named=queue.name)
        drain = self.drained(present)
        turned = queue.stop_policy_at(snapshot.now) is not self.policy
        if turned and self.policy is StopPolicy.HOLD_AND_DRAIN:
            _see_that_it_may_begin(drain, now=snapshot.now, named=queue.name)
        edit = differing(self._turned() if turned else self._reworded(), present)
        patch = replacing(present.get("drain") or {}, drain)
        if not edit and not patch:
            return Decision(said=f"unchanged ({_ALREADY[self.policy]})")
        until = f" until {written(self.resume_at)}" if self.resume_at else ""
        fields = [*edit, *(f"drain.{key}" for key in patch)]
        said = _SAID[self.policy] + until if turned or until else f"edited ({', '.join(fields)})"
        return Decision(said=said, edit={**edit, "drain": patch} if patch else edit)

    def drained(self, present: Mapping[str, Any]) -> dict[str, Any]:
        """`spec.drain` as it will be. Raises QueueError where that would delete at no time."""
        held = {**(present.get("drain") or {}), **self.drain}
        return {key: value for key, value in held.items() if value is not None}

    def _turned(self) -> dict[str, Any]:
        at = written(self.resume_at) if self.resume_at else None
        return {"stopPolicy": self.policy.value, "reason": self.reason or None, "resumeAt": at}

    def _reworded(self) -> dict[str, Any]:
        edit: dict[str, Any] = {}
        if self.reason is not None:
            edit["reason"] = self.reason or None
        if self.resume_at is not None:
            edit["resumeAt"] = written(self.resume_at)
        return edit

    def afterthoughts(self, named: str, *, before: Snapshot, after: Snapshot) -> list[str]:
        """What an operator should know: who else stops the queue, what ends with this, what still holds."""
        queue = after.tree.queues[named]
        return [
            *_ancestors(queue, after, policy=self.policy),
            *_times(self, before.tree.queues.get(named, queue), queue),
            *(_left_over(self, after.items[named]) if self.policy is StopPolicy.HOLD_AND_DRAIN else ()),
        ]

    def goal(self, verdict: Verdict) -> Awaited:
        if self.policy is StopPolicy.HOLD_AND_DRAIN:
            return Emptied(bar=self.bar)
        return Goal(condition=ACTIVE, wanted=verdict.schedules)


def _see_that_it_may_resume(wish: Stopping, own: State, *, named: str) -> None:
    if wish.resume_at is not None and own in {State.CLOSING, State.CLOSED}:
        raise QueueError(
            f'queue "{named}" is {own}, which no time undoes: --for and --until cannot be set; leave them '
            f"out, or open it first: kubectl queue open {named}"
        )


def _see_that_it_may_begin(drain: Mapping[str, Any], *, now: datetime, named: str) -> None:
    deletes = drain.get("afterDeadline") == "Delete"
    if deletes and drain.get("deadline") is None:
        raise QueueError(
            f'queue "{named}": --delete-after-deadline needs a deadline; give one, as in --deadline 2h'
        )
    wishes = parse_drain_spec(drain)
    if wishes.deadline is None or not wishes.overdue(now):
        return
    then = "and its pods would be deleted, whatever their budgets say" if deletes else "so nothing would go"
    raise QueueError(
        f'queue "{named}": the deadline of its spec.drain, {written(wishes.deadline)}, has passed, {then}; '
        "give another with --deadline, or --deadline=none"
    )


def _ancestors(queue: Queue, after: Snapshot, *, policy: StopPolicy) -> Iterator[str]:
    judged = above(queue, after)
    if judged is not None and judged.stop is not None:
        yield stop_text(replace(judged.stop, queue=queue.name))
    if judged is not None and judged.drains and policy is StopPolicy.HOLD:
        yield (
            f'queue "{queue.name}" is drained all the same, by stopPolicy HoldAndDrain of its ancestor '
            f'"{judged.policy_by}"'
        )


def _times(wish: Stopping, before: Queue, after: Queue) -> Iterator[str]:
    suspended = after.desired is Desired.SUSPENDED
    if suspended and wish.resume_at is not None:
        yield f'the suspension of queue "{after.name}" ends at the same time'
    elif suspended and before.resumes is not None and after.resumes is None:
        yield (
            f'queue "{after.name}" is Suspended too, and no longer until {written(before.resumes)}: that '
            "time belonged to the stop before; set one with --until"
        )


def _left_over(wish: Stopping, item: Object) -> Iterator[str]:
    """The settings that an earlier drain left behind."""
    held = spec(item).get("drain") or {}
    stored = {key: value for key, value in held.items() if _DEFAULTS.get(key) != value}
    texts = [f"{key} {_shown(key, value)}" for key, value in stored.items() if key not in wish.drain]
    if texts:
        yield f'queue "{name(item)}" keeps from before, in spec.drain: {", ".join(texts)}'


def _shown(key: str, value: Any) -> str:
    keep = parse_drain_spec({"keep": value}).keep if key == "keep" else None
    return (str(keep) or "everything") if keep is not None else str(value)
