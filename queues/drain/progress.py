"""The progress of a drain in the status of its queues: condition `Drained` and `status.drain`.

=========  ==================  ==========================================================================
Drained    reason              when
=========  ==================  ==========================================================================
True       Drained             no pod of the queue or below it runs but those that stay by rule
False      Draining            some pods are leaving, or may go now
False      Blocked             pods are left, and none of them may go now
False      DeadlinePassed      pods are left, and `drain.deadline` has passed
=========  ==================  ==========================================================================

A queue that does not drain has no such condition. The condition covers the queue and all queues below it;
the counts in `status.drain` are of the queue's own pods.

Invariants
- The condition's message has at most `CONDITION_LIMIT` characters, whatever names users give; in
  `status.drain` a blocker's name has `NAME_LIMIT` and its message `MESSAGE_LIMIT`. The status is written with
  the acknowledgement, so its size must not delay that.
- The message names a blocker once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from queues.drain.model import (
    BlockedUnit,
    BlockerReason,
    DrainAction,
    Plan,
    RunningPod,
)
from queues.drain.terminating_pods import Delay, DelayedPod
from queues.status.conditions import DerivedCondition
from queues.text import join_limited, truncated

DRAINED = "Drained"
#: Blockers in `status.drain`, and those of them that the condition's message names.
MAX_BLOCKERS, MAX_NAMED = 20, 5
#: Characters.
CONDITION_LIMIT, NAME_LIMIT, NAME_IN_CONDITION, MESSAGE_LIMIT, MIN_MESSAGE = 1024, 360, 120, 500, 100


class DrainedReason(StrEnum):
    """The reasons of the condition Drained."""

    DRAINED = "Drained"
    DRAINING = "Draining"
    BLOCKED = "Blocked"
    OVERDUE = "DeadlinePassed"


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """One cause that blocks `pods` pods. `never`: waiting does not help."""

    name: str
    pods: int
    never: bool
    message: str


class QueueProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's own pods: `left` are to go, the `leaving` among them; `kept` stay by rule.

    `delayed`: leaving pods that have lost their places. `not_selected`: pods of namespaces that the queue
    does not select. They are evicted too, but no other number counts them: the drain does not wait for them.
    """

    left: int = 0
    leaving: int = 0
    kept: int = 0
    blocked: int = 0
    delayed: int = 0
    not_selected: int = 0
    overdue: bool = False
    blockers: tuple[Blocker, ...] = ()


class DrainCounts(msgspec.Struct, kw_only=True):
    """The granted requests of one queue since its drain began: of pods, and of workloads.

    `scaled`: workloads that were brought to zero replicas.
    """

    since: datetime
    evicted: int = 0
    suspended: int = 0
    scaled: int = 0
    deleted: int = 0

    def add(self, action: DrainAction, *, pods: int) -> None:
        """Count a granted request. `pods`: how many its unit has."""
        match action:
            case DrainAction.EVICT:
                self.evicted += 1
            case DrainAction.DELETE:
                self.deleted += 1
            case DrainAction.SUSPEND:
                self.suspended += 1
            case DrainAction.SUSPEND_ANYWAY:
                self.suspended += 1
                self.deleted += pods
            case DrainAction.SCALE:
                self.scaled += 1
                self.deleted += pods
            case DrainAction.CUT_GRACE:
                pass


def progress_by_queue(
    plan: Plan,
    queues: Iterable[str],
    *,
    delays: Mapping[str, DelayedPod],
    selects: Callable[[str, str], bool] = lambda _queue, _namespace: True,
) -> dict[str, QueueProgress]:
    """Each queue's part of a plan.

    `delays`: the delayed pods, by UID. `selects`: whether a queue selects a namespace.
    """
    builders = {queue: _ProgressBuilder() for queue in queues}

    def is_counted(pod: RunningPod) -> bool:
        is_selected = selects(pod.queue, pod.namespace)
        if not is_selected:
            builders[pod.queue].add_not_selected()
        return is_selected

    for unit in plan.steps:
        for pod in filter(is_counted, unit.pods):
            builders[pod.queue].add_step()
    for pod in filter(is_counted, plan.leaving):
        builders[pod.queue].add_leaving(delays.get(pod.uid))
    for pod, _ in plan.kept:
        builders[pod.queue].add_kept()
    for block in plan.blocked:
        for pod in filter(is_counted, block.unit.pods):
            builders[pod.queue].add_blocked(block)
    return {queue: builder.build() for queue, builder in builders.items()}


def drained_condition(queue: str, progress: Iterable[QueueProgress]) -> DerivedCondition:
    """The condition of a queue, from the progress of itself and of all queues below it."""
    parts = list(progress)
    left = sum(each.left for each in parts)
    reason = _drained_reason(parts, left=left)
    if reason is DrainedReason.DRAINED:
        return DerivedCondition(
            DRAINED, True, reason.value, f'no pod of queue "{queue}" runs{_exceptions(parts)}'
        )
    texts = {
        DrainedReason.DRAINING: f'the pods of queue "{queue}" are being evicted',
        DrainedReason.BLOCKED: f'pods of queue "{queue}" run that may not be evicted',
        DrainedReason.OVERDUE: f'pods of queue "{queue}" run past the deadline of its drain, and are kept',
    }
    text = texts[reason]
    message = truncated(
        text + _blockers_text(parts, limit=CONDITION_LIMIT - len(text)), limit=CONDITION_LIMIT
    )
    return DerivedCondition(DRAINED, False, reason.value, message)


