"""hold, drain and stop: what they change in `spec.stopPolicy` and `spec.drain` of a queue.

Promises
- A patch holds only what differs; None removes a field.
- `reason` and `resumeAt` belong to a stop: they are set with it, and another policy removes those of the stop
  before, as admission does.
- Of `spec.drain` only the fields that were given change; a field that is set is replaced as a whole.
- No drain begins under a deadline that has passed: with afterDeadline Scale or Delete all would go at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from kubectl_queue.edit.operation import (
    Decision,
    StopFields,
    changed_fields,
    parent_verdict,
    patch_between,
    ungated_warnings,
)
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import Object, name_of, spec_of
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.views.acknowledgement import AcknowledgementWait, WaitCondition
from kubectl_queue.views.drain_status import DrainWait
from queues.apimachinery.timestamps import rfc3339
from queues.drain.model import parse_drain_spec
from queues.messages import stop_text
from queues.queue import Queue
from queues.states import Desired, State, StopPolicy
from queues.status.conditions import ACTIVE
from queues.verdict import Verdict

_OUTCOMES = {StopPolicy.HOLD: "held", StopPolicy.HOLD_AND_DRAIN: "draining"}
_UNCHANGED = {StopPolicy.HOLD: "it is held already", StopPolicy.HOLD_AND_DRAIN: "it is to be drained already"}
#: What a `spec.drain` without the field means: not worth a message.
_ENDED = {"scale": "deleted, or their workloads brought to zero", "delete": "deleted"}
_DEFAULTS = {"barePods": "Evict", "brokenGangs": "Keep", "afterDeadline": "Keep"}


@dataclass(frozen=True, kw_only=True)
class StopPolicyOperation:
    """Hold or HoldAndDrain.

    `drain`: the fields of `spec.drain` to set; None removes one.
    """

    policy: StopPolicy
    stop: StopFields = field(default_factory=StopFields)
    drain: Mapping[str, Any] = field(default_factory=dict)

    def refusal(self, name: str) -> str | None:
        """Any queue may have a stop policy."""
        return None

    def decide(self, *, item: Object, queues: QueueObjects) -> Decision:
        queue, present = queues.tree.queues[name_of(item)], spec_of(item)
        _check_resume_time(self, queues.own_state(queue.name), name=queue.name)
        drain = self._drain_spec(present)
        begins = queue.own_stop_policy_at(queues.now) is not self.policy
        if begins and self.policy is StopPolicy.HOLD_AND_DRAIN:
            _check_deadline(drain, now=queues.now, name=queue.name)
        fields = changed_fields(self._stop_fields(begins=begins), present)
        drain_patch = patch_between(present.get("drain") or {}, drain)
        if not fields and not drain_patch:
            return Decision(outcome=f"unchanged ({_UNCHANGED[self.policy]})")
        until = self.stop.until
        edited = ", ".join((*fields, *(f"drain.{key}" for key in drain_patch)))
        outcome = _OUTCOMES[self.policy] + until if begins or until else f"edited ({edited})"
        return Decision(outcome=outcome, patch={**fields, "drain": drain_patch} if drain_patch else fields)

    def _drain_spec(self, present: Mapping[str, Any]) -> dict[str, Any]:
        """`spec.drain` as it will be."""
        fields = {**(present.get("drain") or {}), **self.drain}
        return {key: value for key, value in fields.items() if value is not None}

    def _stop_fields(self, *, begins: bool) -> dict[str, Any]:
        if not begins:
            return self.stop.for_present_stop()
        return {"stopPolicy": self.policy.value, **self.stop.for_new_stop()}

    def warnings(self, name: str, *, before: QueueObjects, after: QueueObjects) -> list[str]:
        """What else stops the queue, what ends at the same time, which settings an earlier drain left, what
        pods without the gate cost.
        """
        queue = after.tree.queues[name]
        return [
            *_stops_of_ancestors(queue, after, policy=self.policy),
            *_resume_times(self, queue),
            *(_old_settings(self, after.items[name]) if self.policy is StopPolicy.HOLD_AND_DRAIN else ()),
            *ungated_warnings(name, after=after),
        ]

    def wait_condition(self, verdict: Verdict) -> WaitCondition:
        if self.policy is StopPolicy.HOLD_AND_DRAIN:
            return DrainWait()
        return AcknowledgementWait(condition=ACTIVE, wanted=verdict.schedules)


def _check_resume_time(operation: StopPolicyOperation, own: State, *, name: str) -> None:
    """Raises QueueError for a time to resume on a queue that is to be Closed."""
    if operation.stop.resume_at is not None and own in {State.CLOSING, State.CLOSED}:
        raise QueueError(
            f'queue "{name}" is {own}, which no time undoes: --for and --until cannot be set; leave them '
            f"out, or open it first: kubectl queue open {name}"
        )


def _check_deadline(drain: Mapping[str, Any], *, now: datetime, name: str) -> None:
    """Raises QueueError for a deadline that has passed, and for Scale or Delete without a deadline."""
    end = {"Scale": "scale", "Delete": "delete"}.get(str(drain.get("afterDeadline")))
    if end and drain.get("deadline") is None:
        raise QueueError(
            f'queue "{name}": --{end}-after-deadline needs a deadline; give one, as in --deadline 2h'
        )
    spec = parse_drain_spec(drain)
    if spec.deadline is None or not spec.overdue(now):
        return
    result = (
        f"its pods would be {_ENDED[end]}, whatever their budgets say" if end else "nothing would be evicted"
    )
    raise QueueError(
        f'queue "{name}": the deadline of its spec.drain, {rfc3339(spec.deadline)}, has passed, so {result}; '
        "give another with --deadline, or --deadline=none"
    )


def _stops_of_ancestors(queue: Queue, after: QueueObjects, *, policy: StopPolicy) -> Iterator[str]:
    judged = parent_verdict(queue, after)
    if judged is not None and judged.stop is not None:
        yield stop_text(replace(judged.stop, queue=queue.name))
    if judged is not None and judged.drains and policy is StopPolicy.HOLD:
        yield (
            f'queue "{queue.name}" is drained all the same, by stopPolicy HoldAndDrain of its ancestor '
            f'"{judged.policy_by}"'
        )


def _resume_times(operation: StopPolicyOperation, after: Queue) -> Iterator[str]:
    suspended = after.desired is Desired.SUSPENDED
    if suspended and operation.stop.resume_at is not None:
        yield f'the suspension of queue "{after.name}" ends at the same time'


def _old_settings(operation: StopPolicyOperation, item: Object) -> Iterator[str]:
    """The settings that an earlier drain left."""
    stored = spec_of(item).get("drain") or {}
    settings = {key: value for key, value in stored.items() if _DEFAULTS.get(key) != value}
    texts = [
        f"{key} {_setting_text(key, value)}" for key, value in settings.items() if key not in operation.drain
    ]
    if texts:
        yield f'queue "{name_of(item)}" keeps from before, in spec.drain: {", ".join(texts)}'


def _setting_text(key: str, value: Any) -> str:
    keep = parse_drain_spec({"keep": value}).keep if key == "keep" else None
    return (str(keep) or "everything") if keep is not None else str(value)
