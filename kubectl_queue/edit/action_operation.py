"""open, close, suspend and resume: what each of these actions changes in the spec of a queue.

Promises
- The tables are those of `queues.states`. Where they say "nothing", there is no patch, and the outcome says
  why.
- A patch holds only what differs; None removes a field.
- `reason` and `resumeAt` belong to a stop: they are set with it and removed with it.
- A queue that is stopped so already still takes a new `reason` or `resumeAt`.
- `resume` also undoes a stop policy, as Kueue's does, and leaves out the queue's own windows that are on,
  until they begin again (`queues.windows.resuming`). It never undoes Closed, nor a window of an ancestor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from kubectl_queue.edit.operation import (
    Decision,
    StopFields,
    changed_fields,
    parent_verdict,
    ungated_warnings,
)
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import Object, name_of, spec_of
from kubectl_queue.objects.queues import QueueObjects, may_be_live
from kubectl_queue.views.acknowledgement import WaitCondition, acknowledgement_wait
from queues.admission.command_validation import action_refusal
from queues.admission.queue_edits import opening_text
from queues.messages import refusal_text, stop_text
from queues.queue import Queue
from queues.states import ACTIONS, Action, Desired, State, StopPolicy
from queues.text import quoted
from queues.verdict import Verdict
from queues.windows.edges import read_calendar, settle
from queues.windows.entries import read_entries, to_wire
from queues.windows.refusals import WindowError
from queues.windows.resuming import Resumed, resume_windows

_OUTCOMES: Mapping[Action, str] = {
    Action.OPEN: "opened",
    # Closed it is once nothing is left: also Jobs without pods count, which no status does.
    Action.CLOSE: "closing",
    Action.SUSPEND: "suspended",
    Action.RESUME: "resumed",
}
_SUSPEND_CLOSED = 'queue "{name}" is Closed and cannot be suspended; open it first: kubectl queue open {name}'
_CLOSED_STATES = frozenset({State.CLOSING, State.CLOSED})
#: The states that an action leads to: in these the queue still takes a new reason or time.
_REACHED: Mapping[Action, frozenset[State]] = {
    Action.CLOSE: _CLOSED_STATES,
    Action.SUSPEND: frozenset({State.SUSPENDED}),
}


@dataclass(frozen=True, kw_only=True)
class ActionOperation:
    """One of the actions of Commands. `wait_for`: what --wait waits for besides the acknowledgement.
    `simulates`: the patch is not sent, so what the server adds to it is added here.
    """

    action: Action
    stop: StopFields = field(default_factory=StopFields)
    wait_for: State | None = None
    simulates: bool = False

    def refusal(self, name: str) -> str | None:
        return action_refusal(name, self.action)

    def decide(self, *, item: Object, queues: QueueObjects) -> Decision:
        queue = queues.tree.queues[name_of(item)]
        own = queues.own_state(queue.name)
        target = ACTIONS[self.action][own]
        if target is Desired.OPEN and queue.terminating:
            return Decision(outcome="unchanged", refusal=opening_text(queue.name))
        patch = changed_fields(self._fields(queue, own=own, target=target), spec_of(item))
        windows = self._windows(item, now=queues.now)
        if windows.overrides is not None:
            return self._with_windows(item, patch, windows, now=queues.now)
        if not patch and queue.terminating and own in _CLOSED_STATES:
            return Decision(outcome="unchanged (it is being deleted)")
        if not patch:
            why = _why_unchanged(self.action, name=queue.name, own=own)
            refused = self.action is Action.SUSPEND and own is State.CLOSED
            return Decision(
                outcome=f"unchanged ({why})",
                refusal=_SUSPEND_CLOSED.format(name=queue.name) if refused else "",
            )
        return Decision(outcome=self._outcome(target, patch), patch=patch)

    def _windows(self, item: Object, *, now: datetime) -> Resumed:
        if self.action is not Action.RESUME:
            return Resumed()
        try:
            return resume_windows(spec_of(item), now=now)
        except WindowError as exc:
            raise QueueError(f"queue {quoted(name_of(item))}: {exc}") from exc

    def _with_windows(
        self, item: Object, patch: Mapping[str, Any], windows: Resumed, *, now: datetime
    ) -> Decision:
        """Also what its own spec asks for, if anything, is undone."""
        fields: dict[str, Any] = {**patch, "windowOverrides": windows.overrides}
        if self.simulates:
            spec = {**spec_of(item), **fields}
            found = settle(read_calendar(spec), read_entries(spec.get("inWindow")), now)
            fields["inWindow"] = to_wire(found.entries) or None
        names = ", ".join(windows.ended)
        what = f"window {names} is" if len(windows.ended) == 1 else f"windows {names} are"
        return Decision(outcome=f"resumed ({what} left out until the next beginning)", patch=fields)

    def _fields(self, queue: Queue, *, own: State, target: Desired | None) -> dict[str, Any]:
        """All fields that the action sets, whether they differ or not."""
        if self.action is Action.RESUME:
            return _resume_fields(queue, own=own, target=target)
        if target is None:
            return self.stop.for_present_stop() if own in _REACHED.get(self.action, ()) else {}
        if self.action is Action.OPEN:
            return {"state": target.value, "resumeAt": None, "reason": None}
        return {"state": target.value, **self.stop.for_new_stop()}

    def _outcome(self, target: Desired | None, patch: Mapping[str, Any]) -> str:
        until = self.stop.until
        if target is not None or until:
            return _OUTCOMES[self.action] + until
        return "resumed (stopPolicy None)" if self.action is Action.RESUME else f"edited ({', '.join(patch)})"

    def warnings(self, name: str, *, before: QueueObjects, after: QueueObjects) -> list[str]:
        """What else stops the queue, what ends at the same time, what pods without the gate cost."""
        return [
            *self._other_stops(name, after),
            *(ungated_warnings(name, after=after) if self.action is Action.SUSPEND else ()),
        ]

    def _other_stops(self, name: str, after: QueueObjects) -> list[str]:
        verdict = after.decisions.verdict(name, live=may_be_live(after.items[name]))
        queue = after.tree.queues[name]
        undoes_a_stop = self.action in {Action.OPEN, Action.RESUME}
        judged = verdict if undoes_a_stop else parent_verdict(queue, after)
        texts = _stop_texts(judged, name=name, state=verdict.state, action=self.action) if judged else []
        if self.stop.resume_at is not None and _has_stop_policy(queue):
            texts.append(f'stopPolicy {queue.stop_policy} of queue "{name}" ends at the same time')
        return texts

    def wait_condition(self, verdict: Verdict) -> WaitCondition:
        return acknowledgement_wait(self.action, verdict, state=self.wait_for)


def _has_stop_policy(queue: Queue) -> bool:
    return queue.stop_policy is not StopPolicy.NONE


def _resume_fields(queue: Queue, *, own: State, target: Desired | None) -> dict[str, Any]:
    """Undo Suspended and the stop policy; Closed stays, and so does the reason for it."""
    if target is None and not _has_stop_policy(queue):
        return {}
    fields: dict[str, Any] = {"stopPolicy": StopPolicy.NONE.value, "resumeAt": None}
    if target is not None:
        fields["state"] = target.value
    return fields if own in _CLOSED_STATES else {**fields, "reason": None}


def _why_unchanged(action: Action, *, name: str, own: State) -> str:
    if own in _CLOSED_STATES and action is Action.RESUME:
        return f"it is {own}, which resume does not undo; reopen it with: kubectl queue open {name}"
    if own is State.CLOSED and action is Action.SUSPEND:
        return f"it is Closed and cannot be suspended; open it first: kubectl queue open {name}"
    if own is State.UNKNOWN:
        return "it asks to be Open already, but its chain of parents is broken"
    return "it is not stopped itself" if action is Action.RESUME else f"it is {own} already"


def _stop_texts(judged: Verdict, *, name: str, state: State, action: Action) -> list[str]:
    texts = []
    if judged.stop is not None and action is not Action.CLOSE:
        texts.append(stop_text(replace(judged.stop, queue=name)))
    if judged.refusal is not None and action in {Action.OPEN, Action.CLOSE}:
        text = refusal_text(replace(judged.refusal, queue=name), state=state)
        # A broken chain neither schedules nor accepts: one text is enough.
        texts += [] if judged.broken and texts else [text]
    return texts
