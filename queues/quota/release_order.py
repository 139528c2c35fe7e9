"""Which of the pods that wait for room are released, and in which order.

Within a queue: higher priority first, then who has waited longest, then by UID. Between queues, from root
down, at each level by

1. `spec.priority` of the queues, the higher first;
2. queues that use less than they deserve before those that borrow;
3. the share: the largest part of what a queue deserves that it uses, of the resources that `deserved` names;
   of a queue that deserves nothing, and of one that borrows, the largest part of the whole that it uses,
   divided by `spec.weight`. The whole is the capability of `root`; of what that does not name, all that is
   used and asked for as the pass begins;
4. the name.

The pods of a queue that has queues below it stand beside those queues, with its own priority.

Pods of one queue with equal requests are one class. A pod without room blocks its class for this pass: those
behind it need as much. With `dequeueStrategy: fifo` it blocks its queue.

Invariants
- A release counts at once: what is released next has room beside it.
- A release re-keys the queues of its own chain alone. So a pass takes as many steps as there are pods, and
  for each release as many as its queue is deep, each with the logarithm of a heap.
- The order does not depend on the order in which pods are given.

Source of 2 and 3: the order of queues in Volcano's plugin `capacity`.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from queues.apimachinery.quantities import Amount
from queues.queue import ROOT, DequeueStrategy
from queues.quota.lack import Lack, LackKind
from queues.quota.shares import Key, Shares
from queues.quota.usage import Requests, Usage
from queues.tree import Tree


class WaitingPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that waits for room. `requests`: as `quota_requests` gives them. `since`: its creation."""

    uid: str
    queue: str
    requests: Requests
    priority: int
    since: datetime

    @property
    def rank(self) -> tuple[int, datetime, str]:
        return -self.priority, self.since, self.uid


class _Line:
    """The pods of one queue, class by class."""

    def __init__(self, queue: str, pods: Iterable[WaitingPod], *, is_fifo: bool) -> None:
        self.queue = queue
        self._is_fifo = is_fifo
        classes: dict[Requests, list[tuple[tuple[int, datetime, str], WaitingPod]]] = {}
        for pod in pods:
            classes.setdefault(pod.requests, []).append((pod.rank, pod))
        for each in classes.values():
            heapq.heapify(each)
        self._classes = classes
        self._heads = [(each[0][0], requests) for requests, each in classes.items()]
        heapq.heapify(self._heads)

    def __bool__(self) -> bool:
        return bool(self._heads)

    @property
    def head(self) -> WaitingPod:
        return self._classes[self._heads[0][1]][0][1]

    def pop(self) -> None:
        """The head is released."""
        _, requests = self._heads[0]
        pods = self._classes[requests]
        heapq.heappop(pods)
        if pods:
            heapq.heapreplace(self._heads, (pods[0][0], requests))
        else:
            heapq.heappop(self._heads)

    def block(self) -> Iterator[WaitingPod]:
        """The head has no room: yield the pods that wait with it, and leave them out of this pass."""
        while self._heads:
            _, requests = heapq.heappop(self._heads)
            yield from (pod for _, pod in self._classes[requests])
            if not self._is_fifo:
                return


class _Node:
    """A queue of the tree with pods in it or below it."""

    def __init__(self, name: str, parent: _Node | None) -> None:
        self.name = name
        self.parent = parent
        self.line: _Line | None = None
        #: The children that have pods, by key; one with an outdated key is put where it belongs.
        self.children: list[tuple[Key, _Node]] = []


class ReleasePass:
    """One pass over all pods that wait. For one thread; `usage` gets what is released."""

    def __init__(self, tree: Tree, pods: Mapping[str, Collection[WaitingPod]], *, usage: Usage) -> None:
        """`pods`: by queue."""
        self._usage = usage
        self._shares = Shares(tree, usage, whole=_whole(tree, usage, pods))
        #: Why pods wait, by UID.
        self.blocked: dict[str, Lack] = {}
        self._nodes: dict[str, _Node] = {ROOT: _Node(ROOT, None)}
        for queue, waiting in pods.items():
            own = tree.get(queue)
            line = _Line(queue, waiting, is_fifo=own is not None and own.dequeue is DequeueStrategy.FIFO)
            if line and own is not None and tree.chain(queue).broken is None:
                self._add(queue, line, tree)
            elif line:
                self._block(line, Lack(queue, kind=LackKind.NO_QUEUE))
        for node in self._nodes.values():
            heapq.heapify(node.children)

    def __iter__(self) -> Iterator[WaitingPod]:
        """Yield the pods in the order of their release; each counts once it is yielded."""
        root = self._nodes[ROOT]
        while (found := _first(root)) is not None:
            node, line = found
            pod = line.head
            lack = self._usage.lack(pod.queue, pod.requests)
            if lack is None:
                line.pop()
                self._usage.add(pod.queue, pod.requests)
            else:
                self._block_head(line, lack)
            self._settle(node)
            if lack is None:
                yield pod

    def _add(self, queue: str, line: _Line, tree: Tree) -> None:
        node = self._node(queue, tree)
        if tree.children(queue):  # its pods stand beside the queues below it
            own = _Node(queue, node)
            own.line = line
            node.children.append((self._shares.key(queue), own))
        else:
            node.line = line

    def _node(self, queue: str, tree: Tree) -> _Node:
        known = self._nodes.get(queue)
        if known is not None:
            return known
        own = tree.queues[queue]
        parent = self._node(own.parent or ROOT, tree)
        node = self._nodes[queue] = _Node(queue, parent)
        parent.children.append((self._shares.key(queue), node))
        return node

    def _block_head(self, line: _Line, lack: Lack) -> None:
        self.blocked.update((pod.uid, lack) for pod in line.block())

    def _block(self, line: _Line, lack: Lack) -> None:
        while line:
            self._block_head(line, lack)

    def _settle(self, node: _Node) -> None:
        """Put the queue of the pod, and its ancestors, where they belong now; drop those without pods.

        Each of them is the first of its parent's children.
        """
        while (parent := node.parent) is not None:
            if node.line or node.children:
                heapq.heapreplace(parent.children, (self._shares.key(node.name), node))
            else:
                heapq.heappop(parent.children)
            node = parent


def _first(node: _Node) -> tuple[_Node, _Line] | None:
    """The queue whose pod is next, and its pods; None if none waits any more."""
    while node.children:
        node = node.children[0][1]
    return (node, node.line) if node.line else None


def _whole(tree: Tree, usage: Usage, pods: Mapping[str, Collection[WaitingPod]]) -> dict[str, Amount]:
    whole = dict(usage.used(ROOT))
    for waiting in pods.values():
        for pod in waiting:
            for resource, amount in pod.requests:
                whole[resource] = whole.get(resource, 0) + amount
    return whole | dict(tree.queues[ROOT].capability or ())
