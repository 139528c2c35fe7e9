"""How far a drain is: what a queue's status says of it.

=========  ==================  ====================================================================
Drained    reason              when
=========  ==================  ====================================================================
True       Drained             nothing of the queue or below runs but what stays by rule
False      Draining            some are on their way, or may go now
False      Blocked             somebody is left, and whoever is may not go now
False      DeadlinePassed      somebody is left, and `drain.deadline` has passed
=========  ==================  ====================================================================

A queue that does not drain has no such condition. The condition is of the queue and all below it; the
counts in `status.drain` are of the queue's own pods.

Whatever names users give, the condition's message has at most `CONDITION_LIMIT` characters, and what
`status.drain` tells of a blocker `NAME_LIMIT` and `MESSAGE_LIMIT`: it is written with the acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from queues.drain.model import (
    BlockerReason,
    DrainAction,
    Plan,
    RunningPod,
)
from queues.drain.terminating_pods import Delay, DelayedPod
from queues.status.conditions import DerivedCondition
from queues.text import join_limited, truncated

DRAINED = "Drained"
#: Of those that block.
MAX_BLOCKERS = 20
#: Of those, in the condition's message.
MAX_NAMED = 5
#: Characters.
CONDITION_LIMIT, NAME_LIMIT, NAME_IN_CONDITION, MESSAGE_LIMIT = 1024, 360, 120, 500


class DrainProgress(StrEnum):
    """The reasons of the condition."""

    DRAINED = "Drained"
    DRAINING = "Draining"
    BLOCKED = "Blocked"
    OVERDUE = "DeadlinePassed"


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """Who blocks how many pods; `never`: no waiting will help."""

    name: str
    pods: int
    never: bool
    message: str


class QueueProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's own pods: `left` are to go, the `leaving` among them; `kept` stay by rule.

    `stuck`: those of the leaving that do not get on. `not_selected`: of namespaces that the queue does not
    select; they go too, and are none of the others, so that what keeps them keeps nobody waiting.
    """

    left: int = 0
    leaving: int = 0
    kept: int = 0
    blocked: int = 0
    stuck: int = 0
    not_selected: int = 0
    overdue: bool = False
    blockers: tuple[Blocker, ...] = ()


class DrainCounts(msgspec.Struct, kw_only=True):
    """What was done of one queue since its drain began: pods evicted and deleted, work suspended."""

    since: datetime
    evicted: int = 0
    suspended: int = 0
    deleted: int = 0

    def add(self, action: DrainAction, *, pods: int) -> None:
        """A request was granted; `pods`: those of its unit."""
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
            case DrainAction.CUT_GRACE:
                pass


def progress_by_queue(
    plan: Plan,
    queues: Iterable[str],
    *,
    delays: Mapping[str, DelayedPod],
    selects: Callable[[str, str], bool] = lambda _queue, _namespace: True,
) -> dict[str, QueueProgress]:
    """Each queue's part of a plan. `delays`: what delays pods that are on their way, by UID. `selects`:
    whether a queue selects a namespace."""
    counts = {queue: _ProgressBuilder() for queue in queues}

    def is_counted(pod: RunningPod) -> bool:
        selected = selects(pod.queue, pod.namespace)
        counts[pod.queue].not_selected += 0 if selected else 1
        return selected

    for unit in plan.steps:
        for pod in filter(is_counted, unit.pods):
            counts[pod.queue].left += 1
    for pod in filter(is_counted, plan.leaving):
        counted = counts[pod.queue]
        counted.left += 1
        counted.leaving += 1
        delay = delays.get(pod.uid)
        if delay is not None:
            counted.stuck += 1
            counted.add_delay(delay)
    for pod, _ in plan.kept:
        counts[pod.queue].kept += 1
    for block in plan.blocked:
        for pod in filter(is_counted, block.unit.pods):
            counted = counts[pod.queue]
            counted.left += 1
            counted.blocked += 1
            counted.overdue |= block.reason is BlockerReason.DEADLINE
            counted.add_blocker(block.blocker, block.message, never=block.never)
    return {queue: counted.report() for queue, counted in counts.items()}


