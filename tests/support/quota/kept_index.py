"""An index of the pods that wait, and what is used, as they live from pass to pass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from queues.queue import DequeueStrategy, Queue
from queues.quota.ledger import ALL_PODS, AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.quota.release_order import ReleasePass
from queues.quota.usage import Usage, quota_requests
from queues.quota.waiting_index import WaitingIndex
from queues.tree import Tree

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_queue(name: str, parent: str = "root", *, is_fifo: bool = False, **capability: int) -> Queue:
    strategy = DequeueStrategy.FIFO if is_fifo else DequeueStrategy.TRAVERSE
    return Queue(name=name, parent=parent, capability=tuple(sorted(capability.items())), dequeue=strategy)


def a_pod(name: str, of: str, *, priority: int = 0, age: int = 0, **requests: int) -> WaitingPod:
    wanted = quota_requests(tuple(sorted(requests.items())))
    return WaitingPod(name, of, wanted, priority, NOW - timedelta(seconds=age))


class Kept:
    """An index and a use that live from pass to pass."""

    def __init__(self, *queues: Queue, make: Callable[[Tree], WaitingIndex] = WaitingIndex) -> None:
        self.tree = Tree({each.name: each for each in queues})
        self.index = make(self.tree)
        self.ledger = Ledger(self.tree)
        self.running: dict[str, WaitingPod] = {}

    @property
    def usage(self) -> Usage:
        return self.ledger.usage

    def uses(self, of: str, **amounts: int) -> None:
        """Something else uses so much of the queue."""
        self.ledger.set_all(of, AmountReason.USED, {ALL_PODS: amounts.items()})

    def released(self, *, now: float = 0.0) -> list[str]:
        pods = list(ReleasePass(self.tree, self.index, ledger=self.ledger, now=now))
        self.running |= {pod.uid: pod for pod in pods}
        return [pod.uid for pod in pods]

    def end(self, uid: str) -> None:
        pod = self.running.pop(uid)
        self.ledger.take_back(pod)
        self.tell_falls()

    def tell_falls(self) -> None:
        for queue, resource in self.ledger.take_falls():
            self.index.fell(queue, resource)

    def change(self, *queues: Queue) -> None:
        self.tree = Tree({each.name: each for each in queues})
        self.ledger.begin_anew(self.tree)
        self.index.look_at_all(self.tree)
