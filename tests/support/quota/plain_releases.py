"""Who is released, by the rules as they are written (`queues.quota.release_order`), in the slowest way.

All is counted anew for each step: capabilities, what is deserved, priorities, weights, both strategies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from queues.apimachinery.quantities import Amount
from queues.queue import ROOT, DequeueStrategy
from queues.quota.pod_classes import WaitingPod
from queues.tree import Tree

Uses = Iterable[tuple[str, Mapping[str, Amount]]]


def plain_releases(
    tree: Tree, waiting: Iterable[WaitingPod], uses: Uses, *, most: int = 10**9
) -> list[WaitingPod]:
    """`uses`: what is used, by queue. `most`: the pods that are released at most."""
    left, used, released = list(waiting), list(uses), list[WaitingPod]()
    asked = [(entry.queue, dict(entry.requests)) for entry in left]
    whole = _used(tree, ROOT, [*used, *asked])
    blocked: list[WaitingPod] = []
    while (entry := _next(tree, [each for each in left if each not in blocked], used, whole)) is not None:
        if not _has_room(tree, entry, used):
            blocked.append(entry)
            is_fifo = tree.queues[entry.queue].dequeue is DequeueStrategy.FIFO
            if is_fifo and _has_room(
                tree, entry, ()
            ):  # what would not fit into an empty queue closes nothing
                blocked += [each for each in left if each.queue == entry.queue and each not in blocked]
            continue
        if len(entry.uids) > most - sum(len(each.uids) for each in released):
            break
        left.remove(entry)
        released.append(entry)
        used.append((entry.queue, dict(entry.requests)))
    return released


def _used(tree: Tree, queue: str, uses: Uses) -> dict[str, Amount]:
    """What the queue and all below it use."""
    total: dict[str, Amount] = {}
    for name, amounts in uses:
        if name in tree and any(each.name == queue for each in tree.chain(name).queues):
            for resource, amount in amounts.items():
                total[resource] = total.get(resource, 0) + amount
    return total


def _has_room(tree: Tree, entry: WaitingPod, uses: Uses) -> bool:
    for queue in tree.chain(entry.queue).queues:
        used, capability = _used(tree, queue.name, uses), dict(queue.capability or ())
        for resource, amount in entry.requests:
            if resource in capability and used.get(resource, 0) + amount > capability[resource]:
                return False
    return True


def _next(
    tree: Tree, waiting: list[WaitingPod], uses: Uses, whole: Mapping[str, Amount]
) -> WaitingPod | None:
    """From `root` down: the first of the queues with entries; a queue's own stand beside those below it."""
    at = ROOT
    while waiting:
        own = [entry for entry in waiting if entry.queue == at]
        branches: dict[str, list[WaitingPod]] = {at: own} if own else {}
        for child in tree.children(at):
            below = [entry for entry in waiting if child in [q.name for q in tree.chain(entry.queue).queues]]
            if below:
                branches[child] = below
        first = min(branches, key=lambda name: _key(tree, name, uses, whole))
        waiting = branches[first]
        if first == at:
            return min(waiting, key=lambda entry: entry.rank)
        at = first
    return None


def _key(tree: Tree, name: str, uses: Uses, whole: Mapping[str, Amount]) -> tuple[int, bool, float, str]:
    queue, used = tree.queues[name], _used(tree, name, uses)
    limits: dict[str, Amount] = {}
    for above in tree.chain(name).queues:
        for resource, most in above.capability or ():
            limits[resource] = min(most, limits.get(resource, most))
    deserved = {
        resource: min(amount, limits.get(resource, amount)) for resource, amount in queue.deserved or ()
    }
    share = max((_part(used.get(resource, 0), amount) for resource, amount in deserved.items()), default=1.0)
    if share < 1:
        return -queue.priority, False, share, name
    beyond = [
        _part(max(0, amount - deserved.get(resource, 0)), whole.get(resource, 0))
        for resource, amount in used.items()
    ]
    return -queue.priority, True, max(beyond, default=0.0) / queue.weight, name


def _part(amount: Amount, whole: Amount) -> float:
    if whole:
        return float(amount / whole)
    return float("inf") if amount else 0.0