def drained_condition(queue: str, found: Iterable[QueueProgress]) -> DerivedCondition:
    """The condition of a queue, from the reports of itself and all below."""
    told = list(found)
    left, kept = sum(one.left for one in told), sum(one.kept for one in told)
    standing = _drained_reason(told, left=left)
    if standing is DrainProgress.DRAINED:
        others = sum(one.not_selected for one in told)
        apart = [f"{kept} that {'stays' if kept == 1 else 'stay'} by rule"] if kept else []
        apart += [f"{others} of namespaces that it does not select"] if others else []
        but = f" but {' and '.join(apart)}" if apart else ""
        return DerivedCondition(DRAINED, True, standing.value, f'no pod of queue "{queue}" runs{but}')
    words = {
        DrainProgress.DRAINING: f'the pods of queue "{queue}" are being evicted',
        DrainProgress.BLOCKED: f'pods of queue "{queue}" run that may not be evicted',
        DrainProgress.OVERDUE: f'pods of queue "{queue}" run past the deadline of its drain, and are kept',
    }
    message = truncated(words[standing] + _blocked_by(told), limit=CONDITION_LIMIT)
    return DerivedCondition(DRAINED, False, standing.value, message)


def drain_status(tally: DrainCounts, report: QueueProgress, *, since: str) -> dict[str, Any]:
    """`status.drain` in wire form."""
    return {
        "since": since,
        "evicted": tally.evicted,
        "suspended": tally.suspended,
        "deleted": tally.deleted,
        "left": report.left,
        "leaving": report.leaving,
        "kept": report.kept,
        "blocked": report.blocked,
        "blockers": [msgspec.to_builtins(blocker) for blocker in report.blockers],
    }


class _ProgressBuilder:
    """One report in the making."""

    def __init__(self) -> None:
        self.left = self.leaving = self.kept = self.blocked = self.stuck = self.not_selected = 0
        self.overdue = False
        self._blockers: dict[str, tuple[int, bool, str]] = {}
        #: Delays of one kind in one namespace are one blocker, so that they do not hide others.
        self._delays: dict[tuple[str, Delay], list[DelayedPod]] = {}

    def add_delay(self, delayed: DelayedPod) -> None:
        self._delays.setdefault((delayed.pod.namespace, delayed.delay), []).append(delayed)

    def add_blocker(self, name: str, message: str, *, never: bool) -> None:
        pods, before, first = self._blockers.get(name, (0, False, message))
        self._blockers[name] = (pods + 1, never or before, first if before or not never else message)

    def report(self) -> QueueProgress:
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
        blockers.sort(key=lambda one: (not one.never, -one.pods, one.name))
        return QueueProgress(
            left=self.left,
            leaving=self.leaving,
            kept=self.kept,
            blocked=self.blocked,
            stuck=self.stuck,
            not_selected=self.not_selected,
            overdue=self.overdue,
            blockers=tuple(blockers[:MAX_BLOCKERS]),
        )


def _delay_blocker(delays: list[DelayedPod]) -> Blocker:
    """One blocker for all of them, by the first name."""
    first = min(delays, key=lambda each: each.pod.name)
    others = len(delays) - 1
    name = f"{first.pod} and {others} more of its namespace" if others else str(first.pod)
    message = truncated(first.message, limit=MESSAGE_LIMIT)
    return Blocker(name=truncated(name, limit=NAME_LIMIT), pods=len(delays), never=False, message=message)


def _drained_reason(told: list[QueueProgress], *, left: int) -> DrainProgress:
    if not left:
        return DrainProgress.DRAINED
    if any(one.overdue for one in told):
        return DrainProgress.OVERDUE
    waiting = sum(one.blocked + one.stuck for one in told)
    return DrainProgress.BLOCKED if left == waiting else DrainProgress.DRAINING


def _blocked_by(told: list[QueueProgress]) -> str:
    blockers = [blocker for one in told for blocker in one.blockers]
    blockers.sort(key=lambda one: (not one.never, -one.pods, one.name))
    if not blockers:
        return ""
    names = [
        f"{truncated(one.name, limit=NAME_IN_CONDITION)} ({one.pods}{', for good' if one.never else ''})"
        for one in blockers
    ]
    return f"; blocked by {join_limited(names, limit=MAX_NAMED)}: {blockers[0].message}"
