"""The pods that wait for room, kept from one pass to the next, so that an event costs what it concerns.

Pods of one queue with equal requests are a class. A class is

| it is    | when                                     | and then                                          |
|----------|------------------------------------------|---------------------------------------------------|
| open     | it is new, or there may be room for it   | the next pass looks at its first pod              |
| blocked  | its first pod had no room                | it subscribes to the queue and the resource that  |
|          |                                          | lacked (`subscriptions`), and is left alone until |
|          |                                          | there is room                                     |

A queue with `dequeueStrategy: fifo` is closed by the first class that lacks room: the pods behind it wait
for what that one lacks. The queue is open again once that class is, or once a class before it is. A class
that can never go, or waits for something else than room, closes nothing (`Lack.holds_up_others`).

Invariants
- A class that is blocked has no room: use only grows within a pass, and what falls between two passes is
  told to the index (`fell`). So a pass over the open classes releases the same pods, in the same order, as
  one over all of them.
- Each pod of a blocked class has the reason of its class. It is a true one; a pass over all might name
  another, where several resources lack room.
- A claim comes and goes, and its text would be a write for each pod of the class each time. So pods that have
  been told another reason keep it while a claim is all that holds them back.
- A change of the tree looks at all classes again (`look_at_all`). What changes the room of a queue, and is
  not its use, is told as `look_at`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence, Set

import msgspec

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.queue import DequeueStrategy
from queues.quota.claims import Claims
from queues.quota.lack import Lack, LackKind
from queues.quota.pod_classes import Line, PodClass, WaitingPod
from queues.quota.subscriptions import Subscriptions
from queues.quota.usage import Usage, is_turn
from queues.tree import Tree

#: Classes of a queue that are looked at in one pass though they have no room, at most. A tenant may submit
#: 100,000 pods, each with requests of its own.
CLASSES_PER_PASS = 100
#: So many are opened between two pauses.
CLASSES_OF_A_STEP = 8


class WaitingIndex:
    """For one thread."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._lines: dict[str, Line] = {}
        self._class_of: dict[str, PodClass] = {}
        #: The queues that may have an open class.
        self._open: dict[str, Line] = {}
        self._subscriptions = Subscriptions()
        self.claims = Claims(tree)
        #: Pods that are blocked, whose reason was not taken yet.
        self._untold: set[str] = set()
        #: What all pods that wait request, by resource, but for these classes, of which others were counted.
        self._requested: dict[str, Amount] = {}
        self._uncounted: dict[PodClass, None] = {}

    @classmethod
    def of(cls, tree: Tree, pods: Mapping[str, Collection[WaitingPod]]) -> WaitingIndex:
        """An index of these pods, by queue."""
        index = cls(tree)
        for waiting in pods.values():
            for pod in waiting:
                index.put(pod)
        return index

    def __len__(self) -> int:
        return len(self._class_of)

    def in_queue(self, queue: str) -> list[str]:
        """The pods that wait in this queue, by UID."""
        line = self._lines.get(queue)
        return list(line.uids()) if line is not None else []

    @property
    def requested(self) -> Mapping[str, Amount]:
        """What all pods that wait request, by resource."""
        for pods in self._uncounted:
            _add(self._requested, pods.requests, times=len(pods.pods) - pods.counted)
            pods.counted = len(pods.pods)
        self._uncounted.clear()
        return self._requested

    def get(self, uid: str) -> WaitingPod | None:
        found = self._class_of.get(uid)
        return None if found is None else found.pods[uid]

    # What changes

    def put(self, pod: WaitingPod) -> None:
        """It waits, or something of it has changed."""
        known = self.get(pod.uid)
        if known == pod:
            self._tell(pod.uid)
            return
        if known is not None:
            self.remove(pod.uid)
        line = self._line(pod.queue)
        pods = line.classes.get(pod.requests)
        if pods is None:
            pods = line.classes[pod.requests] = PodClass(line, pod.requests)
        pods.put(pod)
        self._class_of[pod.uid] = pods
        self._uncounted[pods] = None
        if line.closed_by is not None and line.closed_by is not pods and pod.rank < line.closed_by.rank:
            self._open_class(line.closed_by)  # another one is first
        if pods.lack is None and pods.rank[2] == pod.uid:
            self._open_class(pods)
        self._tell(pod.uid)

    def put_alike(self, pods: Sequence[WaitingPod]) -> None:
        """The same for pods of one queue with equal requests: what they have in common is done once."""
        queue, requests = pods[0].queue, pods[0].requests
        line = self._lines.get(queue)
        is_known = line is not None and (line.closed_by is not None or requests in line.classes)
        if is_known or any(pod.uid in self._class_of for pod in pods):
            for pod in pods:
                self.put(pod)
            return
        line = self._line(queue)
        found = line.classes[requests] = PodClass(line, requests)
        found.put_first(pods)
        self._class_of.update(dict.fromkeys(found.pods, found))
        self._uncounted[found] = None
        self._open_class(found)
        found.add_untold(found.pods)

    def remove(self, uid: str) -> None:
        """It waits no more, or was released."""
        self._untold.discard(uid)
        pods = self._class_of.pop(uid, None)
        if pods is None:
            return
        line = pods.line
        was_first = line.closed_by is pods and pods.rank[2] == uid
        pods.discard(uid)
        self._uncounted[pods] = None
        if pods.pods:
            if was_first:
                self._open_class(pods)  # one of another class may be first
            return
        del line.classes[pods.requests]
        pods.entry = None
        self._subscriptions.remove(pods)
        self.claims.forget(pods)
        if line.closed_by is pods:
            line.closed_by = None
            self._open[line.queue] = line
        if not line.classes:  # users choose queue names
            del self._lines[line.queue]
            self._open.pop(line.queue, None)

    def remove_all(self, uids: Set[str]) -> None:
        """Remove those of these that are there."""
        for uid in self._class_of.keys() & uids:
            self.remove(uid)

    def look_at_all(self, tree: Tree) -> None:
        """The queues are others now: each class may have room."""
        self._tree = tree
        self._subscriptions = Subscriptions()
        self.claims.look_at_all(tree)
        for line in self._lines.values():
            line.set_strategy(is_fifo=self._is_fifo(line.queue))
            self._open[line.queue] = line

    def fell(self, queue: str, resource: str) -> None:
        """The queue, or one below it, uses less of the resource."""
        self._subscriptions.fell(queue, resource)

    def reopen(self, uid: str) -> None:
        """There may be room for the pod, and for those like it, for a reason of its own."""
        pods = self._class_of.get(uid)
        if pods is not None and pods.lack is not None:
            self._open_class(pods)

    def look_at(self, queue: str) -> None:
        """There may be room in the queue for another reason than that less is used."""
        self._subscriptions.look_at(queue)

    # Pods that ask for room of others (`giving_back`)

    @property
    def queues(self) -> list[str]:
        """The queues with pods that wait."""
        return list(self._lines)

    def blocked_in(self, queue: str, *, most: int) -> list[WaitingPod]:
        """The first of its pods that lack room, in order. What can never fit, what waits for something else
        than room, and what waits for a claim, is left out.
        """
        line = self._lines.get(queue)
        if line is None:
            return []
        blocked = (
            pod
            for pods in line.classes.values()
            if (lack := line.lack_of(pods)) is not None
            and lack.holds_up_others
            and lack.kind is not LackKind.CLAIM
            for pod in pods.pods.values()
        )
        return heapq.nsmallest(most, blocked, key=lambda pod: pod.rank)

    def first_of(self, queue: str, requests: Requests) -> WaitingPod | None:
        """The first pod of this class."""
        line = self._lines.get(queue)
        pods = line.classes.get(requests) if line is not None else None
        return pods.head if pods is not None else None

    def number_of(self, queue: str, requests: Requests) -> int:
        """How many pods of this class wait for room: 0 where it can never go, or waits for something else."""
        line = self._lines.get(queue)
        pods = line.classes.get(requests) if line is not None else None
        if pods is None or (pods.lack is not None and not pods.lack.holds_up_others):
            return 0
        return len(pods.pods)

    def tell_again(self, queue: str, requests: Requests) -> None:
        """The reason of this class is to be taken again."""
        line = self._lines.get(queue)
        pods = line.classes.get(requests) if line is not None else None
        for uid in pods.pods if pods is not None else ():
            self._tell(uid)

    def tell_all_again(self, queue: str) -> None:
        """The reasons of all pods of this queue are to be taken again."""
        for uid in self.in_queue(queue):
            self._tell(uid)

    def release(self, pod: WaitingPod) -> None:
        """It was released, out of the order of a pass."""
        self.claims.released(self._class_of[pod.uid])
        self.remove(pod.uid)

    # A pass

    @property
    def is_due(self) -> bool:
        """Whether a pass has something to look at."""
        while self._open:
            queue, line = next(iter(self._open.items()))
            if line.first is not None:
                return True
            del self._open[queue]
        return self._subscriptions.is_due or self.claims.has_freed

    def open_lines(
        self, usage: Usage, *, now: float, pause: Callable[[], object] = lambda: None
    ) -> list[Line]:
        """The queues with a class that is to be looked at, now that so much is used. As a pass begins.
        `pause`: called between some classes and others.
        """
        for pods in self.claims.take_freed(now=now):
            if pods.line.classes.get(pods.requests) is pods and pods.lack is not None:
                self._open_class(pods)
        for number, pods in enumerate(
            self._subscriptions.take(usage, most=CLASSES_PER_PASS, pause=pause), start=1
        ):
            self._open_class(pods)
            if not number % CLASSES_OF_A_STEP:
                pause()
        lines = [line for line in self._open.values() if line.first is not None]
        self._open = {line.queue: line for line in lines}
        return lines

    def block(
        self, pods: PodClass, lack: Lack, *, amount: Amount | None = None, until: Lack | None = None
    ) -> None:
        """Its first pod has no room. `until`: what it waits for, where that is another reason. `amount`: what
        has to fall by what is missing (`Usage.decisive`).
        """
        line = pods.line
        pods.lack = lack
        closes = line.is_fifo and lack.holds_up_others
        if closes:
            line.closed_by = pods
        elif line.is_fifo:
            pods.take_own_reason()
        if lack.resource and not lack.never:
            self._subscriptions.add(pods, until or lack, amount=amount)
        reason, shown = pods.reason, msgspec.structs.replace(lack, missing=0, resource="", by_claims=False)
        keeps = lack.kind is LackKind.CLAIM and reason.shown is not None
        if reason.shown != shown and not keeps:
            reason.shown = shown
            self._untold.update(line.held_uids() if closes else pods.pods)
        else:
            self._untold |= reason.untold
        reason.untold.clear()

    # Reasons

    def lack_of(self, uid: str) -> Lack | None:
        """Why the pod waits; None if it is still to be looked at, or does not wait."""
        pods = self._class_of.get(uid)
        return None if pods is None else pods.line.lack_of(pods)

    def take_untold(self) -> dict[str, Lack]:
        """The pods that are blocked, of which the reason was not taken yet, or is another one."""
        uids, self._untold = self._untold, set()
        told: dict[str, Lack] = {}
        by_class: dict[PodClass, list[str]] = {}
        for uid in uids:
            if (of_uid := self._class_of.get(uid)) is not None:
                by_class.setdefault(of_uid, []).append(uid)
        for pods, of_class in by_class.items():
            lack = pods.line.lack_of(pods)
            if lack is None:
                pods.add_untold(of_class)
            else:
                told.update(dict.fromkeys(of_class, _told(pods, lack)))
        return told

    def _tell(self, uid: str) -> None:
        """Tell its reason now, or once it is blocked."""
        pods = self._class_of.get(uid)
        if pods is None:
            return
        if pods.line.lack_of(pods) is None:
            pods.add_untold((uid,))
        else:
            self._untold.add(uid)

    def requested_by_queue(self) -> dict[str, dict[str, Amount]]:
        """What the pods of each queue request, without those below it, and without those that have never
        room.
        """
        requested: dict[str, dict[str, Amount]] = {}
        for queue, line in self._lines.items():
            for requests, pods in line.classes.items():
                if pods.lack is None or not pods.lack.never:
                    _add(requested.setdefault(queue, {}), requests, times=len(pods.pods))
        return requested

    def _line(self, queue: str) -> Line:
        known = self._lines.get(queue)
        if known is None:
            known = self._lines[queue] = Line(queue, is_fifo=self._is_fifo(queue))
        return known

    def _is_fifo(self, queue: str) -> bool:
        own = self._tree.get(queue)
        return own is not None and own.dequeue is DequeueStrategy.FIFO

    def _open_class(self, pods: PodClass) -> None:
        line = pods.line
        closing = line.closed_by
        for each in (pods, closing) if closing is not None and pods.rank < closing.rank else (pods,):
            self._subscriptions.remove(each)
            line.open(each)
        self._open[line.queue] = line


def _told(pods: PodClass, lack: Lack) -> Lack:
    """What the pods of the class have been told, where a claim alone holds it back."""
    shown = pods.reason.shown
    is_kept = lack.kind is LackKind.CLAIM and shown is not None and shown.kind is not LackKind.CLAIM
    return shown if is_kept and shown is not None else lack


def _add(amounts: dict[str, Amount], requests: Requests, *, times: int) -> None:
    for resource, amount in requests:
        if is_turn(resource):
            continue
        total = amounts.get(resource, 0) + times * amount
        if total:
            amounts[resource] = total
        else:
            amounts.pop(resource, None)
