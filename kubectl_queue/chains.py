"""The chain of queues from one up to `root`, read by one GET each, as the rules see it.

Promises
- A queue or an ancestor that is not there is not in the tree: the rules say what that means.
- An ancestor that may not be read counts as Open; where the queue itself may not be, there is no answer.
"""

from __future__ import annotations

from kubectl_queue.answers import Object
from kubectl_queue.api import Queues
from kubectl_queue.errors import ForbiddenError, NotFoundError
from kubectl_queue.histories import changes
from kubectl_queue.reading import Snapshot, live, name, observed, queue
from kubectl_queue.tables import at
from kubectl_queue.waiting import find
from queues import explanation
from queues.conditions import ACCEPTING
from queues.explanation import Record


def read(api: Queues, named: str, *, first: Object | None = None) -> explanation.Queues | None:
    """The chain of a queue; `first`: the queue itself, where it has been read. None: it may not be read."""
    items: dict[str, Object] = {}
    complete = True
    waiting: str | None = named
    while waiting is not None and waiting not in items:
        try:
            item = first if first is not None and waiting == named else api.get(waiting)
        except NotFoundError:
            break
        except ForbiddenError:
            complete = False
            break
        items[waiting] = item
        waiting = queue(item).parent
    if not items and not complete:
        return None
    seen = Snapshot(items.values(), now=api.now, complete=complete)
    return explanation.Queues(
        tree=seen.tree, records={name(each): _record(each) for each in items.values()}, now=api.now
    )


def _record(item: Object) -> Record:
    return Record(
        changes=changes(item),
        created=str(at(item, "metadata.creationTimestamp") or ""),
        accepting=str(find(item, ACCEPTING).get("message") or ""),
        observed=observed(item),
        live=live(item),
    )
