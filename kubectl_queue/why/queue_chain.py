"""The chain of queues from one up to `root`, read by one GET each, as the rules see it.

Promises
- A queue or an ancestor that is not there is not in the tree: the rules say what that means.
- An ancestor that may not be read counts as Open; where the queue itself may not be, there is no answer.
"""

from __future__ import annotations

from kubectl_queue.access.queue_api import Queues
from kubectl_queue.access.responses import Object
from kubectl_queue.errors import ForbiddenError, NotFoundError
from kubectl_queue.output.tables import at
from kubectl_queue.snapshot import (
    Snapshot,
    find,
    live,
    name,
    observed,
    queue,
    status,
    stop_acknowledgement,
)
from kubectl_queue.why.history import changes
from queues.status.conditions import ACCEPTING
from queues.status.stop_status import ObservedChain, waiting_for
from queues.why import explanation
from queues.why.explanation import QueueRecord


def read(api: Queues, named: str, *, first: Object | None = None) -> explanation.ObservedQueues | None:
    """The chain of a queue; `first`: the queue itself, where it has been read. None: it may not be read."""
    items, complete = _items(api, named, first=first)
    if not items and not complete:
        return None
    seen = Snapshot(items.values(), now=api.now, complete=complete)
    return explanation.ObservedQueues(
        tree=seen.tree,
        records={name(each): _record(each, chain=seen.chain(name(each))) for each in items.values()},
        now=api.now,
    )


def of(api: Queues, item: Object) -> ObservedChain:
    """The specs on the chain of a queue that was read; its ancestors are read now."""
    items, complete = _items(api, name(item), first=item)
    return Snapshot(items.values(), now=api.now, complete=complete).chain(name(item))


def _items(api: Queues, named: str, *, first: Object | None) -> tuple[dict[str, Object], bool]:
    """The queues of the chain by name, and whether each could be read."""
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
    return items, complete


def _record(item: Object, *, chain: ObservedChain) -> QueueRecord:
    return QueueRecord(
        changes=changes(item),
        created=str(at(item, "metadata.creationTimestamp") or ""),
        accepting=str(find(item, ACCEPTING).get("message") or ""),
        observed=observed(item),
        acknowledgement=stop_acknowledgement(item, chain=chain),
        waiting_for=waiting_for(status(item).get("stop")),
        live=live(item),
    )
