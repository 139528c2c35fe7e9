"""Which of the pods that wait for room are released, and in which order.

Within a queue: higher priority first, then who has waited longest, then by UID. Between queues, from root
down, at each level by

1. `spec.priority` of the queues, the higher first;
2. queues that use less than they deserve before those that borrow;
3. the share: the largest part of what a queue deserves that it uses (`deserved`); of one that borrows, the
   largest part of the whole that it uses beyond that, divided by `spec.weight`. The whole is the capability
   of `root`; of what that does not name, what nodes have, where that is watched, else all that is used and
   asked for as the pass begins;
4. the name.

The pods of a queue that has queues below it stand beside those queues, with its own priority.

Pods of one queue with equal requests are one class. A pod without room blocks its class: those behind it need
as much. With `dequeueStrategy: fifo` it closes its queue. Who is blocked is not looked at again before there
may be room (`waiting_index`). Who has waited for long has a claim, and others leave it room (`claims`).

Invariants
- A release counts at once: what is released next has room beside it.
- A release re-keys the queues of its own chain alone. So a pass takes as many steps as there are classes to
  be looked at and pods to be released, and for each as many as its queue is deep, each with the logarithm of
  a heap.
- The minimum of a gang (`gangs`) stands like one pod that requests what all its pods request: it is yielded
  whole or not at all. A pass ends before one that has more pods than are to be released in it: what is
  written in one step is all of it, and those behind it do not pass it.
- Of gangs that ask for the turn (`usage.TURN`) and have room, one of each scope is released at the end of a
  pass, in the order of `gang_turns`, whatever its priority: else those that can never be placed, of a higher
  priority or in a queue that uses less, would have it for ever.
- The order does not depend on the order in which pods are given.
- A pass may end at any pod: what was not looked at is looked at by the next one. Of one queue no more than
  `CLASSES_PER_PASS` are looked at in vain: then the others have their turn.

Source of 2 and 3: the order of queues in Volcano's plugin `capacity`.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterator

import msgspec

from queues.apimachinery.quantities import Amount
from queues.queue import ROOT
from queues.quota.lack import Lack, LackKind
from queues.quota.ledger import Ledger
from queues.quota.pod_classes import Line, PodClass, Rank, WaitingPod
from queues.quota.shares import RankKey, Shares
from queues.quota.usage import Usage, no_turn
from queues.quota.waiting_index import CLASSES_PER_PASS, WaitingIndex
from queues.tree import Tree


class _Node:
    """A queue of the tree with pods to be looked at, in it or below it."""

    def __init__(self, name: str, parent: _Node | None) -> None:
        self.name = name
        self.parent = parent
        self.line: Line | None = None
        #: Of its pods, the classes that were looked at in vain.
        self.failures = 0
        #: The children that have such pods, by key; one with an outdated key is put where it belongs.
        self.children: list[tuple[RankKey, _Node]] = []

        #: The class of its own whose pod is next.
        self.first: PodClass | None = None

    def look(self) -> None:
        """Its own pods have changed."""
        may_look = self.line is not None and self.failures < CLASSES_PER_PASS
        self.first = self.line.first if self.line is not None and may_look else None


class ReleasePass:
    """One pass over the pods that may have room. For one thread; in `ledger` the release of what is chosen
    begins, and `index` loses it.
    """

    def __init__(
        self,
        tree: Tree,
        index: WaitingIndex,
        *,
        ledger: Ledger,
        now: float = 0.0,
        most: int = sys.maxsize,
        goes_on: Callable[[], bool] = lambda: True,
        pause: Callable[[], object] = lambda: None,
    ) -> None:
        """`now`: monotonic seconds. `most`: so many pods are released at most. `goes_on`: asked before each
        pod is looked at; the pass ends where it says no. `pause`: called between steps before that.
        """
        self._index = index
        self._ledger = ledger
        self._usage = usage = ledger.usage
        self._now = now
        self._left = most
        #: The pods of the entry before which the pass has ended, since that has more than were left.
        self.awaits = 0
        #: The classes that have room, and ask for the turn.
        self._for_turn: list[PodClass] = []
        self._goes_on = goes_on
        self._shares = Shares(tree, usage, whole=whole_of(usage, index), waiting=index.requested_by_queue)
        self._nodes: dict[str, _Node] = {ROOT: _Node(ROOT, None)}
        for line in index.open_lines(usage, now=now, pause=pause):
            own = tree.get(line.queue)
            if own is not None and tree.chain(line.queue).broken is None:
                self._add(line, tree)
            else:
                self._block_all(line)
        for node in self._nodes.values():
            heapq.heapify(node.children)

    def __iter__(self) -> Iterator[WaitingPod]:
        """Yield the pods, and the gangs, in the order of their release; each counts once it is yielded."""
        try:
            yield from self._in_order()
            yield from self._next_turns()
        finally:
            for pods in self._for_turn:
                scopes = self._usage.turn_scopes(pods.line.queue, pods.requests)
                if pods.pods and self._usage.turns.taken.isdisjoint(scopes):  # the pass has ended before
                    self._index.reopen(pods.head.uid)

    def _in_order(self) -> Iterator[WaitingPod]:
        root = self._nodes[ROOT]
        while (found := _first(root)) is not None and self._goes_on():
            node, pods = found
            pod = pods.head
            lack = self._usage.lack(pod.queue, pod.requests)
            if lack is not None:
                node.failures += 1
                self._block(pods, lack)
            elif (claimed := self._claimed(pods)) is not None:
                node.failures += 1
                self._block(pods, msgspec.structs.replace(claimed, kind=LackKind.CLAIM), until=claimed)
            elif pods.asks_for_turn:
                self._for_turn.append(pods)
                self._block(pods, no_turn(self._usage.scope(pod.queue)))
            elif pod.size > self._left:
                self.awaits = pod.size
                self._left = 0
                return
            else:
                self._release(pods, pod)
                self._settle(node)
                yield pod
                continue
            self._settle(node)

    def _next_turns(self) -> Iterator[WaitingPod]:
        """Of those that ask for the turn the first that has room still, in each scope."""

        def order(pods: PodClass) -> Rank:
            head = pods.head
            return self._usage.turns.last(head.queue), head.since, head.uid

        for pods in sorted(self._for_turn, key=order):
            pod = pods.head
            lack = self._usage.lack(pod.queue, pod.requests)
            if lack is not None and lack.kind is LackKind.TURN:
                self._block(pods, lack)  # which turn it waits for is known now
            elif lack is None and self._claimed(pods) is None:
                if pod.size > self._left:
                    self.awaits = pod.size
                    return
                self._release(pods, pod)
                yield pod

    def _release(self, pods: PodClass, pod: WaitingPod) -> None:
        self._index.claims.released(pods)
        self._index.remove(pod.uid)
        self._ledger.begin(pod)
        if pods.asks_for_turn:
            self._usage.turns.take(self._usage.turn_scopes(pod.queue, pod.requests), pod.queue)
        self._left -= pod.size

    def _claimed(self, pods: PodClass) -> Lack | None:
        """What is left to those that have waited for longest."""
        return self._index.claims.lack(pods, ledger=self._ledger, shares=self._shares, now=self._now)

    def _add(self, line: Line, tree: Tree) -> None:
        node = self._node(line.queue, tree)
        if tree.children(line.queue):  # its pods stand beside the queues below it
            own = _Node(line.queue, node)
            own.line = line
            own.look()
            node.children.append((self._shares.key(line.queue), own))
        else:
            node.line = line
            node.look()

    def _node(self, queue: str, tree: Tree) -> _Node:
        known = self._nodes.get(queue)
        if known is not None:
            return known
        own = tree.queues[queue]
        parent = self._node(own.parent or ROOT, tree)
        node = self._nodes[queue] = _Node(queue, parent)
        parent.children.append((self._shares.key(queue), node))
        return node

    def _block(self, pods: PodClass, lack: Lack, *, until: Lack | None = None) -> None:
        self._index.block(pods, lack, amount=self._decisive(pods, lack, until), until=until)
        self._index.claims.blocked(pods, lack, now=self._now)

    def _decisive(self, pods: PodClass, lack: Lack, until: Lack | None) -> Amount | None:
        """See `Usage.decisive`. What guarantees leave beside a claim depends on where the claim is, too."""
        awaited = until or lack
        if until is not None and until.kind is LackKind.GUARANTEES:
            return None
        return self._usage.decisive(pods.line.queue, awaited)

    def _block_all(self, line: Line) -> None:
        """The queue is not in the tree."""
        while (pods := line.first) is not None:
            lack = self._usage.lack(line.queue, pods.requests)
            self._block(pods, lack or Lack(line.queue, kind=LackKind.NO_QUEUE))

    def _settle(self, node: _Node) -> None:
        """Put the queue of the pod, and its ancestors, where they belong now; drop those without pods.

        Each of them is the first of its parent's children.
        """
        node.look()
        while (parent := node.parent) is not None:
            if node.children or node.first is not None:
                heapq.heapreplace(parent.children, (self._shares.key(node.name), node))
            else:
                heapq.heappop(parent.children)
            node = parent


def _first(node: _Node) -> tuple[_Node, PodClass] | None:
    """The queue whose pod is next, and the class of that; None if none is to be looked at any more."""
    while node.children:
        node = node.children[0][1]
    first = node.first
    return None if first is None else (node, first)


def whole_of(usage: Usage, index: WaitingIndex) -> dict[str, Amount]:
    """What there is to share (see `release_order`)."""
    whole = dict(usage.used(ROOT))
    for resource, amount in index.requested.items():
        whole[resource] = whole.get(resource, 0) + amount
    return whole | usage.whole
