"""An operation on a queue: a function from the queues as they were read to a merge patch of `spec`.

There are four: `action_operation`, `stop_policy_operation`, `move_operation` and `window_operation`.
`editor.QueueEditor` carries them out, and for the page `ui.edits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from kubectl_queue.objects.fields import Object, name_of
from kubectl_queue.objects.queues import QueueObjects, parked_counts
from kubectl_queue.views.acknowledgement import WaitCondition
from queues.apimachinery.timestamps import rfc3339
from queues.messages import recreation_command
from queues.queue import ROOT, Queue
from queues.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A JSON merge patch of `spec`, and its outcome in words.

    Without a patch `outcome` says why there is none.
    """

    outcome: str
    patch: Mapping[str, Any] = field(default_factory=dict)
    #: Why the queue cannot get the state of the action: an error, unless --all or --selector chose the queue.
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class StopFields:
    """The fields of `spec` that belong to a stop, as the command line gave them.

    `reason`: None where --reason was not given. `clear_resume_at`: remove the time to resume. `settings`: the
    fields that outlast the stop, `parked`; None removes one.
    """

    reason: str | None = None
    resume_at: datetime | None = None
    clear_resume_at: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def for_new_stop(self) -> dict[str, Any]:
        """The fields that are set with the stop; None removes those of the stop before."""
        return {"reason": self.reason or None, "resumeAt": self._time, **self.settings}

    def for_present_stop(self) -> dict[str, Any]:
        """The fields that were given, for a queue that is stopped so already."""
        fields: dict[str, Any] = {} if self.reason is None else {"reason": self.reason or None}
        if self.resume_at is not None or self.clear_resume_at:
            fields["resumeAt"] = self._time
        return {**fields, **self.settings}

    @property
    def until(self) -> str:
        """The time to resume as it follows an outcome; empty where there is none."""
        return f" until {self._time}" if self._time else ""

    @property
    def _time(self) -> str | None:
        return rfc3339(self.resume_at) if self.resume_at else None


class Operation(Protocol):
    """A function of values: it reads and writes nothing."""

    def refusal(self, name: str) -> str | None:
        """Why the operation is never done to the queue of this name."""

    def decide(self, *, item: Object, queues: QueueObjects) -> Decision:
        """The decision for the queue `item`, which is one of `queues`. Raises QueueError."""

    def warnings(self, name: str, *, before: QueueObjects, after: QueueObjects) -> list[str]:
        """What the user should know once it is done."""

    def wait_condition(self, verdict: Verdict) -> WaitCondition:
        """What --wait waits for, where the rules give this verdict for the queue."""


def changed_fields(fields: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields that differ from the present ones."""
    return {key: value for key, value in fields.items() if present.get(key) != value}


def parent_verdict(queue: Queue, queues: QueueObjects) -> Verdict | None:
    """The verdict for the parent, which does not depend on the queue's own spec.

    None where the parent was not read.
    """
    if queue.name == ROOT or (queue.parent or ROOT) not in queues.tree:
        return None
    return queues.decisions.verdict(queue.parent or ROOT, live=True)


#: Fewer pods without the gate are not worth a warning: 1,000 halve the rate at which others are bound.
MANY_UNGATED = 100


def ungated_warnings(name: str, *, after: QueueObjects) -> list[str]:
    """What the pods that a stop parks without the gate cost, and the way out: where they are many, and no
    queue says what becomes of them.
    """
    decision = after.decisions.decision(name)
    way_out = recreation_command(decision.stop) if decision.stop is not None and decision.accepts else ""
    items = [item for item in after.branch(name) if not after.tree.chain(name_of(item)).names_parked]
    ungated = sum(parked_counts(item).ungated for item in items)
    if not way_out or ungated < MANY_UNGATED:
        return []
    return [
        f'queue "{name}": {ungated} pending pods have no gate, so kube-scheduler tries them again and again '
        "while it is stopped; to have those of ReplicaSets, StatefulSets and Jobs created again with the "
        f"gate: {way_out}"
    ]


def apply_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The target with the merge patch (RFC 7386) applied; None removes a key. Neither argument is changed."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            before = result.get(key)
            result[key] = apply_patch(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def patch_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The smallest merge patch that turns `before` into `after`."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        present = before.get(key)
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            inner = patch_between(present, value)
            patch |= {key: inner} if inner else {}
        elif present != value:
            patch[key] = value
    return patch
