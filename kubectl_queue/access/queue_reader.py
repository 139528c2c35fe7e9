"""Reads queues from the API server: all of them, or the chain of one.

Promise: where the user may not list queues, those that may be read are, and the answer is not `complete`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_queue.access.client import Queues
from kubectl_queue.errors import ForbiddenError, NotFoundError
from kubectl_queue.objects.fields import Object, name_of
from kubectl_queue.objects.queues import QueueObjects, queue_of
from queues.queue import ROOT
from queues.status.stop_status import ObservedChain

#: What shows one queue to who may not list them.
ONE = "kubectl queue get"


def read_queues(api: Queues, names: Iterable[str], *, command: str = ONE) -> QueueObjects:
    """All queues; only those of `names` that are there, where the user may not list queues. `command`: what
    shows one queue.

    Raises ForbiddenError where `names` is empty and the user may not list.
    """
    try:
        return QueueObjects(api.list().items, now=api.now)
    except ForbiddenError as exc:
        wanted = list(names)
        if not wanted:
            exc.add_note(f"; or name a queue that you may read: {command} NAME")
            raise
        items = [item for item in (_get_or_none(api, name) for name in wanted) if item is not None]
        return QueueObjects(items, now=api.now, complete=False)


def _get_or_none(api: Queues, name: str) -> Object | None:
    try:
        return api.get(name)
    except NotFoundError:
        return None


def read_chain(api: Queues, name: str) -> QueueObjects:
    """The queue and its ancestors up to `root`, with one GET each; a queue that is not there is left out.
    Root is read also where the chain does not reach it: it says whom to ask then (`queues.contacts`).

    Raises ForbiddenError where the queue itself may not be read.
    """
    try:
        item = api.get(name)
    except NotFoundError:
        return QueueObjects(_root(api), now=api.now)
    found = read_ancestors(api, item)
    if ROOT in found.items or not found.complete:
        return found
    return QueueObjects((*found.items.values(), *_root(api)), now=api.now)


def _root(api: Queues) -> list[Object]:
    """None where it is not there, or may not be read."""
    try:
        return [api.get(ROOT)]
    except (NotFoundError, ForbiddenError):
        return []


def read_ancestors(api: Queues, item: Object) -> QueueObjects:
    """A queue that was read, with its ancestors as they are now.

    An ancestor that is not there is left out. Not complete where one may not be read.
    """
    items = {name_of(item): item}
    complete = True
    while (parent := queue_of(item).parent) is not None and parent not in items:
        try:
            item = api.get(parent)
        except NotFoundError:
            break
        except ForbiddenError:
            complete = False
            break
        items[parent] = item
    return QueueObjects(items.values(), now=api.now, complete=complete)


def read_generations(api: Queues, item: Object) -> ObservedChain:
    """The generations on the chain of a queue that was read; its ancestors are read now."""
    return read_ancestors(api, item).chain(name_of(item))
