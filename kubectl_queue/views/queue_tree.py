"""The rows of the tree of queues: each with its state, its pods and what causes that.

Promises
- Every queue has one row: below its parent, or at the left edge if its chain is broken. Parents come first.
- The state is the verdict of the rules on what was read. Where the controller has written another one, or
  none, or has not acknowledged the stop, the row says so.
- The pods of a queue are its own and those of all below it, as far as they are counted.
- The structure of the rows (`as_structure`) has the same queues in the same order.
- A row depends on its queue, on what that inherits from those above it, and on the counts of those below it:
  `changed_rows` says which rows a change concerns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kubectl_queue.objects.fields import Object, condition_of, condition_since, spec_of, status_of
from kubectl_queue.objects.queues import QueueObjects, may_be_live, stop_acknowledgement
from kubectl_queue.objects.quotas import quota_use
from kubectl_queue.views import drain_status as drains
from kubectl_queue.views.text import first_line, with_time_left
from queues.causes import Cause, CauseKind
from queues.drain.progress import DRAINED
from queues.queue import ROOT, Queue
from queues.quota.report import use_text
from queues.states import Desired, State, StopPolicy
from queues.status.conditions import ACTIVE
from queues.status.stop_status import Acknowledgement, waiting_for
from queues.text import printable
from queues.tree import Tree
from queues.verdict import Verdict
from queues.windows.in_window import written_on
from queues.windows.texts import clock, tree_text


class TreeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One queue. `parent`: the queue of the row that it stands below; "" at the left edge.

    `pending`, `running`: pods of the branch; None where none are counted yet. `cause`: the queue to mend, and
    what the controller has not written yet, on one line. `stop_pending`: its stop is not acknowledged.
    `drained`: the reason of its condition Drained; "" where it does not drain, or that is not judged yet.
    `quota`: what is used of its own capability, and how many pods of the branch wait for room.
    """

    name: str
    parent: str
    state: State = State.OPEN
    stop_policy: StopPolicy = StopPolicy.NONE
    pending: int | None = None
    running: int | None = None
    cause: str = ""
    stop_pending: bool = False
    drained: str = ""
    quota: str = ""


def tree_rows(queues: QueueObjects, *, top: str = "") -> list[TreeRow]:
    """The rows of `top` and what is below it, or of all queues."""
    return [tree_row(name, parent, queues) for name, parent in tree_order(queues.tree, top=top)]


def tree_order(tree: Tree, *, top: str = "") -> Iterator[tuple[str, str]]:
    """The queues in the order of their rows, each with its `TreeRow.parent`."""
    for start in [top] if top else _tops(tree):
        yield from _with_parents(start, tree)


def as_structure(rows: Sequence[TreeRow]) -> list[dict[str, Any]]:
    """The same as a structure: each queue with those below it as its `children`."""
    queues: dict[str, dict[str, Any]] = {}
    tops: list[dict[str, Any]] = []
    for row in rows:
        queues[row.name] = _document(row)
        (queues[row.parent]["children"] if row.parent else tops).append(queues[row.name])
    return tops


def _document(row: TreeRow) -> dict[str, Any]:
    """A count that is not known is not there."""
    counts = {"pending": row.pending, "running": row.running}
    return {
        "name": row.name,
        "state": row.state.value,
        "stopPolicy": row.stop_policy.value,
        "pods": {key: count for key, count in counts.items() if count is not None},
        "cause": row.cause,
        "children": [],
    }


def _tops(tree: Tree) -> list[str]:
    """`root`, then each queue whose parent is missing, then one queue of each cycle."""
    reached = set(tree.subtree(ROOT))
    tops = [ROOT]
    orphans = sorted(name for name in tree if name != ROOT and (tree.queues[name].parent or ROOT) not in tree)
    for name in (*orphans, *sorted(tree)):
        if name not in reached:
            tops.append(name)
            reached |= tree.subtree(name)
    return tops


def _with_parents(top: str, tree: Tree) -> Iterator[tuple[str, str]]:
    """Each queue with the one that it is drawn below, parents first; the top has none."""
    seen = {top}
    waiting = [(top, "")]
    while waiting:
        name, parent = waiting.pop()
        yield name, parent
        children = [child for child in tree.children(name) if child not in seen]
        seen.update(children)
        waiting += [(child, name) for child in reversed(children)]


