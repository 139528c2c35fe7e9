"""What open, close, suspend and resume make of a queue: an edit of `spec`, or nothing.

Promises
- The tables are those of `queues.states`: what is nothing there is nothing here, and is said.
- An edit holds only what differs, as a JSON merge patch of `spec`; None removes a field.
- `reason` and `resumeAt` belong to a stop: they are set with it and go with it.
- A queue that asks already for what is wanted still takes a new `reason` or `resumeAt`.
- `resume` undoes a stop policy too, as Kueue's does, and never Closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from kubectl_queue.access.responses import Object
from kubectl_queue.output.ages import written
from kubectl_queue.snapshot import (
    Snapshot,
    live,
    spec,
    status,
)
from kubectl_queue.snapshot import name as name_of
from queues.messages import refusal_text, stop_text
from queues.queue import ROOT, Queue
from queues.states import ACTIONS, Action, Desired, State, StopPolicy
from queues.verdict import Verdict

SAID: Mapping[Action, str] = {
    Action.OPEN: "opened",
    Action.CLOSE: "closed",
    Action.SUSPEND: "suspended",
    Action.RESUME: "resumed",
}
_CLOSED = frozenset({State.CLOSING, State.CLOSED})
#: The states that an action leads to, in which it may still say why and until when.
_ASKED: Mapping[Action, frozenset[State]] = {
    Action.CLOSE: _CLOSED,
    Action.SUSPEND: frozenset({State.SUSPENDED}),
}


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the command line asks for. `reason` None: not a word was said of it."""

    action: Action
    reason: str | None = None
    resume_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Decision:
    """An edit and the word for it; without an edit `said` is why there is none."""

    said: str
    edit: Mapping[str, Any] = field(default_factory=dict)


def decide(wish: Wish, *, item: Object, snapshot: Snapshot) -> Decision:
    """The decision for the queue `item`, which is in the snapshot."""
    queue = snapshot.tree.queues[name_of(item)]
    own = snapshot.own_state(queue.name)
    target = ACTIONS[wish.action][own]
    edit = differing(_edit(wish, queue=queue, own=own, target=target), spec(item))
    if not edit:
        return Decision(said=f"unchanged ({_nothing(wish.action, name=queue.name, own=own)})")
    return Decision(said=_said(wish, target=target), edit=edit)


def _edit(wish: Wish, *, queue: Queue, own: State, target: Desired | None) -> dict[str, Any]:
    """All that the action asks for, whether it is so already or not."""
    if wish.action is Action.RESUME:
        return _resumption(target, held=_held(queue), own=own)
    if target is None:
        return _rewording(wish) if own in _ASKED.get(wish.action, ()) else {}
    if wish.action is Action.OPEN:
        return {"state": target.value, "resumeAt": None, "reason": None}
    return {"state": target.value, "reason": wish.reason or None, "resumeAt": _written(wish.resume_at)}


def _held(queue: Queue) -> bool:
    return queue.stop_policy is not StopPolicy.NONE


def _resumption(target: Desired | None, *, held: bool, own: State) -> dict[str, Any]:
    """Undo Suspended and the stop policy; Closed stays, and so does the reason for it."""
    if target is None and not held:
        return {}
    edit: dict[str, Any] = {"stopPolicy": StopPolicy.NONE.value, "resumeAt": None}
    if target is not None:
        edit["state"] = target.value
    return edit if own in _CLOSED else {**edit, "reason": None}


def _rewording(wish: Wish) -> dict[str, Any]:
    edit: dict[str, Any] = {}
    if wish.reason is not None:
        edit["reason"] = wish.reason or None
    if wish.resume_at is not None:
        edit["resumeAt"] = written(wish.resume_at)
    return edit


def _written(at: datetime | None) -> str | None:
    return written(at) if at is not None else None


def differing(edit: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the edit that would change something."""
    return {key: value for key, value in edit.items() if present.get(key) != value}


def _said(wish: Wish, *, target: Desired | None) -> str:
    until = f" until {written(wish.resume_at)}" if wish.resume_at else ""
    if target is not None or until:
        return SAID[wish.action] + until
    return "resumed (stopPolicy None)" if wish.action is Action.RESUME else "edited (reason)"


def _nothing(action: Action, *, name: str, own: State) -> str:
    if own in _CLOSED and action is Action.RESUME:
        return f"it is {own}, which resume does not undo; reopen it with: kubectl queue open {name}"
    if own is State.CLOSED and action is Action.SUSPEND:
        return f"it is Closed and cannot be suspended; open it first: kubectl queue open {name}"
    if own is State.UNKNOWN:
        return "it asks to be Open already, but its chain of parents is broken"
    return "it is not stopped itself" if action is Action.RESUME else f"it is {own} already"


def afterthoughts(wish: Wish, *, name: str, snapshot: Snapshot) -> list[str]:
    """What an operator should know after the action: who still stops the queue, and what ends with it."""
    verdict = snapshot.board.verdict(name, live=live(snapshot.items[name]))
    queue = snapshot.tree.queues[name]
    judged = verdict if wish.action in {Action.OPEN, Action.RESUME} else above(queue, snapshot)
    texts = _obstacles(judged, name=name, state=verdict.state, action=wish.action) if judged else []
    if wish.resume_at is not None and _held(queue):
        texts.append(f'stopPolicy {queue.stop_policy} of queue "{name}" ends at the same time')
    return texts


def above(queue: Queue, snapshot: Snapshot) -> Verdict | None:
    """The verdict for the parent: what a stop of the queue itself does not depend on."""
    if queue.name == ROOT or (queue.parent or ROOT) not in snapshot.tree:
        return None
    return snapshot.board.verdict(queue.parent or ROOT, live=True)


def _obstacles(judged: Verdict, *, name: str, state: State, action: Action) -> list[str]:
    texts = []
    if judged.stop is not None and action is not Action.CLOSE:
        texts.append(stop_text(replace(judged.stop, queue=name)))
    if judged.refusal is not None and action in {Action.OPEN, Action.CLOSE}:
        text = refusal_text(replace(judged.refusal, queue=name), state=state)
        # A broken chain neither schedules nor accepts, and is one thing to mend.
        texts += [] if judged.broken and texts else [text]
    return texts


def released(wish: Wish, *, name: str, before: Snapshot, after: Snapshot) -> list[str]:
    """What a close lets go: Closed schedules, so what was parked by the queue's own suspension does run."""
    if wish.action is not Action.CLOSE or before.own_state(name) is not State.SUSPENDED:
        return []
    if after.board.ruling(name).stop is not None:
        return []
    parked = sum(map(_parked, (item for item in before.branch(name) if _schedules(item, after))))
    waited = f"the {parked} pods that are" if parked > 1 else "the pod that is" if parked else "whatever is"
    return [
        f'queue "{name}" was Suspended, and Closed schedules: {waited} parked in it will run; '
        f"to have that wait on: kubectl queue hold {name}"
    ]


def _schedules(item: Object, seen: Snapshot) -> bool:
    return seen.board.ruling(name_of(item)).schedules


def _parked(item: Object) -> int:
    return int((status(item).get("pods") or {}).get("parked") or 0)
