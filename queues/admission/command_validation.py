"""Which Commands are for us, and which of those cannot be carried out.

| `target`                                                        | whose it is                       |
|-----------------------------------------------------------------|-----------------------------------|
| kind Queue of `scheduling.volcano.sh`, with a queue's name      | ours; it is carried out           |
| absent, or without a kind                                       | unknown; it is denied             |
| `queue`, `queues` or `q` in any case, or Queue of another group | meant for a queue; it is denied   |
| any other kind, such as `batch.volcano.sh` Jobs                 | not ours; it is left alone        |

Where the webhook was not called, a Command is stored that it would have denied. The controller drops such a
Command with an event.
"""

from __future__ import annotations

from queues.membership import name_fault, valid_name
from queues.messages import NAME_RULE
from queues.queue import ROOT
from queues.states import Action
from queues.text import quoted

GROUP, KIND = "scheduling.volcano.sh", "Queue"
_QUEUE_KINDS = frozenset({"", "queue", "queues", "q"})
_HOW = f"use kind: {KIND}, apiVersion: {GROUP}/v1beta1"
#: Characters of a value that are shown.
_SHOWN = 80


def is_ours(kind: str) -> bool:
    """Whether a Command with this kind of target is for us; the kind is empty where there is no target."""
    return kind.lower() in _QUEUE_KINDS


def command_refusal(action: str, *, api_version: str, kind: str, name: str) -> str | None:
    """Why a Command that is for us cannot be carried out, whatever state the queue is in."""
    refusal = target_refusal(api_version=api_version, kind=kind, name=name)
    if refusal:
        return refusal
    if action not in set(Action):
        known = ", ".join(Action)
        return f"action: {quoted(action, limit=_SHOWN)} is not known for queues; use one of {known}"
    return action_refusal(name, Action(action))


def target_refusal(*, api_version: str, kind: str, name: str) -> str | None:
    """Why this target, of a Command that is for us, is no queue."""
    if not kind:
        return f"target: names no kind; for a queue {_HOW}"
    if kind != KIND:
        return f"target.kind: {quoted(kind, limit=_SHOWN)} is not a kind that Commands act on; {_HOW}"
    if api_version.partition("/")[0] != GROUP:
        return f"target.apiVersion: {quoted(api_version, limit=_SHOWN)} has no queues; {_HOW}"
    if not valid_name(name):
        shown = quoted(name, limit=_SHOWN)
        return f"target.name: {shown} is not a queue name: {name_fault(name)}; {NAME_RULE}"
    return None


def action_refusal(name: str, action: Action) -> str | None:
    """Why no queue of this name can be told to do this."""
    if name == ROOT and action is Action.CLOSE:
        return 'queue "root" cannot be closed; to stop every queue: kubectl queue suspend root'
    return None