def tree_row(name: str, parent: str, queues: QueueObjects) -> TreeRow:
    """The row of one queue. `parent`: as in `TreeRow`."""
    item = queues.items.get(name)
    if item is None:
        return TreeRow(name=name, parent=parent, cause="not there yet")
    verdict = queues.decisions.verdict(name, live=may_be_live(item))
    queue = queues.tree.queues[name]
    branch = queues.from_top(name)
    is_pending = _is_stop_pending(name, verdict, queues)
    notes = [
        *_causes(verdict, queues),
        *_end(queue, queues),
        *_namespaces(queue),
        *_drain(branch, verdict),
        *_differing_status(verdict, str(status_of(item).get("state") or "")),
        *(_acknowledgement(item) if is_pending else _acknowledged(item, verdict)),
    ]
    return TreeRow(
        name=name,
        parent=parent,
        state=verdict.state,
        stop_policy=queue.stop_policy,
        pending=_counted("pending", branch),
        running=_counted("running", branch),
        cause=first_line("; ".join(notes)),
        stop_pending=is_pending,
        drained=str(condition_of(item, DRAINED).get("reason") or "") if verdict.drains else "",
        quota=_quota(item, queue),
    )


def _quota(item: Object, queue: Queue) -> str:
    """Empty where the controller has written nothing of a quota."""
    use = quota_use(item)
    if use is None:
        return ""
    waiting = f"{use.waiting} {'waits' if use.waiting == 1 else 'wait'} for room" if use.waiting else ""
    return "; ".join(filter(None, (use_text(use.used, dict(queue.capability or ())), waiting)))


def _counted(key: str, branch: Sequence[Object]) -> int | None:
    counts = [status_of(item).get("pods") or {} for item in branch]
    numbers = [int(count[key] or 0) for count in counts if key in count]
    return sum(numbers) if numbers else None


def _end(queue: Queue, queues: QueueObjects) -> Iterator[str]:
    """When the queue's own stop ends by itself."""
    if queue.is_suspended_or_held and queue.resume_time is not None:
        yield f"resumes at {with_time_left(queue.resume_time, now=queues.now)}"


def _namespaces(queue: Queue) -> Iterator[str]:
    """Which namespaces its own selector selects, where that is not all."""
    if queue.namespace_selector is not None:
        yield f"for namespaces with {queue.namespace_selector.text}"


def _drain(branch: Sequence[Object], verdict: Verdict) -> Iterator[str]:
    """How far the drain of the branch is."""
    if verdict.drains:
        text = drains.short_text(branch)
        yield from [text] if text else []


def _causes(verdict: Verdict, queues: QueueObjects) -> Iterator[str]:
    if verdict.broken:
        yield str(verdict.broken)
        return
    for cause in (verdict.stop, verdict.refusal):
        if cause is not None:
            yield _cause(cause, queues) if cause.window else _of_spec(cause)


def _cause(cause: Cause, queues: QueueObjects) -> str:
    """Of a window: what it sets, until when on its own clock, and whose it is."""
    on = next(
        (on for on in written_on(spec_of(queues.items[cause.by])) if on.window.name == cause.window), None
    )
    until = f" until {clock(on.until, on.window.zone, now=queues.now)}" if on is not None else ""
    what = cause.policy.value if cause.kind is CauseKind.STOPPED else Desired.SUSPENDED.value
    whose = tree_text(cause.window, cause.by) if cause.by != cause.queue else f"window {cause.window}"
    reason = printable(cause.reason)
    return f"{what}{until}, {whose}" + (f" ({reason})" if reason else "")


def _of_spec(cause: Cause) -> str:
    is_policy = cause.kind is CauseKind.STOPPED
    what = f"stopPolicy {cause.policy}" if is_policy else cause.kind.value.lower()
    by = "" if cause.by == cause.queue else f" {'of' if is_policy else 'by'} {cause.by}"
    reason = printable(cause.reason)
    return what + by + (f" ({reason})" if reason else "")


def _is_stop_pending(name: str, verdict: Verdict, queues: QueueObjects) -> bool:
    """Whether a stop is not acknowledged, where the server says for which specs it is."""
    item = queues.items[name]
    if verdict.schedules or status_of(item).get("stop") is None:
        return False
    return stop_acknowledgement(item, chain=queues.chain(name)) is not Acknowledgement.ACKNOWLEDGED


def _acknowledgement(item: Object) -> Iterator[str]:
    text = waiting_for(status_of(item).get("stop"))
    yield f"not acknowledged yet{f' ({text})' if text else ''}"


def _acknowledged(item: Object, verdict: Verdict) -> Iterator[str]:
    """Since when the stop is known to hold, where the server says that it does."""
    since = condition_since(item, ACTIVE)
    if not verdict.schedules and status_of(item).get("stop") is not None and since:
        yield f"acknowledged since {since}"


def _differing_status(verdict: Verdict, written: str) -> Iterator[str]:
    if written != verdict.state:
        yield f"status still says {written}" if written else "no status yet"