def drain_status(counts: DrainCounts, progress: QueueProgress, *, since: str) -> dict[str, Any]:
    """`status.drain` in wire form."""
    return {
        "since": since,
        "evicted": counts.evicted,
        "suspended": counts.suspended,
        "scaled": counts.scaled,
        "deleted": counts.deleted,
        "left": progress.left,
        "leaving": progress.leaving,
        "kept": progress.kept,
        "blocked": progress.blocked,
        "blockers": [msgspec.to_builtins(blocker) for blocker in progress.blockers],
    }


class _ProgressBuilder:
    """Builds the progress of one queue."""

    def __init__(self) -> None:
        self.left = self.leaving = self.kept = self.blocked = self.delayed = self.not_selected = 0
        self.overdue = False
        #: By name: pods, whether for good, and the message.
        self._blockers: dict[str, tuple[int, bool, str]] = {}
        #: Delays of one kind in one namespace are one blocker, so that they do not hide others.
        self._delays: dict[tuple[str, Delay], list[DelayedPod]] = {}

    def add_not_selected(self) -> None:
        self.not_selected += 1

    def add_kept(self) -> None:
        self.kept += 1

    def add_step(self) -> None:
        """Count a pod that may go now."""
        self.left += 1

    def add_leaving(self, delay: DelayedPod | None) -> None:
        self.left += 1
        self.leaving += 1
        if delay is not None:
            self.delayed += 1
            self._delays.setdefault((delay.pod.namespace, delay.delay), []).append(delay)

    def add_blocked(self, block: BlockedUnit) -> None:
        """Count a blocked pod. A blocker keeps its first message with `never`, or else its first."""
        self.left += 1
        self.blocked += 1
        self.overdue |= block.reason is BlockerReason.DEADLINE
        pods, was_never, first = self._blockers.get(block.blocker, (0, False, block.message))
        message = first if was_never or not block.never else block.message
        self._blockers[block.blocker] = pods + 1, block.never or was_never, message

    def build(self) -> QueueProgress:
        blockers = [
            Blocker(
                name=truncated(name, limit=NAME_LIMIT),
                pods=pods,
                never=never,
                message=truncated(message, limit=MESSAGE_LIMIT),
            )
            for name, (pods, never, message) in self._blockers.items()
        ]
        blockers += [_delay_blocker(delays) for delays in self._delays.values()]
        return QueueProgress(
            left=self.left,
            leaving=self.leaving,
            kept=self.kept,
            blocked=self.blocked,
            delayed=self.delayed,
            not_selected=self.not_selected,
            overdue=self.overdue,
            blockers=tuple(sorted(blockers, key=_blocker_order)[:MAX_BLOCKERS]),
        )


def _delay_blocker(delays: list[DelayedPod]) -> Blocker:
    """One blocker for these delayed pods, named after the first of them."""
    first = min(delays, key=lambda each: each.pod.name)
    others = len(delays) - 1
    name = f"{first.pod} and {others} more of its namespace" if others else str(first.pod)
    message = truncated(first.message, limit=MESSAGE_LIMIT)
    return Blocker(name=truncated(name, limit=NAME_LIMIT), pods=len(delays), never=False, message=message)


def _blocker_order(blocker: Blocker) -> tuple[bool, int, str]:
    """First those that block for good, then those that block the most pods."""
    return not blocker.never, -blocker.pods, blocker.name


def _drained_reason(parts: list[QueueProgress], *, left: int) -> DrainedReason:
    if not left:
        return DrainedReason.DRAINED
    if any(each.overdue for each in parts):
        return DrainedReason.OVERDUE
    waiting = sum(each.blocked + each.delayed for each in parts)
    return DrainedReason.BLOCKED if left == waiting else DrainedReason.DRAINING


def _exceptions(parts: list[QueueProgress]) -> str:
    """The pods that run although the queue is drained."""
    kept = sum(each.kept for each in parts)
    others = sum(each.not_selected for each in parts)
    texts = [f"{kept} that {'stays' if kept == 1 else 'stay'} by rule"] if kept else []
    texts += [f"{others} of namespaces that it does not select"] if others else []
    return f" but {' and '.join(texts)}" if texts else ""


def _blockers_text(parts: list[QueueProgress], *, limit: int) -> str:
    """The first blocker with its message, then the names of others. No name occurs twice."""
    blockers = sorted((blocker for each in parts for blocker in each.blockers), key=_blocker_order)
    if not blockers:
        return ""
    first, *others = blockers
    name = truncated(first.name, limit=NAME_IN_CONDITION)
    text = first.message
    if not text.startswith(first.name):
        text = f"{name} blocks {_pods(first.pods)}: {text}"
    names = [
        f"{truncated(each.name, limit=NAME_IN_CONDITION)} ({each.pods}{', for good' if each.never else ''})"
        for each in others
    ]
    more = f"; also blocked by {join_limited(names, limit=MAX_NAMED - 1)}" if names else ""
    return f": {truncated(text, limit=max(MIN_MESSAGE, limit - len(more) - 2))}{more}"


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"
