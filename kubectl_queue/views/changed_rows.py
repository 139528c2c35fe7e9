"""Which rows of the tree (`queue_tree`) a change of some queues concerns.

Promise: a row that is not concerned is the same before and after the change. Concerned are

- the queues that have changed, and those above them, which count their pods, in the one tree or the other;
- where what a queue hands down differs, or time has changed it, all of those below it;
- where its spec differs otherwise, those below it that do not schedule: a stop is named with its reason, and
  is acknowledged for the generations of all specs above it.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from kubectl_queue.objects.queues import QueueObjects
from queues.queue import Queue
from queues.states import Desired

#: Seconds.
_QUARTER = 15 * 60


def concerned_rows(
    before: QueueObjects, after: QueueObjects, changed: Collection[str], *, aged: Collection[str] = ()
) -> set[str]:
    """The queues whose rows may differ.

    `changed`: those whose objects differ, or that have come or gone. `aged`: `changed_by_time`.
    """
    found = {*changed, *aged}
    for name in (*changed, *aged):
        for tree in (before.tree, after.tree):
            found.update(queue.name for queue in (tree.chain(name).queues if name in tree else ()))
        found |= _concerned_below(name, before, after, is_aged=name in aged)
    return found


def _concerned_below(name: str, before: QueueObjects, after: QueueObjects, *, is_aged: bool) -> set[str]:
    old, new = before.tree.get(name), after.tree.get(name)
    if is_aged or old is None or new is None or _handed_down(old) != _handed_down(new):
        return set(after.tree.subtree(name))
    if old == new:
        return set()
    return {each for each in after.tree.subtree(name) if not after.decisions.decision(each).schedules}


def changed_by_time(queues: QueueObjects, *, now: datetime) -> set[str]:
    """The queues whose stop has ended by itself since these were read, and those in a window where a day may
    have begun: the end of a window is written without its day on that day. Midnight of each zone is at a
    quarter of an hour.
    """
    is_quarter = queues.now.timestamp() // _QUARTER != now.timestamp() // _QUARTER
    return {
        name
        for name, queue in queues.tree.queues.items()
        if (is_quarter and queue.in_window)
        or ((end := queue.resume_time) is not None and queues.now < end <= now)
    }


def _handed_down(queue: Queue) -> tuple[object, ...]:
    """What the rows of those below it depend on, as far as they schedule: others are made again anyway."""
    reason = queue.reason if queue.desired is Desired.CLOSED else ""
    closes = queue.desired, queue.terminating, reason
    return queue.parent, closes, queue.stop_policy, queue.resume_time, queue.windows_on
