"""`drain --dry-run`: what a drain would do, by the plan of `queues.drain.plan` for the inventory. Pure.

Promises
- The queues are taken as they will be: which of them drain, and by whose settings.
- Each unit, each blocker and each text is the leader's for the same objects (`tests/readers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from kubectl_queue.objects.drains import Drain, all_drains, drained_pods, drains_of, pods_to_go
from kubectl_queue.objects.inventory import Inventory
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.views.drain_status import blocker_message
from kubectl_queue.views.text import plural
from queues.apimachinery.timestamps import rfc3339
from queues.drain.model import (
    BlockedUnit,
    DrainAction,
    DrainSpec,
    Plan,
    RunningPod,
    Unit,
)
from queues.drain.plan import plan
from queues.drain.terminating_pods import (
    GRACE_LIMIT,
    delay_of,
    long_grace_warning,
    longest_grace,
)
from queues.text import printable, quoted

#: Slow pods that are named.
_NAMED = 10
_VERBS = {
    DrainAction.EVICT: "evict",
    DrainAction.SUSPEND: "suspend",
    DrainAction.DELETE: "delete",
    DrainAction.SUSPEND_ANYWAY: "suspend",
    DrainAction.SCALE: "scale",
}


class PreviewRow(msgspec.Struct, frozen=True):
    """`cells`: a text, or the columns of a table. `blocks`: the pods that a blocker keeps from going."""

    cells: tuple[str, ...]
    blocks: tuple[str, ...] = ()


class PreviewSection(msgspec.Struct, frozen=True):
    """Never empty."""

    heading: str
    rows: tuple[PreviewRow, ...]


class DrainPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to the pods of the queues that drain by the policy and settings of the queue `by`.

    `is_whole`: all queues below it were read.
    """

    by: str
    queues: tuple[str, ...]
    left: int
    kept: int
    sections: tuple[PreviewSection, ...]
    is_whole: bool = True

    @property
    def summary(self) -> str:
        below = [name for name in self.queues if name != self.by]
        with_those = f" and {', '.join(below)} below it" if below else ""
        least, unread = ("", "") if self.is_whole else ("at least ", "; queues below it could not be read")
        to_go = f"{least}{plural(self.left, 'pod')} to go, {self.kept} to stay"
        return f"queue {quoted(self.by)}{with_those}: {to_go}{unread}"


def previews(inventory: Inventory, queues: QueueObjects, *, names: Iterable[str]) -> list[DrainPreview]:
    """One for each policy by which one of these queues or a queue below them drains."""
    return [_preview(drain, inventory, queues) for drain in drains_of(queues, names)]


def _preview(drain: Drain, inventory: Inventory, queues: QueueObjects) -> DrainPreview:
    drained = drained_pods(drain, inventory, queues)
    planned = plan(drained.pods, inventory.budgets, drain.spec, now=queues.now, broken_gangs=drained.broken)
    preview = preview_of(drain.by, drain.queues, planned, drain.spec, now=queues.now)
    return msgspec.structs.replace(preview, is_whole=queues.complete)


def preview_of(
    by: str, names: tuple[str, ...], planned: Plan, spec: DrainSpec, *, now: datetime
) -> DrainPreview:
    """A plan in words. `names`: the queues that drain by the policy of `by`."""
    sections = _sections(planned, spec, now=now)
    return DrainPreview(
        by=by,
        queues=names,
        left=planned.left,
        kept=len(planned.kept),
        sections=tuple(PreviewSection(heading, tuple(rows)) for heading, rows in sections if rows),
    )


def _sections(planned: Plan, spec: DrainSpec, *, now: datetime) -> Iterator[tuple[str, list[PreviewRow]]]:
    waiting = [block for block in planned.blocked if not block.never]
    blocked = [block for block in planned.blocked if block.never]
    yield "Goes, in this order", [PreviewRow(_step(unit)) for unit in planned.steps]
    yield "Waits until its budget allows it", _by_blocker(waiting)
    yield "Is blocked, for good", _by_blocker(blocked)
    yield "Stays", [PreviewRow((str(pod), f"by rule {rule}")) for pod, rule in planned.kept]
    yield "May take long to end", _texts(_slow_pods(planned, spec))
    yield "Is on its way already", _texts(_terminating(pod, spec, now=now) for pod in planned.leaving)
    yield "Then", _texts(_at_the_deadline(spec))


def _texts(texts: Iterable[str]) -> list[PreviewRow]:
    return [PreviewRow((text,)) for text in texts]


