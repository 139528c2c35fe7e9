"""The gauges that follow from the store: set now and then, by the controller's thread."""

from __future__ import annotations

from cluster.cache.store import Store
from controller.context import ControllerContext
from queues.verdict import CauseKind


def set_gauges(context: ControllerContext) -> None:
    counting, store = context.counting, context.store
    counting.members.set(len(store.members))
    waiting = (member for queue in store.snapshot.tree for member in store.members.waiting_in(queue))
    counting.unguarded.set(sum(1 for member in waiting if not member.marked))
    absent = [queue for queue in store.members.queues() if _is_absent(store, queue)]
    counting.orphans.set(sum(len(store.members.in_queue(queue)) for queue in absent))
    for kind, number in store.unreadable.counts().items():
        counting.unreadable.labels(kind).set(number)
    states: dict[str, int] = {}
    for obj in list(store.queues.values()):
        states[obj.status.state] = states.get(obj.status.state, 0) + 1
    counting.queues.clear()
    for state, number in states.items():
        counting.queues.labels(state).set(number)


def _is_absent(store: Store, queue: str) -> bool:
    stop = store.snapshot.decision(queue).stop
    return not queue or (stop is not None and stop.kind is CauseKind.NOT_FOUND)
