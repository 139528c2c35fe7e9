"""What an edit loses, ends, stops or lets run (`queues.admission`), before it is made.

The server says it to whoever makes the edit, and knows who that is. Here it is for dry runs and questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kubectl_queue.edit.operation import Operation
from kubectl_queue.edit.preview import edited, preview_edit
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import condition_of, spec_of, status_of
from kubectl_queue.objects.queues import QueueObjects, changes_of
from kubectl_queue.objects.quotas import use_alone
from kubectl_queue.views.text import plural
from queues.admission.quota_edits import quota_consequences
from queues.admission.stop_edits import Consequence, consequences
from queues.admission.tree_edits import PodNumbers, end_of_other_stop, released_pods, tree_consequences
from queues.drain.model import may_keep
from queues.queue import ROOT
from queues.status.policy_condition import POLICY_RESOLVED


def stop_consequences(
    name: str, *, before: QueueObjects, after: QueueObjects, by: str = ""
) -> tuple[Consequence, ...]:
    """Those of the queue's own stop. `by`: who makes the edit, where that is known."""
    return consequences(
        before.tree.queues[name],
        after.tree.queues[name],
        now=before.now,
        by=by,
        history=changes_of(before.items[name]),
        waiting=released_pods(name, before=before.tree, after=after.tree, pods=_pods(before), now=before.now),
        other_stop=end_of_other_stop(name, tree=after.tree, now=before.now),
    )


def all_texts(name: str, *, before: QueueObjects, after: QueueObjects) -> tuple[str, ...]:
    """Everything that the server would warn of; of quotas where all queues were read."""
    return (
        *(one.text for one in stop_consequences(name, before=before, after=after)),
        *tree_consequences(
            name,
            before=before.tree,
            after=after.tree,
            pods=_pods(before),
            keeps=lambda each: each in after.items and may_keep(spec_of(after.items[each]).get("drain")),
            now=before.now,
            is_whole=before.complete,
        ),
        *(_quota_texts(name, before=before, after=after) if before.complete else ()),
    )


def _quota_texts(name: str, *, before: QueueObjects, after: QueueObjects) -> tuple[str, ...]:
    """What is used is as the statuses say. Where a scheduling policy counts, pods may wait by its rule, too:
    then none is said to go.
    """
    return quota_consequences(
        name,
        before=before.tree,
        after=after.tree,
        use=lambda each: use_alone(each, before.items, before.tree),
        now=before.now,
        overcommits=lambda each: bool(condition_of(before.items.get(each, {}), POLICY_RESOLVED)),
    )


def asked_texts(operation: Operation, names: Iterable[str], queues: QueueObjects) -> Iterator[str]:
    """What a user who edits these queues should be asked about before."""
    for name in names:
        if name not in queues.items:
            continue
        try:
            after = preview_edit(operation, name, queues).after
        except QueueError:  # it says so when its turn comes
            continue
        told = stop_consequences(name, before=queues, after=after)
        yield from (one.text for one in told if one.asks)


def stop_of_all_text(operation: Operation, names: Iterable[str], queues: QueueObjects) -> str:
    """What a stop of root means; "" for any other edit."""
    if ROOT not in names or ROOT not in queues.items:
        return ""
    try:
        after = preview_edit(operation, ROOT, queues).after
    except QueueError:  # it says so when its turn comes
        return ""
    if not queues.decisions.verdict(ROOT, live=True).schedules:
        return ""
    verdict = after.decisions.verdict(ROOT, live=True)
    if verdict.schedules:
        return ""
    running = sum(_pods(queues)(name).running for name in queues.items)
    what = (
        f"evicts what runs in them ({plural(running, 'pod')})" if verdict.drains else "starts nothing in them"
    )
    number = f"all {plural(len(queues.items), 'queue')}" if queues.complete else "all queues"
    return f"Root is above {number} of this cluster: this stops them all, and {what}."


def stop_of_each_text(operation: Operation, names: Iterable[str], queues: QueueObjects) -> str:
    """What an edit of each queue means, if it stops some; "" if it stops none."""
    after = edited(operation, names, queues)
    stopped = [
        name
        for name in names
        if queues.decisions.verdict(name, live=True).schedules
        and not after.decisions.verdict(name, live=True).schedules
    ]
    return f"This stops {plural(len(stopped), 'queue')} of this cluster." if stopped else ""


def _pods(queues: QueueObjects) -> Callable[[str], PodNumbers]:
    """The pods of a queue alone, by its status."""
    counts = {name: status_of(item).get("pods") or {} for name, item in queues.items.items()}
    numbers = {
        name: PodNumbers(running=int(each.get("running") or 0), waiting=int(each.get("pending") or 0))
        for name, each in counts.items()
    }
    return lambda name: numbers.get(name, PodNumbers())