def newly_evicted_bare_pods(
    inventory: Inventory, *, before: QueueObjects, after: QueueObjects
) -> list[RunningPod]:
    """The pods without a controller that would go after an edit and would not without it."""
    evicted_before = _evicted(inventory, before)
    return [pod for pod in _evicted(inventory, after).values() if pod.bare and pod.uid not in evicted_before]


def may_evict_more_bare_pods(*, before: QueueObjects, after: QueueObjects) -> bool:
    """Whether pods without a controller may go after an edit that would not without it."""
    kept_before = {queue: _kept(spec) for queue, spec in _drain_specs(before).items()}
    return any(
        (not spec.keep_bare or spec.evict_broken_gangs) and kept_before.get(queue) != _kept(spec)
        for queue, spec in _drain_specs(after).items()
    )


def _kept(spec: DrainSpec) -> tuple[bool, str | None, bool]:
    """The settings that say which pods stay."""
    return spec.keep_bare, None if spec.keep is None else str(spec.keep), spec.evict_broken_gangs


def _drain_specs(queues: QueueObjects) -> Mapping[str, DrainSpec]:
    """The settings by which each queue drains; a queue whose settings cannot be read evicts nothing."""
    return {name: drain.spec for drain in _evicting(queues) for name in drain.queues}


def _evicting(queues: QueueObjects) -> Iterator[Drain]:
    return (drain for drain in all_drains(queues) if not drain.spec.unreadable)


def _evicted(inventory: Inventory, queues: QueueObjects) -> dict[str, RunningPod]:
    """The pods that are to go, by UID."""
    to_go = pods_to_go(_evicting(queues), inventory, queues)
    return {pod.uid: pod for pod in to_go if not pod.leaving}


def _step(unit: Unit) -> tuple[str, ...]:
    pods = plural(len(unit.pods), "pod") if unit.workload or unit.gang else ""
    bare = "bare: nothing makes it again" if not unit.workload and any(pod.bare for pod in unit.pods) else ""
    priority = f"priority {max(pod.priority for pod in unit.pods)}"
    cells = (_VERBS[unit.action], str(unit), priority, pods or bare)
    return (*cells, unit.because) if unit.overruled else cells


def _by_blocker(blocks: Sequence[BlockedUnit]) -> list[PreviewRow]:
    """Each blocker once, with what it blocks."""
    by_blocker: dict[str, list[BlockedUnit]] = {}
    for block in blocks:
        by_blocker.setdefault(block.blocker, []).append(block)
    return [_blocker(by, those) for by, those in by_blocker.items()]


def _blocker(by: str, blocks: Sequence[BlockedUnit]) -> PreviewRow:
    pods = sum(len(block.unit.pods) for block in blocks)
    text = f"{printable(by)}, {plural(pods, 'pod')}: {blocker_message(by, blocks[0].message)}"
    return PreviewRow((text,), blocks=tuple(str(block.unit) for block in blocks))


def _slow_pods(planned: Plan, spec: DrainSpec) -> Iterator[str]:
    """Pods that may count as in flight for long, by the server's default limit.

    Of many only the first are named.
    """
    units = (*planned.steps, *(block.unit for block in planned.blocked))
    pods = [(pod, long_grace_warning(pod, spec, limit=GRACE_LIMIT)) for unit in units for pod in unit.pods]
    slow = [f"{pod}: {text}" for pod, text in pods if text]
    yield from slow[:_NAMED]
    if len(slow) > _NAMED:
        yield f"and {len(slow) - _NAMED} more"


def _terminating(pod: RunningPod, spec: DrainSpec, *, now: datetime) -> str:
    """With what delays it, where that is known; whether its node is gone is not."""
    longest = longest_grace(spec, limit=GRACE_LIMIT)
    delay = delay_of(pod, now=now, longest=longest, gone_nodes=())
    return f"{pod}: {delay.message}" if delay is not None else str(pod)


def _at_the_deadline(spec: DrainSpec) -> Iterator[str]:
    if spec.deadline is None:
        return
    at = rfc3339(spec.deadline)
    if spec.scale_after_deadline:
        yield (
            f"at {at} what is left is brought to zero replicas, or deleted where nothing scales it, "
            "whatever its budgets say"
        )
    elif spec.delete_after_deadline:
        yield f"at {at} what is left is deleted, whatever its budgets say"
    else:
        yield f"from {at} on nothing is evicted any more: what is left stays"
